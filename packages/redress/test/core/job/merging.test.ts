import { expect, test } from 'vitest'
import { dueAtMsOf, expiresAtMsOf, type KeyHolder, type Merge, mergedWith } from '../../../src/core/job/merging.ts'

const NOW_MS = 1_000_000
const debounce: Merge = { kind: 'debounce', key: 'a', waitMs: 50, maxWaitMs: 120 }
const throttle: Merge = { kind: 'throttle', key: 'a', everyMs: 100 }
const singleton: Merge = { kind: 'singleton', key: 'a' }

const holder = (atMs: number, parts: Partial<KeyHolder> = {}): KeyHolder => ({
  atMs,
  status: 'queued',
  attempt: 0,
  ...parts,
})

test.each([
  ['no job: a new one, after the wait', null, { kind: 'new', dueAtMs: NOW_MS + 50, atMs: NOW_MS }],
  ['a waiting job moves to now + wait', holder(NOW_MS - 20), { kind: 'replace', dueAtMs: NOW_MS + 50 }],
  ['not beyond its submission + maxWait', holder(NOW_MS - 100), { kind: 'replace', dueAtMs: NOW_MS + 20 }],
  ['a job past its longest wait is due now', holder(NOW_MS - 500), { kind: 'replace', dueAtMs: NOW_MS }],
  [
    'a job that runs is left alone',
    holder(NOW_MS, { status: 'processing', attempt: 1 }),
    { kind: 'new', dueAtMs: NOW_MS + 50, atMs: NOW_MS },
  ],
  [
    'a job that waits for a retry is left alone',
    holder(NOW_MS, { attempt: 1 }),
    { kind: 'new', dueAtMs: NOW_MS + 50, atMs: NOW_MS },
  ],
] as const)('debounce: %s', (_, before, expected) => {
  expect(mergedWith(debounce, before, NOW_MS)).toEqual(expected)
})

test.each([
  ['no job: the first is due at once', null, { kind: 'new', dueAtMs: null, atMs: NOW_MS }],
  [
    'within the period: one when it ends',
    holder(NOW_MS - 30),
    { kind: 'new', dueAtMs: NOW_MS + 70, atMs: NOW_MS + 70 },
  ],
  ['the job of the next period gets the input', holder(NOW_MS + 70), { kind: 'replace', dueAtMs: null }],
  [
    'a cancelled job of the next period is made again',
    holder(NOW_MS + 70, { status: 'cancelled' }),
    { kind: 'new', dueAtMs: NOW_MS + 70, atMs: NOW_MS + 70 },
  ],
  ['after the period: at once', holder(NOW_MS - 100), { kind: 'new', dueAtMs: null, atMs: NOW_MS }],
  [
    'a job that began counts like one that waits',
    holder(NOW_MS - 30, { status: 'complete', attempt: 1 }),
    { kind: 'new', dueAtMs: NOW_MS + 70, atMs: NOW_MS + 70 },
  ],
] as const)('throttle: %s', (_, before, expected) => {
  expect(mergedWith(throttle, before, NOW_MS)).toEqual(expected)
})

test('a singleton finds a job that waits, also for its retry, and no other', () => {
  expect(mergedWith(singleton, holder(0), NOW_MS)).toEqual({ kind: 'found' })
  expect(mergedWith(singleton, holder(0, { attempt: 3 }), NOW_MS)).toEqual({ kind: 'found' })
  for (const status of ['processing', 'complete', 'failed', 'cancelled'] as const) {
    expect(mergedWith(singleton, holder(0, { status, attempt: 1 }), NOW_MS).kind).toBe('new')
  }
})

test('a job is due after its delay or at its time, and at once if that is over', () => {
  expect(dueAtMsOf({ delayMs: 0 }, NOW_MS)).toBe(null)
  expect(dueAtMsOf({ delayMs: 5 }, NOW_MS)).toBe(NOW_MS + 5)
  expect(dueAtMsOf({ delayMs: 0, runAtMs: NOW_MS + 7 }, NOW_MS)).toBe(NOW_MS + 7)
  expect(dueAtMsOf({ delayMs: 0, runAtMs: NOW_MS }, NOW_MS)).toBe(null)
})

test('the time to live counts from when the job is due', () => {
  expect(expiresAtMsOf({}, null, NOW_MS)).toBe(null)
  expect(expiresAtMsOf({ ttlMs: 10 }, null, NOW_MS)).toBe(NOW_MS + 10)
  expect(expiresAtMsOf({ ttlMs: 10 }, NOW_MS + 5, NOW_MS)).toBe(NOW_MS + 15)
})
