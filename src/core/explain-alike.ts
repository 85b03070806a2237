import type { FailureGroup, GroupState } from './failure-group.ts'
import { isoTime } from './iso-time.ts'
import type { FailureRecord, JobRecord } from './record.ts'

/** What else failed the same way as a job did last. */
export interface Alike {
  /** Of the group: `redress failures show FINGERPRINT`. */
  fingerprint: string
  /** Failures of other jobs. */
  others: number
  since: string
  state: GroupState
  text: string
}

/** A job that ended well needs no comparison, and one that is alone with its failure has none. */
export function alikeOf(
  { status }: JobRecord,
  failures: readonly FailureRecord[],
  group: FailureGroup | null,
): Alike | null {
  if (group === null || status === 'complete') return null
  const { fingerprint, count, firstAtMs, state } = group
  const others = count - failures.filter((failure) => failure.fingerprint === fingerprint).length
  if (others <= 0) return null
  const since = isoTime(firstAtMs)
  const were = others === 1 ? '1 other failed' : `${others} others failed`
  const stands = state === 'open' ? '' : ` (${state})`
  return {
    fingerprint,
    others,
    since,
    state,
    text: `${were} the same way since ${since}: group ${fingerprint}${stands}.`,
  }
}
