import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { LeasedRow } from '../../../src/store/postgres/jobs/claim-sql.ts'
import { openLinePlaces } from '../../../src/store/postgres/jobs/line-places.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

const leased = (key: number, { type = 1, placeMs = 5, priority = 0 } = {}): LeasedRow => [
  ...([key, type, 1, null, placeMs, priority] as const),
  ...(['id', '{}', null, 0, null, 0, null] as const),
  null,
  placeMs,
  null,
  placeMs,
]

test('claims begin at the beginning, as long as they find what they look at', () => {
  const line = openLinePlaces()
  expect(line.of([1])).toBeNull()
  line.claimed([leased(7)], 500, true)
  expect(line.of([1])).toBeNull()
})

test('after one that looked at very many entries in vain the next ones go on where it ended, for a while', () => {
  const line = openLinePlaces()
  line.claimed([leased(7), leased(8)], 25_002, true)
  expect(line.of([1])).toEqual([{ priority: 0, placeMs: 5, key: 8 }])
  line.claimed([leased(9)], 1, false)
  expect(line.of([1])).toEqual([{ priority: 0, placeMs: 5, key: 9 }])
  vi.advanceTimersByTime(100)
  expect(line.of([1])).toBeNull()
})

test('however many there were, it is for a second at most', () => {
  const line = openLinePlaces()
  line.claimed([leased(7)], 5_000_000, true)
  vi.advanceTimersByTime(999)
  expect(line.of([1])).not.toBeNull()
  vi.advanceTimersByTime(1)
  expect(line.of([1])).toBeNull()
})

test('a job that was taken because of its priority does not lead back, and a line without a place begins at its beginning', () => {
  const line = openLinePlaces()
  line.claimed([leased(7), leased(3, { priority: 9 })], 25_000, true)
  line.claimed([leased(4, { priority: 9, placeMs: 6 })], 1, false)
  const [first, second] = line.of([1, 2]) ?? []
  expect(first).toEqual({ priority: 0, placeMs: 5, key: 7 })
  expect(second?.priority).toBeLessThan(-1_000_000)
})

test('who finds too little behind the places begins anew', () => {
  const line = openLinePlaces()
  line.claimed([leased(7)], 25_000, true)
  line.restart()
  expect(line.of([1])).toBeNull()
})
