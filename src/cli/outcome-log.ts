import type { Log } from '../runtime/log.ts'
import type { Told } from '../worker/options.ts'

/** One line per outcome: W20 wants job, type and error of every failure; a success is only worth a debug line. */
export function outcomeLog(log: Log): (told: Told) => void {
  return ({ jobId, type, attempt, change, answer }) => {
    // The worker has logged already that this outcome does not count.
    if (answer === 'lost') return
    const fields = { job_id: jobId, type, attempt, status: change.to }
    switch (change.to) {
      case 'complete':
        return log.debug(fields, 'complete')
      case 'cancelled':
        return log.info({ ...fields, reason: change.note }, 'cancelled')
      case 'queued': {
        if (change.failure === null)
          return log.info({ ...fields, cause: change.cause, reason: change.note }, change.cause)
        const { code, stage, fault, decision } = change.failure
        return log.warn(
          { ...fields, code, stage, fault, retry_in_ms: change.delayMs, because: decision.because },
          'to be retried',
        )
      }
      case 'failed': {
        const { code, stage, fault, decision, detail } = change.failure
        const said = detail.split('\n')[0]
        return log.error({ ...fields, code, stage, fault, because: decision.because, detail: said }, 'failed')
      }
    }
  }
}
