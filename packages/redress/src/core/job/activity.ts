import { z } from 'zod'
import { FAULTS, type Fault } from '../failure/failure.ts'
import { MINUTE_MS } from '../text/duration.ts'
import { count, number } from '../views/fields.ts'

/**
 * What happened, minute by minute: how jobs ended, whose fault failed attempts were, and how long jobs had been due
 * when they began. Processes count it in memory and add it to the store now and then.
 */
export type Counted = 'complete' | 'failed' | 'cancelled' | `fault:${Fault}` | `wait:${number}`

export interface MinuteCount {
  minuteMs: number
  what: string
  count: number
}

export const minuteOf = (atMs: number): number => Math.floor(atMs / MINUTE_MS) * MINUTE_MS

/**
 * Waits are counted in buckets, of which each reaches twice as far as the one before: bucket N ends before
 * `WAIT_BOUNDS_MS[N]`, and the last one, behind all bounds, never.
 */
export const WAIT_BOUNDS_MS: readonly number[] = Array.from({ length: 28 }, (_, i) => 2 ** i)
const LAST_BUCKET = WAIT_BOUNDS_MS.length
export const WAIT_BUCKETS = LAST_BUCKET + 1

/** Asked for each attempt: so without a loop. */
export function waitBucket(waitedMs: number): number {
  if (!(waitedMs >= 1)) return 0
  return waitedMs >= 2 ** (LAST_BUCKET - 1) ? LAST_BUCKET : 32 - Math.clz32(waitedMs)
}

/** So many have waited less or as long; it lies in the same bucket as the exact number. null where none has waited. */
export function waitPercentileMs(buckets: readonly number[], share: number): number | null {
  const total = buckets.reduce((sum, count) => sum + count, 0)
  if (total === 0) return null
  const rank = Math.max(1, Math.ceil(share * total))
  let before = 0
  for (const [bucket, count] of buckets.entries()) {
    if (before + count >= rank) return within(bucket, (rank - before) / count)
    before += count
  }
  return within(LAST_BUCKET, 0)
}

/** As if those in a bucket were spread over it evenly. */
function within(bucket: number, share: number): number {
  const fromMs = bucket === 0 ? 0 : (WAIT_BOUNDS_MS[bucket - 1] as number)
  const toMs = WAIT_BOUNDS_MS[bucket]
  if (toMs === undefined || bucket === 0) return fromMs
  return Math.min(toMs - 1, Math.floor(fromMs + (toMs - fromMs) * share))
}

const wait = number.nullable().describe('how long jobs had been due when they began, as near as a factor of two')

export const minuteFields = {
  complete: count,
  failed: count.describe('jobs that failed for good'),
  cancelled: count,
  faults: z
    .strictObject({ caller: count, dependency: count, system: count, code: count, operator: count, unknown: count })
    .describe('failed attempts by whose fault they were, also those that were retried'),
  waitP50Ms: wait,
  waitP95Ms: wait,
}
export interface ActiveMinute extends z.infer<z.ZodObject<typeof minuteFields>> {
  minuteMs: number
}

/** So many minutes up to that of `nowMs`, the oldest first; those in which nothing happened are there, too. */
export function minutesOf(counts: readonly MinuteCount[], minutes: number, nowMs: number): ActiveMinute[] {
  const byMinute = Map.groupBy(counts, ({ minuteMs }) => minuteMs)
  return Array.from({ length: minutes }, (_, i) => {
    const minuteMs = minuteOf(nowMs) - (minutes - 1 - i) * MINUTE_MS
    const found = new Map((byMinute.get(minuteMs) ?? []).map(({ what, count }) => [what, count]))
    const of = (what: Counted): number => found.get(what) ?? 0
    const waits = Array.from({ length: WAIT_BUCKETS }, (_, bucket) => of(`wait:${bucket}`))
    return {
      minuteMs,
      complete: of('complete'),
      failed: of('failed'),
      cancelled: of('cancelled'),
      faults: Object.fromEntries(FAULTS.map((fault) => [fault, of(`fault:${fault}`)])) as Record<Fault, number>,
      waitP50Ms: waitPercentileMs(waits, 0.5),
      waitP95Ms: waitPercentileMs(waits, 0.95),
    }
  })
}
