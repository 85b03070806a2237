import type { Counted, MinuteCount } from '../../core/job/activity.ts'

/**
 * What happened, by minute and type. It is counted by processes and not with each job, so that a job pays nothing for
 * it: a process that is killed takes its last seconds with it.
 */
export interface ActivityStore {
  /** Adds what a process counted. Of types whose policy has `aggregates: false` nothing is kept. */
  addActivity(params: { counts: readonly ActivityCount[] }): Promise<void>
  /** The sums over these types, of the minute of `sinceMs` and later ones. */
  activity(params: { types: readonly string[]; sinceMs: number }): Promise<MinuteCount[]>
  /** Removes what is older than this, at most so many rows; answers how many. */
  pruneActivity(params: { olderThanMs: number; limit: number }): Promise<number>
}

export interface ActivityCount {
  agoMs: number
  type: string
  what: Counted
  count: number
}
