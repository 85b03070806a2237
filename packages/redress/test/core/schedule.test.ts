import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  CATCH_UP_MAX,
  dueTicks,
  everyTicks,
  holdMs,
  jitterDelayMs,
  LATE_MS_MAX,
  MISSED_RULES,
  nextAfterChange,
  planTicks,
  ticksWithin,
} from '../../src/core/schedule.ts'

const due = (...newest: number[]) => ({ newest, count: newest.length, isAtLeast: false })
const running = { isPaused: false, resumedAtMs: null, runsLeft: null }

describe('which ticks run', () => {
  test('one that is taken in time runs, whatever the rule', () => {
    for (const missed of MISSED_RULES) {
      const plan = planTicks(due(1_000), { ...running, missed, nowMs: 1_000 + LATE_MS_MAX })
      expect(plan).toEqual({ runs: [1_000], skipped: 0, isAtLeast: false, because: null, isLast: false })
    }
  })

  test("'skip' runs none that is late, and of several only the newest if that is in time", () => {
    const nowMs = 10 + LATE_MS_MAX
    expect(planTicks(due(1, 2, 9), { ...running, missed: 'skip', nowMs })).toMatchObject({ runs: [], skipped: 3 })
    expect(planTicks(due(1, 2, 10), { ...running, missed: 'skip', nowMs })).toMatchObject({ runs: [10], skipped: 2 })
  })

  test("'once' lets the newest stand for all", () => {
    const plan = planTicks(due(1, 2, 3), { ...running, missed: 'once', nowMs: 1e9 })
    expect(plan).toMatchObject({ runs: [3], skipped: 2 })
    expect(plan.because).toContain('one run stands for all')
  })

  test("'all' runs each, and when there are too many it says how many it leaves out", () => {
    expect(planTicks(due(1, 2, 3), { ...running, missed: 'all', nowMs: 1e9 })).toMatchObject({ runs: [1, 2, 3] })
    const newest = Array.from({ length: CATCH_UP_MAX }, (_, i) => i)
    const many = { newest, count: 1_000, isAtLeast: true }
    const plan = planTicks(many, { ...running, missed: 'all', nowMs: 1e9 })
    expect(plan).toMatchObject({ runs: newest, skipped: 900, isAtLeast: true })
    expect(plan.because).toContain('at most 100')
  })

  test('none while it is paused, and none of those afterwards', () => {
    for (const missed of MISSED_RULES) {
      const paused = planTicks(due(1, 2), { missed, nowMs: 3, isPaused: true, resumedAtMs: null, runsLeft: null })
      expect(paused).toMatchObject({ runs: [], skipped: 2, because: 'it was paused' })
      const resumed = planTicks(due(1, 2, 3), { missed, nowMs: 3, isPaused: false, resumedAtMs: 3, runsLeft: null })
      expect(resumed).toMatchObject({ runs: [3], skipped: 2 })
    }
  })

  test('every due tick runs or is counted as skipped', () => {
    const ticks = fc.uniqueArray(fc.nat(1_000_000), { minLength: 1, maxLength: CATCH_UP_MAX })
    fc.assert(
      fc.property(
        ticks,
        fc.nat(1_000),
        fc.constantFrom(...MISSED_RULES),
        fc.boolean(),
        fc.option(fc.nat(1_000_000)),
        (found, more, missed, isPaused, resumedAtMs) => {
          const newest = found.toSorted((a, b) => a - b)
          const nowMs = newest.at(-1) as number
          const plan = planTicks(
            { newest, count: newest.length + more, isAtLeast: false },
            { missed, nowMs, isPaused, resumedAtMs, runsLeft: null },
          )
          expect(plan.runs.length + plan.skipped).toBe(newest.length + more)
          expect(plan.because === null).toBe(plan.skipped === 0)
          expect(newest.filter((tick) => plan.runs.includes(tick))).toEqual(plan.runs)
        },
      ),
    )
  })
})

