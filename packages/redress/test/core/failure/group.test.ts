import { describe, expect, test } from 'vitest'
import {
  actOnGroup,
  addToGroup,
  type FailureGroup,
  type GroupAct,
  type GroupedFailure,
  lastDay,
  stateAt,
} from '../../../src/core/failure/group.ts'
import { HOUR_MS } from '../../../src/core/text/duration.ts'

const NOW_MS = 1_000 * HOUR_MS

const failure = (seq: number, parts: Partial<GroupedFailure> = {}): GroupedFailure => ({
  seq,
  job: seq,
  atMs: NOW_MS + seq,
  fingerprint: '1:abc',
  type: 'pdf.convert',
  code: 'GW_5XX',
  fault: 'dependency',
  message: 'It kept failing.',
  context: { httpStatus: 502 },
  isFinal: false,
  ...parts,
})

const grouped = (...failures: GroupedFailure[]): FailureGroup =>
  failures.reduce<FailureGroup | null>((group, one) => addToGroup(group, one).group, null) as FailureGroup

const acted = (group: FailureGroup, act: GroupAct, nowMs: number, newestSeq: number): FailureGroup =>
  actOnGroup(group, act, { actor: 'ann', reason: 'mended', nowMs, newestSeq })

describe('counting', () => {
  test('all failures, those that ended a job, the first and the last time', () => {
    const group = grouped(failure(1), failure(2, { isFinal: true }), failure(3, { message: 'Newer words.' }))
    expect(group).toMatchObject({
      count: 3,
      final: 1,
      firstAtMs: NOW_MS + 1,
      lastAtMs: NOW_MS + 3,
      message: 'Newer words.',
      state: 'open',
    })
    expect(group.fields.httpStatus).toEqual([{ value: '502', count: 3, over: 0 }])
  })

  test('a clock that was set back turns neither time around', () => {
    expect(grouped(failure(1), failure(2, { atMs: NOW_MS - 500 }))).toMatchObject({
      firstAtMs: NOW_MS - 500,
      lastAtMs: NOW_MS + 1,
    })
  })

  test('the newest failures, one per job, no more than ten', () => {
    const group = grouped(failure(1, { job: 7 }), failure(2, { job: 8 }), failure(3, { job: 7 }))
    expect(group.newest).toEqual([
      { seq: 3, job: 7 },
      { seq: 2, job: 8 },
    ])
    const many = grouped(...Array.from({ length: 30 }, (_, i) => failure(i + 1)))
    expect(many.newest.map(({ seq }) => seq)).toEqual([30, 29, 28, 27, 26, 25, 24, 23, 22, 21])
  })

  test('by the hour for a day, the present hour last', () => {
    const group = grouped(
      failure(1, { atMs: NOW_MS - 30 * HOUR_MS }),
      failure(2, { atMs: NOW_MS - 2 * HOUR_MS }),
      failure(3, { atMs: NOW_MS }),
      failure(4, { atMs: NOW_MS + 1 }),
    )
    const day = lastDay(group, NOW_MS + 2)
    expect(day).toHaveLength(24)
    expect(day.map(({ count }) => count)).toEqual([...Array(21).fill(0), 1, 0, 2])
    expect(day.at(-1)?.startMs).toBe(NOW_MS)
    expect(group.hours.length).toBeLessThanOrEqual(24)
    expect(lastDay(group, NOW_MS + 48 * HOUR_MS).every(({ count }) => count === 0)).toBe(true)
  })
})

describe('resolved', () => {
  const resolved = acted(grouped(failure(1)), { to: 'resolved' }, NOW_MS + 50, 5)

  test('it says who and why', () => {
    expect(resolved).toMatchObject({ state: 'resolved', stateBy: 'ann', stateReason: 'mended', stateAtMs: NOW_MS + 50 })
  })

  test('a new failure makes it regressed, without an actor', () => {
    const { group, became } = addToGroup(resolved, failure(6))
    expect(became).toBe('regressed')
    expect(group).toMatchObject({ state: 'regressed', stateBy: null, stateAtMs: NOW_MS + 6 })
  })

  test('a failure that was there already and is only counted late does not', () => {
    const { group, became } = addToGroup(resolved, failure(5, { atMs: NOW_MS + 60 }))
    expect([became, group.state, group.count]).toEqual([null, 'resolved', 2])
  })

  test('a regressed group stays so whatever comes', () => {
    const regressed = addToGroup(resolved, failure(6)).group
    expect(addToGroup(regressed, failure(7))).toMatchObject({ became: null, group: { state: 'regressed' } })
  })
})

describe('snoozed', () => {
  test('until a time: then it is open, although no write recorded that', () => {
    const group = acted(grouped(failure(1)), { to: 'snoozed', forMs: 1_000, more: null }, NOW_MS, 1)
    expect(stateAt(group, NOW_MS + 999)).toBe('snoozed')
    expect(stateAt(group, NOW_MS + 1_000)).toBe('open')
    expect(addToGroup(group, failure(2)).became).toBeNull()
    const late = addToGroup(group, failure(3, { atMs: NOW_MS + 1_000 }))
    expect(late).toMatchObject({ became: 'open', group: { state: 'open', snoozedUntilMs: null, stateBy: null } })
  })

  test('until so many more have failed', () => {
    const group = acted(grouped(failure(1), failure(2)), { to: 'snoozed', forMs: null, more: 2 }, NOW_MS, 2)
    const once = addToGroup(group, failure(3))
    expect([once.became, stateAt(once.group, NOW_MS + 1e9)]).toEqual([null, 'snoozed'])
    expect(addToGroup(once.group, failure(4))).toMatchObject({ became: 'open', group: { state: 'open' } })
  })

  test('a failure that is counted late does not use up the snooze', () => {
    const group = acted(grouped(failure(1)), { to: 'snoozed', forMs: null, more: 1 }, NOW_MS, 2)
    const late = addToGroup(group, failure(2))
    expect([late.became, stateAt(late.group, NOW_MS)]).toEqual([null, 'snoozed'])
    expect(addToGroup(late.group, failure(3)).became).toBe('open')
  })

  test('whichever comes first ends it', () => {
    const group = acted(grouped(failure(1)), { to: 'snoozed', forMs: 1_000, more: 100 }, NOW_MS, 1)
    expect(stateAt(group, NOW_MS + 1_000)).toBe('open')
  })

  test('resolved or reopened, it is snoozed no more', () => {
    const group = acted(grouped(failure(1)), { to: 'snoozed', forMs: 1_000, more: 3 }, NOW_MS, 1)
    for (const to of ['resolved', 'open'] as const) {
      expect(acted(group, { to }, NOW_MS, 1)).toMatchObject({ state: to, snoozedUntilMs: null, snoozedCount: null })
    }
  })
})
