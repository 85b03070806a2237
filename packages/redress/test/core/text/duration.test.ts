import fc from 'fast-check'
import { expect, test } from 'vitest'
import { DURATION_MS_MAX, durationMs, formatMs } from '../../../src/core/text/duration.ts'

test.each([
  [0, 0],
  [1500, 1500],
  ['250ms', 250],
  ['5s', 5_000],
  ['1m', 60_000],
  ['2h', 7_200_000],
  ['7d', 604_800_000],
  ['1m30s', 90_000],
  ['1d2h3m4s5ms', 93_784_005],
  ['1.5h', 5_400_000],
  ['2.01s', 2_010],
  ['1 m 30 s', 90_000],
  ['0s', 0],
  ['3650d', DURATION_MS_MAX],
])('%j is %d milliseconds', (written, ms) => {
  expect(durationMs(written, 'field')).toBe(ms)
})

test.each([
  [-1, 'is negative'],
  ['-5s', 'is not a duration'],
  [Number.NaN, 'is not a duration'],
  [Number.POSITIVE_INFINITY, 'is longer than 10 years'],
  [1.5, 'is a fraction of a millisecond'],
  ['5 parsecs', 'is not a duration'],
  ['30s1m', 'is not a duration'],
  ['5', 'is not a duration'],
  ['5M', 'is not a duration'],
  ['', 'is not a duration'],
  [' ', 'is not a duration'],
  ['3651d', 'is longer than 10 years'],
  ['9'.repeat(400).concat('d'), 'is longer than 10 years'],
  [null, 'is not a duration'],
  [{}, 'is not a duration'],
])('%j is refused with the name of the field and what to write', (written, why) => {
  expect(() => durationMs(written as string, 'lease.ttl')).toThrow(
    expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringMatching(`^lease\\.ttl: .*${why}`) }),
  )
})

test.each([
  [0, '0 ms'],
  [250, '250 ms'],
  [7_200, '7.2 s'],
  [7_249, '7.2 s'],
  [5_000, '5 s'],
  [59_940, '59.9 s'],
  [59_960, '1 m'],
  [90_000, '1 m 30 s'],
  [3_599_999, '1 h'],
  [7_500_000, '2 h 5 m'],
  [86_400_000 + 300_000, '1 d'],
  [30 * 86_400_000, '30 d'],
  [-90_000, '-1 m 30 s'],
])('%d ms is shown to people as %s', (ms, shown) => {
  expect(formatMs(ms)).toBe(shown)
})

test('what is shown can be written back, and names nearly the same time', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: DURATION_MS_MAX }), (ms) => {
      const back = durationMs(formatMs(ms), 'shown')
      expect(Math.abs(back - ms)).toBeLessThanOrEqual(Math.max(50, ms / 20))
    }),
  )
})

test('any text is either a whole number of milliseconds within bounds or refused', () => {
  const texts = fc.oneof(fc.string(), fc.stringMatching(/^[0-9.]{0,9}(d|h|m|s|ms)?[0-9]{0,4}(s|ms)?$/))
  fc.assert(
    fc.property(texts, (text) => {
      try {
        const ms = durationMs(text, 'field')
        expect(Number.isSafeInteger(ms) && ms >= 0 && ms <= DURATION_MS_MAX).toBe(true)
      } catch (error) {
        expect(error).toMatchObject({ code: 'OPTION_INVALID' })
      }
    }),
  )
})