describe('the ticks of a period', () => {
  test('are counted from its start, and the first one after a moment is never the moment itself', () => {
    const ticks = everyTicks(1_000, 90)
    expect([0, 999, 1_000, 1_089, 1_090].map((ms) => ticks.nextMs(ms))).toEqual([1_000, 1_000, 1_090, 1_090, 1_180])
    expect(ticks.newestMs(1_185, 2)).toEqual([1_090, 1_180])
    expect(ticks.newestMs(1_185, 10)).toEqual([1_000, 1_090, 1_180])
    expect(ticks.newestMs(999, 10)).toEqual([])
  })

  test('are the same, looking ahead and looking back', () => {
    const property = fc.property(
      fc.integer({ min: -1e9, max: 1e12 }),
      fc.integer({ min: 1_000, max: 1e9 }),
      fc.nat(1e10),
      (startMs, everyMs, afterMs) => {
        const ticks = everyTicks(startMs, everyMs)
        const nextMs = ticks.nextMs(startMs + afterMs) as number
        expect(nextMs).toBeGreaterThan(startMs + afterMs)
        expect(nextMs - startMs - afterMs).toBeLessThanOrEqual(everyMs)
        expect((nextMs - startMs) % everyMs).toBe(0)
        expect(ticks.newestMs(nextMs, 1)).toEqual([nextMs])
        expect(ticks.newestMs(nextMs - 1, 1)).toEqual([nextMs - everyMs])
      },
    )
    fc.assert(property)
  })

  test('are none before the first time and none after the last, which both count', () => {
    const ticks = ticksWithin(everyTicks(0, 10), 20, 40)
    expect([-5, 19, 20, 39, 40].map((ms) => ticks.nextMs(ms))).toEqual([20, 20, 30, 40, null])
    expect(ticks.newestMs(1_000, 10)).toEqual([20, 30, 40])
    expect(dueTicks(ticks, 30, 1_000)).toEqual({ newest: [30, 40], count: 2, isAtLeast: false })
  })
})

describe('a count of runs', () => {
  test('lets the oldest of the missed ticks run, and ends with the last of them', () => {
    const all = { ...running, missed: 'all', nowMs: 1e9 } as const
    expect(planTicks(due(1, 2, 3), { ...all, runsLeft: 2 })).toEqual({
      ...{ runs: [1, 2], skipped: 0, isAtLeast: false, because: null, isLast: true },
    })
    expect(planTicks(due(1, 2, 3), { ...all, runsLeft: 4 })).toMatchObject({ runs: [1, 2, 3], isLast: false })
    const once = planTicks(due(1, 2, 3), { ...running, missed: 'once', nowMs: 1e9, runsLeft: 1 })
    expect(once).toMatchObject({ runs: [3], skipped: 2, isLast: true })
  })

  test('is not used up by ticks that are skipped', () => {
    const plan = planTicks(due(1, 2), { missed: 'all', nowMs: 3, isPaused: true, resumedAtMs: null, runsLeft: 1 })
    expect(plan).toMatchObject({ runs: [], skipped: 2, isLast: false })
  })
})

test('a jitter delays less than its length, and ends before the next tick', () => {
  const chances = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  const property = fc.property(
    fc.nat(1e9),
    fc.option(fc.integer({ min: 1, max: 1e9 })),
    chances,
    (jitterMs, gapMs, chance) => {
      const delayMs = jitterDelayMs(jitterMs, 5_000, gapMs === null ? null : 5_000 + gapMs, chance)
      expect(delayMs).toBeGreaterThanOrEqual(0)
      if (jitterMs > 0) expect(delayMs).toBeLessThan(jitterMs)
      if (gapMs !== null) expect(delayMs).toBeLessThan(gapMs)
    },
  )
  fc.assert(property)
})

test('a hold begins with ten seconds and doubles up to five minutes', () => {
  const holds = [0]
  for (let i = 0; i < 7; i++) holds.push(holdMs(holds.at(-1) as number))
  expect(holds.slice(1)).toEqual([10, 20, 40, 80, 160, 300, 300].map((s) => s * 1_000))
})

describe('a changed schedule', () => {
  const timing = { cron: null, everyMs: 90_000, timezone: 'UTC', fromMs: null, untilMs: null, count: null }
  const before = { ...timing, nextAtMs: 100, counted: 2 }
  const after = { ...timing, nextAtMs: 500 }

  test('keeps its next tick, unless its timing is new or it had ended', () => {
    expect(nextAfterChange(before, after)).toEqual({ nextAtMs: 100, isTimedAnew: false })
    for (const changed of [
      { everyMs: 60_000 },
      { cron: '@daily', everyMs: null },
      { fromMs: 7 },
      { timezone: 'Asia/Tokyo' },
    ]) {
      expect(nextAfterChange(before, { ...after, ...changed })).toEqual({ nextAtMs: 500, isTimedAnew: true })
    }
    expect(nextAfterChange({ ...before, nextAtMs: null }, after)).toEqual({ nextAtMs: 500, isTimedAnew: true })
  })

  test('ends if its count is reached, or if its next tick is after its last time', () => {
    expect(nextAfterChange(before, { ...after, count: 2 }).nextAtMs).toBe(null)
    expect(nextAfterChange(before, { ...after, count: 3 }).nextAtMs).toBe(100)
    expect(nextAfterChange(before, { ...after, untilMs: 99 }).nextAtMs).toBe(null)
    expect(nextAfterChange(before, { ...after, untilMs: 100 }).nextAtMs).toBe(100)
  })
})
