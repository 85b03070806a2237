import type { Failure } from '../failure/failure.ts'
import { attemptFactsOf, type Change, type DecidedFailure } from './change.ts'
import type { EventData, EventKind } from './events.ts'

/**
 * Cancel-on-requeue: a job that an operator asked to cancel does not go back to the queue, because the request was
 * acknowledged. Its failure is stored, although no change to `failed` follows.
 */
export function cancelOnRequeue(
  change: Change,
  isCancelRequested: boolean,
): { change: Change; keptFailure: DecidedFailure | null } {
  if (change.to !== 'queued' || !isCancelRequested) return { change, keptFailure: null }
  const { failure, stages } = change
  return {
    change: { to: 'cancelled', note: 'it was asked to cancel', ...(stages && { stages }) },
    keptFailure: failure,
  }
}

/** The kinds of event that may have recorded this end: that of the change, or that of `cancelOnRequeue`. */
export const recordedKindsOf = (change: Change): { kind: EventKind; otherKind: EventKind | null } =>
  change.to === 'queued' ? { kind: change.cause, otherKind: 'cancelled' } : { kind: change.to, otherKind: null }

/** Numbers that only the store knows. The event of an end names those that there are. */
export interface EndNumbers {
  failure: number | null
  deadLetterOffset: number | null
  dueAtMs: number | null
}

export const NO_NUMBERS: EndNumbers = { failure: null, deadLetterOffset: null, dueAtMs: null }

/** The event of an attempt that ends. */
export function endEventOf(
  change: Change,
  numbers: EndNumbers = NO_NUMBERS,
): { kind: EventKind; data: EventData | null } {
  const facts = attemptFactsOf(change)
  switch (change.to) {
    case 'complete':
      return { kind: 'complete', data: facts }
    case 'cancelled':
      return { kind: 'cancelled', data: change.note === null ? facts : { reason: change.note, ...facts } }
    case 'failed': {
      const data: EventData = { ...failedEventData(change), ...facts }
      if (numbers.failure !== null) data.failure = numbers.failure
      if (numbers.deadLetterOffset !== null) data.deadLetterOffset = numbers.deadLetterOffset
      return { kind: 'failed', data }
    }
    case 'queued': {
      const data: EventData = { spent: change.spent ?? '', ...facts }
      if (numbers.failure !== null) data.failure = numbers.failure
      if (numbers.dueAtMs !== null) data.dueAtMs = numbers.dueAtMs
      if (change.failure !== null) data.code = change.failure.code
      if (change.note !== null) data.reason = change.note
      return { kind: change.cause, data }
    }
  }
}

/** The event of a job that fails for good, by policy, by a person or at its submission, has at least this data. */
export const failedEventData = ({ failure, spent }: { failure: Failure; spent: string | null }): EventData => ({
  code: failure.code,
  spent: spent ?? '',
})

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
