import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Change } from '../../../src/core/job/change.ts'
import {
  afterCalls,
  afterForcing,
  afterProbe,
  afterRequest,
  afterTime,
  type BreakerState,
  bucketOf,
  bucketsOfCalls,
  type CallBucket,
  callOf,
  callsAllowed,
  closedFromTheStart,
  effectiveStatus,
  type ForcedState,
  isTooBad,
  NO_CALLS,
  nextChangeAtMs,
  type Standing,
  sumWindow,
  whyHeld,
  withOlder,
} from '../../../src/core/limits/breaker.ts'
import type { BreakerPolicy } from '../../../src/core/policy/flow.ts'
import { type PolicyInput, policy } from '../../../src/core/policy/policy.ts'

const NOW = Date.UTC(2026, 0, 1)
const breaker = (parts: Partial<NonNullable<PolicyInput['breaker']>> = {}): BreakerPolicy =>
  policy({ breaker: { guards: 'gateway', ...parts } }).breaker as BreakerPolicy
const usual = breaker()

const standing = (state: BreakerState, parts: Partial<Standing> = {}): Standing => ({
  state,
  forced: null,
  policy: usual,
  isProbed: false,
  ...parts,
})
const forced = (parts: Partial<ForcedState> = {}): ForcedState => ({
  status: 'open',
  actor: 'ann',
  reason: 'maintenance',
  atMs: NOW,
  untilMs: null,
  ...parts,
})
const open: BreakerState = {
  status: 'open',
  sinceMs: NOW,
  triesAtMs: NOW + 30_000,
  passed: 0,
  reason: '60 % of the last 20 calls failed',
}
const halfOpen: BreakerState = { ...open, status: 'half-open', triesAtMs: null, reason: 'the cooldown is over' }
const closed = closedFromTheStart(NOW)
const justClosed: BreakerState = { ...closed, passed: 3 }

const buckets = fc
  .array(fc.record({ second: fc.nat(300), succeeded: fc.nat(30), failed: fc.nat(30) }), { maxLength: 40 })
  .map((drawn) =>
    drawn
      .map(({ second, succeeded, failed }): CallBucket => ({ atMs: NOW - second * 1_000, succeeded, failed }))
      .sort((a, b) => b.atMs - a.atMs),
  )
const numbers = fc.record({
  windowCalls: fc.integer({ min: 1, max: 200 }),
  window: fc.integer({ min: 1_000, max: 300_000 }),
})

test('so many of the newest seconds are shown that there are enough calls, and none more', () => {
  const seconds = [3, 0, 2, 5].map((failed, i) => ({ atMs: 10_000 - i * 1_000, succeeded: 1, failed }))
  expect(bucketsOfCalls(seconds, 5)).toEqual(seconds.slice(0, 2))
  expect(bucketsOfCalls(seconds, 6)).toEqual(seconds.slice(0, 3))
  expect(bucketsOfCalls(seconds, 100)).toEqual(seconds)
  expect(bucketsOfCalls([], 20)).toEqual([])
})

describe('what counts as a call', () => {
  const failure = (fault: string): Change =>
    ({ to: 'failed', failure: { fault } as never, spent: null, deadLetter: 'none', isPermanent: false }) as Change

  test('a success, and a failure of the dependency itself', () => {
    expect(callOf({ to: 'complete', result: null })).toBe('succeeded')
    expect(callOf(failure('dependency'))).toBe('failed')
    expect(callOf({ ...failure('dependency'), to: 'queued', cause: 'retry', delayMs: 0, note: null } as Change)).toBe(
      'failed',
    )
  })

  test.each(['caller', 'code', 'system', 'operator', 'unknown'])('never a fault of the %s', (fault) => {
    expect(callOf(failure(fault))).toBeNull()
  })

  test('never a job that was cancelled or given back', () => {
    expect(callOf({ to: 'cancelled', note: null })).toBeNull()
    const released = { to: 'queued', cause: 'released', delayMs: 0, spent: null, failure: null, note: null } as const
    expect(callOf(released)).toBeNull()
  })
})

