import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { CATCH_UP_MAX, LATE_MS_MAX, MISSED_RULES, planTicks } from '../../src/core/schedule.ts'

const due = (...newest: number[]) => ({ newest, count: newest.length, isAtLeast: false })
const running = { isPaused: false, resumedAtMs: null }

describe('which ticks run', () => {
  test('one that is taken in time runs, whatever the rule', () => {
    for (const missed of MISSED_RULES) {
      const plan = planTicks(due(1_000), { ...running, missed, nowMs: 1_000 + LATE_MS_MAX })
      expect(plan).toEqual({ runs: [1_000], skipped: 0, isAtLeast: false, because: null })
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
      const paused = planTicks(due(1, 2), { missed, nowMs: 3, isPaused: true, resumedAtMs: null })
      expect(paused).toMatchObject({ runs: [], skipped: 2, because: 'it was paused' })
      const resumed = planTicks(due(1, 2, 3), { missed, nowMs: 3, isPaused: false, resumedAtMs: 3 })
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
            { missed, nowMs, isPaused, resumedAtMs },
          )
          expect(plan.runs.length + plan.skipped).toBe(newest.length + more)
          expect(plan.because === null).toBe(plan.skipped === 0)
          expect(newest.filter((tick) => plan.runs.includes(tick))).toEqual(plan.runs)
        },
      ),
    )
  })
})
