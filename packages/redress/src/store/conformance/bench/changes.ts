import type { Change, DeadLetter, DecidedFailure, RequeueCause } from '../../../core/job/change.ts'
import {
  packSpent,
  spendFailure,
  spendManualRetry,
  spendReclaim,
  spendRelease,
  spendSnooze,
  unpackSpent,
} from '../../../core/policy/budget.ts'
import type { Intervention } from '../../contract/store.ts'

/** What core would have decided: the changes that a promise hands to the store. */

type Requeue = Extract<Change, { to: 'queued' }>
type Fail = Extract<Change, { to: 'failed' }>
interface SoFar {
  spent: string | null
}

export const complete = (result: string | null = null): Change => ({ to: 'complete', result })

export const cancelled = (note: string | null = null): Extract<Change, { to: 'cancelled' }> => ({
  to: 'cancelled',
  note,
})

export function failed(
  job: SoFar,
  { deadLetter = 'none', isPermanent = false }: { deadLetter?: DeadLetter; isPermanent?: boolean } = {},
): Fail {
  const failure = someFailure()
  const spent = packSpent(spendFailure(unpackSpent(job.spent), failure.code))
  return { to: 'failed', spent, failure, deadLetter, isPermanent }
}

export function requeued(cause: RequeueCause, job: SoFar, { delayMs = 0 }: { delayMs?: number } = {}): Requeue {
  const failure = cause === 'retry' ? someFailure() : null
  return { to: 'queued', cause, delayMs, spent: SPEND[cause](job), failure, note: null }
}

export const REQUEUE_CAUSES = ['retry', 'reclaimed', 'released', 'snoozed'] as const satisfies RequeueCause[]

const SPEND: Record<RequeueCause, (job: SoFar) => string | null> = {
  retry: ({ spent }) => packSpent(spendFailure(unpackSpent(spent), someFailure().code)),
  reclaimed: ({ spent }) => packSpent(spendReclaim(unpackSpent(spent))),
  released: ({ spent }) => packSpent(spendRelease(unpackSpent(spent))),
  snoozed: ({ spent }) => packSpent(spendSnooze(unpackSpent(spent))),
}

export function retryInPlace(job: SoFar & { attempt: number }): Intervention['act'] {
  return { kind: 'retry-in-place', spent: packSpent(spendManualRetry(unpackSpent(job.spent), job.attempt, 'reset')) }
}

export function markFailed(job: SoFar, { deadLetter = 'none' }: { deadLetter?: DeadLetter } = {}): Intervention['act'] {
  return { kind: 'mark-failed', failure: someFailure('MARKED_FAILED'), spent: job.spent, deadLetter }
}

/** With every field filled, so that one which gets lost on the way is noticed. */
export function someFailure(code = 'BROKEN'): DecidedFailure {
  return {
    phase: 'execution',
    layer: 'worker',
    code,
    fault: 'dependency',
    message: 'It broke.',
    waiting: 'It broke. We will try again.',
    detail: 'Error: it broke “for good”\n    at run (file:///handler.ts:1:1)',
    context: { httpStatus: 502, nested: { list: [1, 'two', null] } },
    causes: [{ name: 'Error', message: 'socket hang up', code: 'ECONNRESET' }],
    rule: 'http 5xx',
    fingerprint: '1:0123456789abcdef',
    decision: {
      because: 'BROKEN is transient; failure 1 of 3; next attempt at once',
      rule: 'retry.max',
      budget: { name: 'retry.max', before: 0, after: 1, max: 3 },
      delay: { source: 'none' },
    },
  }
}
