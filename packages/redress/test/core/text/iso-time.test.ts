import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isoTime, isoTimeOrNull } from '../../../src/core/text/duration.ts'

test('times are written as Date writes them, for every millisecond that a Date can hold', () => {
  const anyTime = fc.integer({ min: -8.64e15, max: 8.64e15 })
  fc.assert(fc.property(anyTime, (ms) => isoTime(ms) === new Date(ms).toISOString()))
})

test.each([
  '1970-01-01T00:00:00.000Z',
  '2000-02-29T23:59:59.999Z',
  '2023-12-31T00:00:00.000Z',
  '2024-02-29T12:00:00.001Z',
  '2100-03-01T00:00:00.000Z',
])('a time that leap years make difficult: %s', (text) => {
  expect(isoTime(Date.parse(text))).toBe(text)
})

test('no time is null', () => {
  expect([isoTimeOrNull(null), isoTimeOrNull(0)]).toEqual([null, '1970-01-01T00:00:00.000Z'])
})
