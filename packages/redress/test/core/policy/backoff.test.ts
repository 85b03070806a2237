import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Backoff, backoffMs, exponential, table } from '../../../src/core/policy/backoff.ts'
import { DURATION_MS_MAX } from '../../../src/core/text/duration.ts'
import { anyBackoff, anyChance } from './arbitrary-policy.ts'

const ALMOST_ONE = 1 - Number.EPSILON / 2
const delays = (backoff: Backoff, count: number, chance = 0) =>
  Array.from({ length: count }, (_, failuresBefore) => backoffMs(backoff, failuresBefore, chance).delayMs)

test('a backoff table waits 1, 5 and 15 minutes and stays at its last entry [W14]', () => {
  expect(delays(table(['1m', '5m', '15m']), 5)).toEqual([60_000, 300_000, 900_000, 900_000, 900_000])
})

test('a backoff table of 5, 15 and 45 s with 20 % jitter varies by exactly 20 % either way [D12]', () => {
  const backoff = table(['5s', '15s', '45s'], { jitter: '20%' })
  expect(delays(backoff, 3, 0)).toEqual([4_000, 12_000, 36_000])
  expect(delays(backoff, 3, 0.5)).toEqual([5_000, 15_000, 45_000])
  expect(delays(backoff, 3, ALMOST_ONE)).toEqual([6_000, 18_000, 54_000])
})

test('the exponential delay is 5000 * 2^n + rand(0..5000) ms, n from 0 [E8]', () => {
  const backoff = exponential('5s', { jitter: '5s' })
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 20 }), anyChance, (n, chance) => {
      const { delayMs } = backoffMs(backoff, n, chance)
      expect(delayMs).toBe(5000 * 2 ** n + Math.floor(chance * 5001))
    }),
  )
  expect(delays(backoff, 3, 0)).toEqual([5_000, 10_000, 20_000])
  expect(delays(backoff, 3, ALMOST_ONE)).toEqual([10_000, 15_000, 25_000])
})

test('the cap holds the delay before the jitter is added', () => {
  const backoff = exponential('1m', { cap: '2m', jitter: '10s' })
  expect(delays(backoff, 4, ALMOST_ONE)).toEqual([70_000, 130_000, 130_000, 130_000])
})

test('the inputs of a delay are returned, so that it can be explained later', () => {
  expect(backoffMs(table(['10s'], { jitter: '20%' }), 4, 0)).toEqual({
    delayMs: 8_000,
    inputs: { kind: 'table', failuresBefore: 4, baseMs: 10_000, jitterMs: -2_000 },
  })
})

test('after 10 000 failures the delay is still a finite whole number', () => {
  expect(delays(exponential('5s', { factor: 1000, jitter: '100%' }), 1, 0)).toEqual([0])
  expect(backoffMs(exponential('5s', { factor: 1000, jitter: '7d' }), 10_000, ALMOST_ONE).delayMs).toBe(DURATION_MS_MAX)
  expect(backoffMs(exponential(1, { factor: 1 }), 10_000, 0.5).delayMs).toBe(1)
})

test('every delay of every backoff is a whole number within bounds and its jitter within what was allowed', () => {
  fc.assert(
    fc.property(anyBackoff, fc.integer({ min: 0, max: 10_000 }), anyChance, (backoff, failuresBefore, chance) => {
      const { delayMs, inputs } = backoffMs(backoff, failuresBefore, chance)
      expect(Number.isSafeInteger(delayMs) && delayMs >= 0 && delayMs <= DURATION_MS_MAX).toBe(true)
      const { jitter } = backoff
      const [least, most] =
        jitter === null
          ? [0, 0]
          : jitter.kind === 'add'
            ? [0, jitter.maxMs]
            : [-inputs.baseMs * jitter.ratio, inputs.baseMs * jitter.ratio]
      expect(inputs.jitterMs).toBeGreaterThanOrEqual(least)
      expect(inputs.jitterMs).toBeLessThanOrEqual(most)
      expect(delayMs).toBe(Math.min(inputs.baseMs + inputs.jitterMs, DURATION_MS_MAX))
    }),
  )
})

test('a built backoff is plain data', () => {
  expect(JSON.parse(JSON.stringify(exponential('5s', { cap: '1h', jitter: '20%' })))).toEqual({
    kind: 'exponential',
    baseMs: 5_000,
    factor: 2,
    capMs: 3_600_000,
    jitter: { kind: 'ratio', ratio: 0.2 },
  })
})

test.each([
  ['no delays', () => table([]), 'table() table: needs at least one delay'],
  ['nonsense in the table', () => table(['1m', 'soon']), 'table() table 1: "soon" is not a duration'],
  ['a base of nothing', () => exponential(0), 'exponential() exponential: 0 is shorter than'],
  ['a factor that shrinks', () => exponential('5s', { factor: 0.5 }), 'exponential() factor:'],
  ['more jitter than delay', () => exponential('5s', { jitter: '120%' }), 'exponential() jitter ratio:'],
  ['nonsense as jitter', () => exponential('5s', { jitter: 'some' }), "or '20%' for ±20 %"],
  ['a cap below the base', () => exponential('5m', { cap: '1m' }), 'cap is shorter than the base'],
  ['an unknown option', () => table(['1m'], { jiter: '5s' } as object), 'table() has no option "jiter"'],
])('a backoff with %s is refused', (_, build, message) => {
  expect(build).toThrow(expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringContaining(message) }))
})
