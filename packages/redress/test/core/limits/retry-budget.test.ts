import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Meter } from '../../../src/core/limits/rate.ts'
import { depositFor, overBudget, payRetry } from '../../../src/core/limits/retry-budget.ts'

const START_MS = Date.UTC(2026, 0, 1)
const MINUTE_MS = 60_000

/** Retries one after another at the same moment; answers with what each has to wait. */
function storm(count: number, budget: { ratio: number; perMinute: number }, from: Meter | null = null) {
  const waitsMs: number[] = []
  let meter = from
  for (let i = 0; i < count; i++) {
    const paid = payRetry(meter, budget, START_MS)
    waitsMs.push(paid.addedMs)
    meter = paid.meter
  }
  return { waitsMs, meter: meter as Meter }
}

describe('a retry budget', () => {
  test('covers a minute’s worth at once; each retry after that waits one share longer', () => {
    expect(storm(8, { ratio: 0.1, perMinute: 6 }).waitsMs).toEqual([0, 0, 0, 0, 0, 0, 10_000, 20_000])
  })

  test('of less than one a minute covers one', () => {
    expect(storm(3, { ratio: 0, perMinute: 0.5 }).waitsMs).toEqual([0, 120_000, 240_000])
  })

  test('is repaid by time', () => {
    const budget = { ratio: 0, perMinute: 6 }
    const { meter } = storm(9, budget)
    expect(payRetry(meter, budget, START_MS + 30_000)).toMatchObject({ addedMs: 10_000 })
    expect(payRetry(meter, budget, START_MS + 40_000)).toMatchObject({ addedMs: 0 })
    expect(payRetry(meter, budget, START_MS + 39_999)).toMatchObject({ addedMs: 1 })
  })

  test('is repaid by first dispatches, and is not remembered when it is full', () => {
    const budget = { ratio: 0.25, perMinute: 4 }
    const { meter } = storm(6, budget)
    expect(meter.tokens).toBe(-2)
    const repaid = depositFor(8, meter, budget, START_MS)
    expect(repaid).toEqual({ tokens: 0, atMs: START_MS })
    expect(depositFor(16, repaid, budget, START_MS)).toBe(null)
    expect(depositFor(1_000, null, budget, START_MS)).toBe(null)
  })

  test('says what it did', () => {
    expect(overBudget('pdf.convert', 40_000)).toBe('the retry budget of pdf.convert is used up: 40 s added')
  })
})

test('whatever fails when, retries are at most the share of first dispatches, what a minute allows, and one minute saved', () => {
  const step = fc.record({
    afterMs: fc.nat(5_000),
    firsts: fc.nat(5),
    retries: fc.nat(5),
  })
  const anyBudget = fc.record({
    ratio: fc.double({ min: 0, max: 2, noNaN: true }),
    perMinute: fc.double({ min: 0.1, max: 600, noNaN: true }),
  })
  fc.assert(
    fc.property(anyBudget, fc.array(step, { minLength: 1, maxLength: 40 }), (budget, steps) => {
      let meter: Meter | null = null
      let nowMs = START_MS
      let firsts = 0
      const dueMs: number[] = []
      for (const { afterMs, firsts: begun, retries } of steps) {
        nowMs += afterMs
        if (meter !== null && begun > 0) meter = depositFor(begun, meter, budget, nowMs)
        firsts += begun
        for (let i = 0; i < retries; i++) {
          const paid = payRetry(meter, budget, nowMs)
          meter = paid.meter
          dueMs.push(nowMs + paid.addedMs)
        }
      }
      for (const [i, untilMs] of dueMs.toSorted((a, b) => a - b).entries()) {
        const saved = Math.max(1, budget.perMinute)
        const flown = ((untilMs - START_MS) * budget.perMinute) / MINUTE_MS
        expect(i + 1).toBeLessThanOrEqual(saved + flown + budget.ratio * firsts + 1e-6)
      }
    }),
  )
})
