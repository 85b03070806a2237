import type { Status } from './states.ts'

/** A dedupe key of scope `live` is free again when its job ends in one of these states. */
export const FREES_LIVE_KEY: readonly Status[] = ['failed', 'cancelled']

/**
 * The dedupe key of the job that is made from a failed one. It takes over the key, or a submission that comes while it works
 * would do the same work twice. An edited input is other work, so its key would be another one.
 */
export const successorDedupe = (dedupeKey: string | null, isEdited: boolean): { key: string; scope: 'live' } | null =>
  dedupeKey === null || isEdited ? null : { key: dedupeKey, scope: 'live' }

/**
 * What a submission with that key came to. `made`: the job is there, perhaps since an answer was lost. `keyless`: the failed
 * job itself keeps its key for ever (scope `always`), so its successor is submitted again without one. `twin`: another job
 * holds the key.
 */
export function successorOutcome(
  submittedId: string,
  successorId: string,
  failedId: string,
): 'made' | 'keyless' | 'twin' {
  if (submittedId === successorId) return 'made'
  return submittedId === failedId ? 'keyless' : 'twin'
}
