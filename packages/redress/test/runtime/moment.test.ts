import { expect, test } from 'vitest'
import { isoMs, timeMs } from '../../src/runtime/moment.ts'

const JANUARY = Date.UTC(2026, 0, 31)

test.each([
  ['2026-01-31', JANUARY],
  ['2026-01-31T08:00Z', JANUARY + 8 * 3_600_000],
  ['2026-01-31T08:00:01.500+02:00', JANUARY + 6 * 3_600_000 + 1_500],
  ['2026-01-31T08:00+0200', JANUARY + 6 * 3_600_000],
  [new Date(JANUARY), JANUARY],
])('%j is a time', (time, ms) => {
  expect(timeMs(time, 'runAt')).toBe(ms)
})

test.each([
  ['2026-01-31T08:00', 'runAt: "2026-01-31T08:00" has no time zone.'],
  ['2026-01-31 08:00', 'runAt: "2026-01-31 08:00" is not a time in ISO 8601.'],
  ['2026-02-01junk', 'runAt: "2026-02-01junk" is not a time in ISO 8601.'],
  ['2026-02-30', 'runAt: "2026-02-30" is not a time in ISO 8601.'],
  ['2026-02-30T08:00Z', 'runAt: "2026-02-30T08:00Z" is not a time in ISO 8601.'],
  ['2026-13-01', 'runAt: "2026-13-01" is not a time in ISO 8601.'],
  ['2026-01-31T25:00Z', 'runAt: "2026-01-31T25:00Z" is not a time in ISO 8601.'],
  ['tomorrow', 'runAt: "tomorrow" is not a time in ISO 8601.'],
  [new Date(Number.NaN), 'runAt: an invalid Date is not a time in ISO 8601.'],
  [5, 'runAt: a number is not a time in ISO 8601.'],
  [null, 'runAt: null is not a time in ISO 8601.'],
  [new Date(8.64e15), 'runAt: +275760-09-13T00:00:00.000Z is after the year 9999.'],
])('%j is refused as the time of something that will happen, with its field', (time, message) => {
  expect(() => timeMs(time, 'runAt')).toThrow(expect.objectContaining({ code: 'OPTION_INVALID', message }))
})

test('a text without a zone can be read as UTC, and a text that is no date cannot be read', () => {
  expect(isoMs('2026-01-31T08:00')).toBe(JANUARY + 8 * 3_600_000)
  expect(isoMs('2026-02-01junk')).toBeNaN()
  expect(isoMs('2026-02-30')).toBeNaN()
})
