import type { Reasons } from './decide.ts'
import type { Failure } from './failure.ts'

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
  | { to: 'complete'; result: string | null }
  | {
      to: 'queued'
      cause: RequeueCause
      delayMs: number
      spent: string | null
      failure: DecidedFailure | null
      note: string | null
    }
  | {
      to: 'failed'
      spent: string | null
      failure: DecidedFailure
      deadLetter: DeadLetter
      /** No further attempt would have helped; false where the attempts were merely used up. */
      isPermanent: boolean
    }
  | { to: 'cancelled'; note: string | null }