describe('the window', () => {
  test('has the newest calls, as far back as both its bounds reach', () => {
    const seconds: CallBucket[] = [
      { atMs: NOW, succeeded: 5, failed: 0 },
      { atMs: NOW - 10_000, succeeded: 0, failed: 10 },
      { atMs: NOW - 20_000, succeeded: 10, failed: 0 },
    ]
    expect(sumWindow(seconds, breaker({ windowCalls: 15 }), NOW)).toEqual({ calls: 15, failed: 10 })
    expect(sumWindow(seconds, breaker({ windowCalls: 100 }), NOW)).toEqual({ calls: 25, failed: 10 })
    expect(sumWindow(seconds, breaker({ window: '10s' }), NOW)).toEqual({ calls: 15, failed: 10 })
    expect(sumWindow(seconds, breaker({ window: '5s' }), NOW)).toEqual({ calls: 5, failed: 0 })
  })

  test('takes of a second that does not fit the same share of both', () => {
    const seconds = [{ atMs: NOW, succeeded: 60, failed: 40 }]
    expect(sumWindow(seconds, breaker({ windowCalls: 20 }), NOW)).toEqual({ calls: 20, failed: 8 })
  })

  test('never holds more calls than it has places or than were made, nor more failures than calls', () => {
    fc.assert(
      fc.property(buckets, numbers, (drawn, parts) => {
        const limits = breaker({ ...parts, minCalls: 1 })
        const { calls, failed } = sumWindow(drawn, limits, NOW)
        const made = drawn.reduce((sum, bucket) => sum + bucket.succeeded + bucket.failed, 0)
        expect(calls).toBeLessThanOrEqual(Math.min(limits.windowCalls, made))
        expect(failed).toBeGreaterThanOrEqual(0)
        expect(failed).toBeLessThanOrEqual(calls + 1e-9)
      }),
    )
  })

  test('is the same whether a worker adds its calls to it or the store has them already', () => {
    fc.assert(
      fc.property(buckets, fc.nat(20), fc.nat(20), numbers, (drawn, succeeded, failed, parts) => {
        const limits = breaker({ ...parts, minCalls: 1 })
        const local = { atMs: bucketOf(NOW) + 1_000, succeeded, failed }
        const counted = sumWindow([local, ...drawn], limits, NOW)
        const own = sumWindow([local], limits, NOW)
        const added = withOlder(own, sumWindow(drawn, limits, NOW), limits)
        expect(added.calls).toBe(counted.calls)
        // The oldest second that is in it is taken in part, and the parts differ: by less than what was added.
        expect(Math.abs(added.failed - counted.failed)).toBeLessThanOrEqual(succeeded + failed + 1e-6)
      }),
    )
  })
})

describe('a closed breaker', () => {
  const counted = (failed: number, calls: number, limits = usual) =>
    afterCalls(closed, { succeeded: 0, failed: 1 }, { calls, failed }, limits, NOW)

  test('a closed breaker opens when half of the last 20 calls failed [E11 E25]', () => {
    expect(counted(9, 20).status).toBe('closed')
    expect(counted(10, 20)).toEqual({
      status: 'open',
      sinceMs: NOW,
      triesAtMs: NOW + 30_000,
      passed: 0,
      reason: '50 % of the last 20 calls failed',
    })
  })

  test('says nothing after too few calls', () => {
    expect(counted(9, 9)).toBe(closed)
    expect(counted(10, 10).status).toBe('open')
  })

  test('opens at exactly its ratio, whatever shares were summed up', () => {
    fc.assert(
      fc.property(fc.integer({ min: 10, max: 1_000 }), fc.integer({ min: 1, max: 100 }), (calls, percent) => {
        const ratio = percent / 100
        const limits = breaker({ ratio, windowCalls: 1_000 })
        const needed = Math.ceil(calls * ratio - 1e-9)
        expect(isTooBad({ calls, failed: needed }, limits)).toBe(true)
        expect(isTooBad({ calls, failed: needed - 1 }, limits)).toBe(false)
      }),
    )
  })
})

