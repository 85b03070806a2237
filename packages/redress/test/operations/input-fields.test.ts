import { expect, test } from 'vitest'
import { RedressError } from '../../src/index.ts'
import { momentMs } from '../../src/operations/input-fields.ts'

const NOW_MS = Date.UTC(2026, 5, 15, 12)

test.each([
  ['2h', NOW_MS - 2 * 60 * 60_000],
  ['1d', Date.UTC(2026, 5, 14, 12)],
  ['2026-01-31', Date.UTC(2026, 0, 31)],
  ['2026-01-31T08:00Z', Date.UTC(2026, 0, 31, 8)],
  ['2026-01-31T08:00:01.500+02:00', Date.UTC(2026, 0, 31, 6, 0, 1, 500)],
  // Without a zone it is the store's, which is UTC, wherever the command is typed.
  ['2026-01-31T08:00', Date.UTC(2026, 0, 31, 8)],
])('%s is a moment', (text, ms) => {
  expect(momentMs(text, 'since', NOW_MS)).toBe(ms)
})

test.each(['yesterday', '2026-13-01', '2026-01-31T99:00', '-2h', ''])(
  '%j is not a time, and the refusal names the field',
  (text) => {
    expect(() => momentMs(text, 'since', NOW_MS)).toThrow(RedressError)
    expect(() => momentMs(text, 'since', NOW_MS)).toThrow(/^since: /)
  },
)

test('the refusal names both formats, a duration and a time', () => {
  expect(() => momentMs('yesterday', 'since', NOW_MS)).toThrow(/'2h'.*'2026-01-31T08:00Z'/)
})
