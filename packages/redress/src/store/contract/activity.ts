import type { Counted, MinuteCount } from '../../core/job/activity.ts'

/**
 * Counts of what happened, by minute and type. Each process counts in memory and adds its sums, so a job costs nothing more. A
 * killed process loses the counts of its last seconds.
 */
export interface ActivityStore {
  /** Adds the counts of a process. Types with `aggregates: false` are left out. */
  addActivity(params: { counts: readonly ActivityCount[] }): Promise<void>
  /** The sums over these types, from the minute of `sinceMs` on. */
  activity(params: { types: readonly string[]; sinceMs: number }): Promise<MinuteCount[]>
  /** Removes at most `limit` older rows. Returns how many. */
  pruneActivity(params: { olderThanMs: number; limit: number }): Promise<number>
}

export interface ActivityCount {
  agoMs: number
  type: string
  what: Counted
  count: number
}
