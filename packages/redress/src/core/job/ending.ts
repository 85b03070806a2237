import { attemptFactsOf, type Change, type DecidedFailure } from './change.ts'
import type { EventData, EventKind } from './events.ts'
import type { Status } from './states.ts'

type Requeue = Extract<Change, { to: 'queued' }>
type Cancel = Extract<Change, { to: 'cancelled' }>

/** A job that an operator asked to cancel does not go back to the queue: the request was acknowledged. */
export const isCancelledInstead = (to: Change['to'], isCancelRequested: boolean): boolean =>
  to === 'queued' && isCancelRequested

/** The end of such a job. Its failure is stored, although no change to `failed` follows. */
export function cancelInstead({ failure, stages }: Requeue): { change: Cancel; failure: DecidedFailure | null } {
  return { change: { to: 'cancelled', note: 'it was asked to cancel', ...(stages && { stages }) }, failure }
}

/** A dedupe key of scope `live` is free again when its job ends in one of these states. */
export const FREES_LIVE_KEY: readonly Status[] = ['failed', 'cancelled']

/**
 * The event of an attempt that ends. The store adds the numbers that only it knows: the failure, the offset of the dead
 * letter and the time when the job is due.
 */
export function endEventOf(change: Change): { kind: EventKind; data: EventData | null } {
  const facts = attemptFactsOf(change)
  switch (change.to) {
    case 'complete':
      return { kind: 'complete', data: facts }
    case 'cancelled':
      return { kind: 'cancelled', data: change.note === null ? facts : { reason: change.note, ...facts } }
    case 'failed':
      return { kind: 'failed', data: { code: change.failure.code, spent: change.spent ?? '', ...facts } }
    case 'queued': {
      const data: EventData = { spent: change.spent ?? '', ...facts }
      if (change.failure !== null) data.code = change.failure.code
      if (change.note !== null) data.reason = change.note
      return { kind: change.cause, data }
    }
  }
}

/** What a worker saw of a job that it takes back from a lost worker. */
export type ReclaimExpectation = 'expired' | 'expired-unstarted' | 'unstarted' | 'stuck'

/** A job that a worker holds, as it is in the store now. */
export interface HeldNow {
  leaseUntilMs: number
  startedAtMs: number | null
  orphanedAtMs: number | null
}

/**
 * Whether the job is still as the reclaiming worker saw it. If its own worker has renewed the lease, started or closed the
 * attempt since, the job is left alone.
 */
export function isStillReclaimable(
  expect: ReclaimExpectation,
  to: Change['to'] | 'orphaned',
  { leaseUntilMs, startedAtMs, orphanedAtMs }: HeldNow,
  nowMs: number,
): boolean {
  if (to === 'orphaned' && orphanedAtMs !== null) return false
  const isExpired = leaseUntilMs <= nowMs
  const isStarted = startedAtMs !== null
  switch (expect) {
    case 'expired':
      return isExpired
    case 'expired-unstarted':
      return isExpired && !isStarted
    case 'unstarted':
      return !isStarted
    case 'stuck':
      return isStarted
  }
}
