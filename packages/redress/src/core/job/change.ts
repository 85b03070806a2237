import type { Failure } from '../failure/failure.ts'
import type { StageSummary } from '../failure/stage.ts'
import type { RetryBudget } from '../limits/retry-budget.ts'
import type { Reasons } from '../policy/decide.ts'
import type { EventData, EventKind } from './events.ts'

/** Whether a job that fails for good becomes a dead letter. */
export type DeadLetter = 'none' | 'flag' | 'queue'

/** A failure together with the answer the policy gave to it. They are stored as one row and never apart. */
export interface DecidedFailure extends Failure {
  decision: Reasons
}

/** Why a job goes back to the queue. Each cause spends its own budget and leaves its own kind of event. */
export type RequeueCause = 'retry' | 'reclaimed' | 'released' | 'snoozed'

/**
 * What core decided about a processing job; the store persists it without deciding anything again.
 * Times are delays, never instants: the store adds them to its own clock.
 */
export type Change =
  | { to: 'complete'; result: string | null; stages?: readonly StageSummary[] }
  | {
      to: 'queued'
      cause: RequeueCause
      delayMs: number
      spent: string | null
      failure: DecidedFailure | null
      note: string | null
      /** Where retries of the type have a budget: over it, the store lets them wait longer. */
      budget?: RetryBudget
      stages?: readonly StageSummary[]
    }
  | {
      to: 'failed'
      spent: string | null
      failure: DecidedFailure
      deadLetter: DeadLetter
      /** No further attempt would have helped; false where the attempts were merely used up. */
      isPermanent: boolean
      stages?: readonly StageSummary[]
    }
  | { to: 'cancelled'; note: string | null; stages?: readonly StageSummary[] }

/** Facts for the event that ends an attempt, beside the change itself; null when there are none. */
function attemptFactsOf(change: Change): Pick<EventData, 'httpStatus' | 'stages'> | null {
  const httpStatus = 'failure' in change ? change.failure?.context.httpStatus : undefined
  const { stages } = change
  if (stages === undefined && typeof httpStatus !== 'number') return null
  return { ...(typeof httpStatus === 'number' && { httpStatus }), ...(stages !== undefined && { stages }) }
}

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

/** The state in which a worker saw a job that it reclaims. */
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
