import { describe, expect, test } from 'vitest'
import { retryAfterHeaderMs } from '../../../src/core/failure/retry-after.ts'

describe('Retry-After', () => {
  const nowMs = Date.UTC(1994, 10, 6, 8, 49, 0)
  test.each([
    ['0', 0],
    ['120', 120_000],
    [' 7 ', 7000],
    ['Sun, 06 Nov 1994 08:49:37 GMT', 37_000],
    ['Sunday, 06-Nov-94 08:49:37 GMT', 37_000],
    ['Sun Nov  6 08:49:37 1994', 37_000],
    ['Sun, 06 Nov 1994 08:00:00 GMT', 0],
  ])('%s is a wait', (header, ms) => {
    expect(retryAfterHeaderMs(header, nowMs)).toBe(ms)
  })

  test('a year of two figures is not more than fifty years ahead', () => {
    expect(retryAfterHeaderMs('Monday, 16-Nov-26 10:00:07 GMT', Date.UTC(2026, 10, 16, 10))).toBe(7000)
    expect(retryAfterHeaderMs('Sunday, 06-Nov-94 08:49:37 GMT', Date.UTC(2026, 10, 16, 10))).toBe(0)
  })

  test.each(['', 'soon', '-1', '7.5', '1e3', 'Sunday', '99999999999', null, undefined])('%s is none', (header) => {
    expect(retryAfterHeaderMs(header, nowMs)).toBeNull()
  })
})
