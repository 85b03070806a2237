import { type Counted, type MinuteCount, minuteOf } from '../core/activity.ts'
import type { KnownType } from './known-type.ts'

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

export interface ActivityRow {
  minute: number
  type: number
  what: string
  count: number
}

/** One row for each thing that was counted, in the order of the key: who adds to the same rows takes them in one order. */
export function activityRows(
  counts: readonly ActivityCount[],
  types: readonly KnownType[],
  nowMs: number,
): ActivityRow[] {
  const keys = new Map(types.filter(({ policy }) => policy.aggregates).map(({ name, key }) => [name, key]))
  const rows = new Map<string, ActivityRow>()
  for (const { agoMs, type: name, what, count } of counts) {
    const type = keys.get(name)
    if (type === undefined || count === 0) continue
    const minute = minuteOf(nowMs - Math.max(0, agoMs))
    const id = `${minute} ${type} ${what}`
    const row = rows.get(id)
    if (row === undefined) rows.set(id, { minute, type, what, count })
    else row.count += count
  }
  return [...rows.values()].sort((a, b) => a.minute - b.minute || a.type - b.type || (a.what < b.what ? -1 : 1))
}
