import type { Status } from '../job/states.ts'
import type { Policy } from '../policy/policy.ts'

/** Why a dead letter is not replayed. */
export const SKIPS = [
  'already-replayed',
  'purged',
  'not-failed',
  'not-allowed',

  'refused',
  'twin',
] as const
export type SkipCode = (typeof SKIPS)[number]

export interface Skip {
  code: SkipCode
  /** A sentence for a person. */
  why: string
}

/** What stands in the way of a replay, or does not, at one moment. */
export interface LetterFacts {
  /** Of the job that the letter is about. */
  status: Status
  manualRetry: Policy['manualRetry']['mode']
  replays: number
  replayedAs: string | null
  /** The live job that holds the same dedupe key. */
  twin: { id: string; status: Status } | null
}

/**
 * Judged when a replay is planned and again in the transaction that makes the job: the selection is frozen, the facts
 * are those of the moment. `replaysSeen` is how often the letter had been replayed when a person chose it.
 */
export function obstacleTo(facts: LetterFacts | null, replaysSeen: number, isEdited: boolean): Skip | null {
  if (facts === null) return { code: 'purged', why: 'the letter is gone: it was purged, or its retention is over' }
  const { status, manualRetry, replays, replayedAs, twin } = facts
  if (replays !== replaysSeen) return { code: 'already-replayed', why: `it was replayed already, as job ${replayedAs}` }
  if (status !== 'failed') return { code: 'not-failed', why: `its job is ${status} now` }
  if (manualRetry === 'off') return { code: 'not-allowed', why: `its policy has manualRetry 'off'` }
  // An edited input is other work, and takes no key with it.
  if (twin !== null && !isEdited) {
    return { code: 'twin', why: `job ${twin.id} holds the same dedupe key and is ${twin.status}` }
  }
  return null
}