describe('an open breaker', () => {
  test('lets nothing through until its cooldown is over, and then tries', () => {
    expect(afterTime(standing(open), NOW + 29_999)).toBe(open)
    expect(callsAllowed(standing(open), NOW)).toBe(0)
    const tried = afterTime(standing(open), NOW + 30_000)
    expect(tried).toMatchObject({ status: 'half-open', sinceMs: NOW + 30_000, passed: 0 })
    expect(callsAllowed(standing(tried), NOW + 30_000)).toBe(1)
  })

  test('waits for its health probe, where it has one, however long that takes', () => {
    const probed = standing(open, { isProbed: true })
    expect(afterTime(probed, NOW + 3_600_000)).toBe(open)
  })

  test('is not moved by calls that end late', () => {
    expect(afterCalls(open, { succeeded: 50, failed: 50 }, NO_CALLS, usual, NOW)).toBe(open)
  })

  test('is tried at once when a person asks for it', () => {
    expect(afterRequest(standing(open), 'ann wants it tried', NOW)).toMatchObject({ status: 'half-open', sinceMs: NOW })
    const probed = standing(open, { isProbed: true })
    expect(afterRequest(probed, '', NOW)).toEqual({ ...open, triesAtMs: NOW })
    expect(afterRequest(standing(closed), '', NOW)).toBe(closed)
  })

  test('tells a job why it waits, and how long', () => {
    expect(whyHeld(standing(open), NOW + 5_000)).toBe('60 % of the last 20 calls failed; tries again in 25 s')
  })
})

describe('a half-open breaker', () => {
  const ended = (state: BreakerState, succeeded: number, failed: number) =>
    afterCalls(state, { succeeded, failed }, NO_CALLS, usual, NOW + 1)

  test('a half-open breaker closes after the configured number of successes in a row [E12 E25]', () => {
    const [one, two] = [ended(halfOpen, 1, 0), ended(ended(halfOpen, 1, 0), 1, 0)]
    expect([one.status, one.passed, two.status, two.passed]).toEqual(['half-open', 1, 'half-open', 2])
    expect(ended(two, 1, 0)).toMatchObject({ status: 'closed', sinceMs: NOW + 1 })
  })

  test('opens again at the first failure, whatever passed before', () => {
    fc.assert(
      fc.property(fc.nat(2), fc.nat(50), fc.integer({ min: 1, max: 50 }), (passed, succeeded, failed) => {
        const state = ended({ ...halfOpen, passed }, succeeded, failed)
        expect(state).toMatchObject({ status: 'open', triesAtMs: NOW + 1 + 30_000, passed: 0 })
      }),
    )
  })

  test('stays as it is when nothing that counts has ended', () => {
    expect(ended(halfOpen, 0, 0)).toBe(halfOpen)
  })

  test('lets no job through while a health probe decides', () => {
    expect(callsAllowed(standing(halfOpen, { isProbed: true }), NOW)).toBe(0)
  })
})

