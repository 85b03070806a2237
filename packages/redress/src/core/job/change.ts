import type { Failure } from '../failure/failure.ts'
import type { StageSummary } from '../failure/stage.ts'
import type { RetryBudget } from '../limits/retry-budget.ts'
import type { Reasons } from '../policy/decide.ts'
import type { EventData } from './events.ts'

/** How a job may be set aside when it fails for good. */
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

/** What the event that ends an attempt says of it beside the change itself; null when there is nothing to say. */
export function attemptFactsOf(change: Change): Pick<EventData, 'httpStatus' | 'stages'> | null {
  const httpStatus = 'failure' in change ? change.failure?.context.httpStatus : undefined
  const { stages } = change
  if (stages === undefined && typeof httpStatus !== 'number') return null
  return { ...(typeof httpStatus === 'number' && { httpStatus }), ...(stages !== undefined && { stages }) }
}
