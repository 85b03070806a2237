import { expect, test } from 'vitest'
import {
  type Change,
  cancelOnRequeue,
  endEventOf,
  isStillReclaimable,
  type ReclaimExpectation,
  recordedKindsOf,
} from '../../../src/core/job/change.ts'

type Requeue = Extract<Change, { to: 'queued' }>
type Failure = NonNullable<Requeue['failure']>

const failure = { code: 'BROKEN', context: { httpStatus: 503 } } as unknown as Failure
const requeue = (parts: Partial<Requeue> = {}): Requeue => ({
  ...{ to: 'queued', cause: 'retry', delayMs: 10, spent: null, failure: null, note: null },
  ...parts,
})

test('only a requeue is turned into a cancellation, and only after a request to cancel', () => {
  expect(cancelOnRequeue(requeue(), true).change.to).toBe('cancelled')
  const others: Change[] = [
    { to: 'complete', result: null },
    { to: 'cancelled', note: null },
    { to: 'failed', spent: null, failure, deadLetter: 'none', isPermanent: true },
  ]
  for (const change of others) expect(cancelOnRequeue(change, true)).toEqual({ change, keptFailure: null })
  for (const change of [requeue(), ...others])
    expect(cancelOnRequeue(change, false)).toEqual({ change, keptFailure: null })
})

test('a requeue that is turned into a cancellation keeps its failure and its stages', () => {
  const stages: NonNullable<Requeue['stages']> = []
  expect(cancelOnRequeue(requeue({ failure, stages }), true)).toEqual({
    change: { to: 'cancelled', note: 'it was asked to cancel', stages },
    keptFailure: failure,
  })
  expect(cancelOnRequeue(requeue(), true)).toEqual({
    change: { to: 'cancelled', note: 'it was asked to cancel' },
    keptFailure: null,
  })
})

test('an end is recorded by its own kind of event, and a requeue perhaps as a cancellation', () => {
  expect(recordedKindsOf(requeue({ cause: 'snoozed' }))).toEqual({ kind: 'snoozed', otherKind: 'cancelled' })
  expect(recordedKindsOf({ to: 'complete', result: null })).toEqual({ kind: 'complete', otherKind: null })
})

test('the event of a requeue names its cause, the budget spent, the code, the HTTP status and the note', () => {
  expect(endEventOf(requeue({ cause: 'snoozed' }))).toEqual({ kind: 'snoozed', data: { spent: '' } })
  expect(endEventOf(requeue({ failure, spent: '{"failures":1}', note: 'busy' }))).toEqual({
    kind: 'retry',
    data: { spent: '{"failures":1}', httpStatus: 503, code: 'BROKEN', reason: 'busy' },
  })
})

test('the event of an end names what the change says, and nothing where it says nothing', () => {
  expect(endEventOf({ to: 'complete', result: null })).toEqual({ kind: 'complete', data: null })
  expect(endEventOf({ to: 'cancelled', note: null })).toEqual({ kind: 'cancelled', data: null })
  expect(endEventOf({ to: 'cancelled', note: 'enough' })).toEqual({ kind: 'cancelled', data: { reason: 'enough' } })
  const failed: Change = { to: 'failed', spent: null, failure, deadLetter: 'none', isPermanent: true }
  expect(endEventOf(failed)).toEqual({ kind: 'failed', data: { code: 'BROKEN', spent: '', httpStatus: 503 } })
})

test('a job is reclaimed only while it is as the reclaiming worker saw it', () => {
  const nowMs = 1_000
  const isReclaimed = (expectation: ReclaimExpectation, leaseUntilMs: number, startedAtMs: number | null) =>
    isStillReclaimable(expectation, 'queued', { leaseUntilMs, startedAtMs, orphanedAtMs: null }, nowMs)
  const [expired, held] = [nowMs, nowMs + 1]
  const table: [ReclaimExpectation, leaseUntilMs: number, startedAtMs: number | null, isReclaimed: boolean][] = [
    ['expired', expired, null, true],
    ['expired', expired, 500, true],
    ['expired', held, 500, false],
    ['expired-unstarted', expired, null, true],
    ['expired-unstarted', expired, 500, false],
    ['expired-unstarted', held, null, false],
    ['unstarted', held, null, true],
    ['unstarted', expired, null, true],
    ['unstarted', held, 500, false],
    ['stuck', held, 500, true],
    ['stuck', expired, 500, true],
    ['stuck', held, null, false],
  ]
  for (const [expectation, leaseUntilMs, startedAtMs, answer] of table)
    expect([expectation, isReclaimed(expectation, leaseUntilMs, startedAtMs)]).toEqual([expectation, answer])
})

test('an orphan is reported once, and can still be taken back', () => {
  const orphan = { leaseUntilMs: 0, startedAtMs: 0, orphanedAtMs: 500 }
  expect(isStillReclaimable('expired', 'orphaned', orphan, 1_000)).toBe(false)
  expect(isStillReclaimable('expired', 'orphaned', { ...orphan, orphanedAtMs: null }, 1_000)).toBe(true)
  expect(isStillReclaimable('expired', 'failed', orphan, 1_000)).toBe(true)
})
