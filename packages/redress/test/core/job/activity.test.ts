import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type MinuteCount,
  minuteOf,
  minutesOf,
  WAIT_BOUNDS_MS,
  WAIT_BUCKETS,
  waitBucket,
  waitPercentileMs,
} from '../../../src/core/job/activity.ts'
import { MINUTE_MS } from '../../../src/core/text/duration.ts'

const waits = fc.array(
  fc.oneof(
    fc.integer({ min: 0, max: 300 }),
    fc.integer({ min: 0, max: 10 ** 9 }),
    fc.double({ min: 0, max: 1e6, noNaN: true }),
  ),
  { minLength: 1, maxLength: 200 },
)

function bucketsOf(waitedMs: readonly number[]): number[] {
  const buckets = new Array(WAIT_BUCKETS).fill(0)
  for (const ms of waitedMs) buckets[waitBucket(ms)]++
  return buckets
}

describe('the buckets of waits', () => {
  test('each holds what lies between its bounds', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1e12, noNaN: true }), (ms) => {
        const bucket = waitBucket(ms)
        expect(ms).toBeLessThan(WAIT_BOUNDS_MS[bucket] ?? Number.POSITIVE_INFINITY)
        expect(ms).toBeGreaterThanOrEqual(bucket === 0 ? 0 : (WAIT_BOUNDS_MS[bucket - 1] as number))
      }),
    )
  })

  test('a wait that was measured below zero counts as zero', () => {
    expect([waitBucket(-5), waitBucket(Number.NaN)]).toEqual([0, 0])
  })
})

describe('a percentile of waits', () => {
  test('lies in the same bucket as the exact one', () => {
    fc.assert(
      fc.property(waits, fc.double({ min: 0.01, max: 1, noNaN: true }), (waitedMs, share) => {
        const exact = waitedMs.toSorted((a, b) => a - b)[Math.ceil(share * waitedMs.length) - 1] as number
        const found = waitPercentileMs(bucketsOf(waitedMs), share)
        expect(waitBucket(found as number)).toBe(waitBucket(exact))
      }),
    )
  })

  test('grows with the share', () => {
    fc.assert(
      fc.property(waits, (waitedMs) => {
        const buckets = bucketsOf(waitedMs)
        const found = [0.1, 0.5, 0.9, 0.95, 1].map((share) => waitPercentileMs(buckets, share) as number)
        expect(found).toEqual(found.toSorted((a, b) => a - b))
      }),
    )
  })

  test('of none there is none', () => {
    expect(waitPercentileMs(bucketsOf([]), 0.5)).toBeNull()
  })
})

test('every minute is there, the oldest first, with what was counted in it', () => {
  const nowMs = Date.UTC(2026, 0, 1, 8, 30, 59)
  const minuteMs = minuteOf(nowMs)
  const of = (what: string, count: number, at = minuteMs): MinuteCount => ({ minuteMs: at, what, count })
  const counts = [of('complete', 3), of('fault:caller', 2), of('wait:8', 4), of('failed', 1, minuteMs - 2 * MINUTE_MS)]
  const minutes = minutesOf([...counts, of('complete', 9, minuteMs - 3 * MINUTE_MS)], 3, nowMs)
  const faults = { caller: 0, dependency: 0, system: 0, code: 0, operator: 0, unknown: 0 }
  const none = { complete: 0, failed: 0, cancelled: 0, faults, waitP50Ms: null, waitP95Ms: null }
  expect(minutes).toEqual([
    { ...none, minuteMs: minuteMs - 2 * MINUTE_MS, failed: 1 },
    { ...none, minuteMs: minuteMs - MINUTE_MS },
    { ...none, minuteMs, complete: 3, faults: { ...faults, caller: 2 }, waitP50Ms: 192, waitP95Ms: 255 },
  ])
})
