import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  affordable,
  affordableAtMs,
  afterTaking,
  creditsAt,
  type Meter,
  refilledAfterMs,
} from '../../../src/core/limits/rate.ts'
import type { RatePolicy } from '../../../src/core/policy/flow.ts'

const START_MS = Date.UTC(2026, 0, 1)

const anyRate: fc.Arbitrary<RatePolicy> = fc.record({
  max: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 1_000_000 })),
  perMs: fc.oneof(fc.constantFrom(1, 7, 1_000, 60_000), fc.integer({ min: 1, max: 86_400_000 })),
  burst: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 1_000_000 })),
  scope: fc.constant('type' as const),
})

/** Takes as the store does: what is wanted, as far as it is allowed. */
class Bucket {
  readonly taken: { atMs: number; count: number }[] = []
  readonly rate: RatePolicy
  meter: Meter | null = null

  constructor(rate: RatePolicy) {
    this.rate = rate
  }

  take(wanted: number, atMs: number): number {
    const credits = creditsAt(this.meter, this.rate, atMs)
    const count = Math.min(wanted, affordable(credits, this.rate))
    if (count > 0) {
      this.meter = afterTaking(credits, count, this.rate, atMs)
      this.taken.push({ atMs, count })
    }
    return count
  }

  opensAtMs(atMs: number): number {
    return affordableAtMs(creditsAt(this.meter, this.rate, atMs), this.rate, atMs)
  }
}

test('over any claims at any moments, no window sees more than the rate and one burst', () => {
  const claims = fc.array(fc.record({ afterMs: fc.nat(3_000), wanted: fc.integer({ min: 1, max: 50 }) }), {
    minLength: 1,
    maxLength: 60,
  })
  fc.assert(
    fc.property(anyRate, claims, (rate, steps) => {
      const bucket = new Bucket(rate)
      let nowMs = START_MS
      for (const { afterMs, wanted } of steps) {
        nowMs += afterMs
        bucket.take(wanted, nowMs)
      }
      for (const [i, first] of bucket.taken.entries()) {
        let sum = 0
        for (const last of bucket.taken.slice(i)) {
          sum += last.count
          // A window from the one to the other, both in it.
          expect(sum).toBeLessThanOrEqual(rate.burst + Math.ceil(((last.atMs - first.atMs) * rate.max) / rate.perMs))
          if (last.atMs - first.atMs <= rate.perMs) expect(sum).toBeLessThanOrEqual(rate.max + rate.burst)
        }
        expect(first.count).toBeLessThanOrEqual(rate.burst)
      }
    }),
  )
})

test('a request at the named time gets a token, and one a millisecond earlier gets none', () => {
  fc.assert(
    fc.property(anyRate, fc.nat(10_000), fc.integer({ min: 1, max: 2_000_000 }), (rate, afterMs, wanted) => {
      const bucket = new Bucket(rate)
      bucket.take(wanted, START_MS)
      const nowMs = START_MS + afterMs
      bucket.take(wanted, nowMs)
      const opensAtMs = bucket.opensAtMs(nowMs)
      expect(Number.isSafeInteger(opensAtMs)).toBe(true)
      expect(affordable(creditsAt(bucket.meter, rate, opensAtMs), rate)).toBeGreaterThanOrEqual(1)
      if (opensAtMs > nowMs) expect(affordable(creditsAt(bucket.meter, rate, opensAtMs - 1), rate)).toBe(0)
    }),
  )
})

test('the rate is kept for hours without drift, whatever fraction of a millisecond it comes to', () => {
  const perSecond = fc.integer({ min: 1, max: 1_000 })
  fc.assert(
    fc.property(perSecond, (max) => {
      const bucket = new Bucket({ max, perMs: 1_000, burst: 1, scope: 'type' })
      let nowMs = START_MS
      for (let i = 0; i < 2_000; i++) {
        expect(bucket.take(9, nowMs)).toBe(1)
        expect(nowMs - START_MS).toBe(Math.ceil((i * 1_000) / max))
        nowMs = bucket.opensAtMs(nowMs)
      }
    }),
    { numRuns: 30 },
  )
})

describe('a bucket', () => {
  const rate: RatePolicy = { max: 10, perMs: 1_000, burst: 5, scope: 'type' }

  test('that was never used is full, and stays full', () => {
    expect(affordable(creditsAt(null, rate, START_MS), rate)).toBe(5)
    expect(affordable(creditsAt({ tokens: 0, atMs: START_MS }, rate, START_MS + refilledAfterMs(rate)), rate)).toBe(5)
    expect(affordable(creditsAt({ tokens: 0, atMs: START_MS }, rate, START_MS + refilledAfterMs(rate) - 1), rate)).toBe(
      4,
    )
    expect(affordable(creditsAt({ tokens: 4, atMs: START_MS }, rate, START_MS + 86_400_000), rate)).toBe(5)
  })

  test('loses nothing when the clock is set back, and gains nothing', () => {
    expect(creditsAt({ tokens: 2, atMs: START_MS }, rate, START_MS - 3_600_000)).toBe(2_000)
  })

  test('keeps its tokens when the policy changes, up to the new burst', () => {
    const meter: Meter = { tokens: 4, atMs: START_MS }
    expect(affordable(creditsAt(meter, { ...rate, perMs: 60_000 }, START_MS), { ...rate, perMs: 60_000 })).toBe(4)
    expect(affordable(creditsAt(meter, { ...rate, burst: 2 }, START_MS), { ...rate, burst: 2 })).toBe(2)
  })
})
