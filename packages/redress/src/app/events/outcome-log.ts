import type { Change } from '../../core/job/change.ts'
import { optionNames, refuseUnknownOptions } from '../../core/text/options.ts'
import type { Log } from '../../runtime/log.ts'
import type { AttemptReport } from '../../worker/options.ts'

export interface OutcomeLogOptions {
  /** The log level of completed jobs, which are many. Default: 'debug'. */
  complete?: 'debug' | 'info'
}

const OPTIONS = optionNames<OutcomeLogOptions>({ complete: true })

/** For `app.work({ onOutcome: outcomeLog(log) })`: one line per attempt that ended, always with the same fields. */
export function outcomeLog(log: Log, options: OutcomeLogOptions = {}): (report: AttemptReport) => void {
  refuseUnknownOptions('outcomeLog()', options, OPTIONS)
  const { complete = 'debug' } = options
  return (report) => {
    // The worker has logged already that this outcome does not count.
    if (report.answer === 'lost') return
    const { change } = report
    const fields = fieldsOf(report)
    switch (change.to) {
      case 'complete':
        return log[complete](fields, 'complete')
      case 'cancelled':
        return log.info({ ...fields, reason: change.note }, 'cancelled')
      case 'queued':
        if (change.failure === null) return log.info({ ...fields, reason: change.note }, change.cause)
        return log.warn({ ...fields, ...whyOf(change.failure), retry_in_ms: change.delayMs }, 'to be retried')
      case 'failed': {
        const said = change.failure.detail.split('\n', 1)[0]
        const why = { ...whyOf(change.failure), detail: said, dead_letter: change.deadLetter !== 'none' }
        return log.error({ ...fields, ...why }, 'failed')
      }
    }
  }
}

/** The fields of every line. Unknown ones are null, so that a search by a field works on all lines. */
function fieldsOf({ jobId, type, attempt, change, ranMs, breaker, trace }: AttemptReport): object {
  const failure = failureOf(change)
  const httpStatus = failure?.context.httpStatus
  return {
    event: change.to === 'queued' ? change.cause : change.to,
    job_id: jobId,
    type,
    status: change.to,
    attempt,
    duration_ms: ranMs === null ? null : Math.round(ranMs),
    error_code: failure?.code ?? null,
    gateway_status: typeof httpStatus === 'number' ? httpStatus : null,
    breaker: breaker?.name ?? null,
    breaker_state: breaker?.status ?? null,
    trace_id: trace === null ? null : (trace.split('-')[1] ?? null),
  }
}

type FailureInChange = NonNullable<Extract<Change, { to: 'failed' }>['failure']>

const failureOf = (change: Change): FailureInChange | null => ('failure' in change ? change.failure : null)

const whyOf = ({ phase, fault, decision }: FailureInChange): object => ({ phase, fault, because: decision.because })