describe('a health probe', () => {
  const passed = { passed: true, said: '', everyMs: 5_000 }
  const failed = { passed: false, said: 'ECONNREFUSED', everyMs: 5_000 }

  test('a health probe closes the breaker after the configured number of passes [D21]', () => {
    const one = afterProbe(open, passed, usual, NOW)
    expect(one).toMatchObject({ status: 'half-open', passed: 1, triesAtMs: NOW + 5_000 })
    const two = afterProbe(one, passed, usual, NOW + 5_000)
    expect(afterProbe(two, passed, usual, NOW + 10_000)).toMatchObject({ status: 'closed', sinceMs: NOW + 10_000 })
  })

  test('a health probe closes the breaker without a half-open state when one pass is enough [E3]', () => {
    expect(afterProbe(open, passed, breaker({ probesToClose: 1 }), NOW).status).toBe('closed')
  })

  test('that fails is made again soon, without waiting for another cooldown', () => {
    expect(afterProbe(open, failed, usual, NOW + 30_000)).toEqual({ ...open, triesAtMs: NOW + 35_000 })
    const again = afterProbe({ ...halfOpen, passed: 2 }, failed, usual, NOW)
    expect(again).toMatchObject({ status: 'open', passed: 0, triesAtMs: NOW + 5_000 })
    expect(again.reason).toContain('ECONNREFUSED')
  })

  test('says nothing about a breaker that is closed', () => {
    expect(afterProbe(closed, failed, usual, NOW)).toBe(closed)
  })
})

describe('the ramp', () => {
  test('never lets less through as time goes by, and ends', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100 }),
        fc.integer({ min: 1, max: 600_000 }),
        fc.array(fc.nat(700_000), { minLength: 2, maxLength: 20 }),
        (halfOpenProbes, ramp, moments) => {
          const at = standing(justClosed, { policy: breaker({ halfOpenProbes, ramp }) })
          const allowed = moments
            .sort((a, b) => a - b)
            .map((ms) => callsAllowed(at, NOW + ms) ?? Number.POSITIVE_INFINITY)
          expect(allowed).toEqual(allowed.toSorted((a, b) => a - b))
          expect(callsAllowed(at, NOW)).toBe(2 * halfOpenProbes)
          expect(callsAllowed(at, NOW + ramp)).toBeNull()
        },
      ),
    )
  })

  test('is only for what was broken', () => {
    expect(callsAllowed(standing(closed), NOW)).toBeNull()
    expect(callsAllowed(standing(justClosed, { policy: breaker({ ramp: 0 }) }), NOW)).toBeNull()
  })

  test('is also for what was held by hand', () => {
    const released = afterForcing({ ...closed, sinceMs: 0 }, forced(), NOW)
    expect(callsAllowed(standing(released), NOW)).toBe(2)
    expect(afterForcing(open, forced(), NOW)).toBe(open)
    expect(afterForcing(closed, forced({ status: 'closed' }), NOW)).toBe(closed)
  })
})

describe('what a person forced', () => {
  test('wins over the computed state until it expires', () => {
    const held = standing(closed, { forced: forced({ untilMs: NOW + 1_000 }) })
    expect([effectiveStatus(held, NOW), callsAllowed(held, NOW)]).toEqual(['open', 0])
    expect([effectiveStatus(held, NOW + 1_000), callsAllowed(held, NOW + 1_000)]).toEqual(['closed', null])
    expect(nextChangeAtMs(held, NOW)).toBe(NOW + 1_000)
    expect(whyHeld(held, NOW)).toBe('forced open by ann: maintenance; ends in 1 s')
  })

  test('closed lets everything through, at once and without a ramp', () => {
    expect(callsAllowed(standing(open, { forced: forced({ status: 'closed' }) }), NOW)).toBeNull()
    expect(callsAllowed(standing(justClosed, { forced: forced({ status: 'closed' }) }), NOW)).toBeNull()
  })
})

test('a breaker that is due has no time left to wait', () => {
  expect(nextChangeAtMs(standing(open, { isProbed: true }), NOW + 30_000)).toBeNull()
})

test('the next change is never in the past, and after it something is different', () => {
  const states = fc.constantFrom(open, justClosed)
  fc.assert(
    fc.property(states, fc.nat(29_999), (state, ms) => {
      const at = standing(state)
      const nextMs = nextChangeAtMs(at, NOW + ms)
      expect(nextMs).toBeGreaterThan(NOW + ms)
      const then = { ...at, state: afterTime(at, Number(nextMs)) }
      expect(callsAllowed(then, Number(nextMs))).not.toBe(callsAllowed(at, NOW + ms))
    }),
  )
})
