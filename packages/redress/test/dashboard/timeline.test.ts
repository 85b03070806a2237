import { expect, test } from 'vitest'
import { type PastHold, pausesOf } from '../../dashboard/src/words/past-holds.ts'
import { phasesOf } from '../../dashboard/src/words/timeline.ts'
import type { EventView } from '../../src/core/views/job.ts'
import type { AuditView } from '../../src/operations/audit/audit.ts'

const T = Date.parse('2026-01-31T08:00:00Z')
const at = (s: number): string => new Date(T + s * 1000).toISOString()

let seq = 0
const event = (s: number, kind: EventView['kind'], attempt = 0, data: EventView['data'] = {}): EventView => ({
  ...{ seq: ++seq, at: at(s), kind, attempt, worker: null, durationMs: null, data },
})

/** Each phase in a line: kind, from and to in seconds, attempt, outcome. */
const lines = (events: EventView[], { s = 1_000, isHeld = false, holds = [] as PastHold[] } = {}): string[] =>
  phasesOf(events, { nowMs: T + s * 1000, isHeld, holds }).map(({ kind, fromMs, toMs, attempt, by, outcome, isOpen }) =>
    [kind, (fromMs - T) / 1000, (toMs - T) / 1000, attempt, by, outcome, isOpen && 'open']
      .filter((x) => x || x === 0)
      .join(' '),
  )

test('the timeline shows waits, attempts and retries up to the end of the job', () => {
  expect(
    lines([
      event(0, 'queued'),
      event(1, 'processing', 1),
      event(1, 'started', 1),
      event(3, 'retry', 1, { dueAt: at(13) }),
      event(15, 'processing', 2),
      event(18, 'complete', 2),
    ]),
  ).toEqual(['waiting 0 1', 'running 1 3 1 failed', 'delayed 3 13', 'waiting 13 15', 'running 15 18 2 complete'])
})

test('a running phase ends at the current time', () => {
  expect(lines([event(0, 'queued'), event(2, 'processing', 1)], { s: 9 })).toEqual([
    'waiting 0 2',
    'running 2 9 1 open',
  ])
  expect(lines([event(0, 'queued')], { s: 9, isHeld: true })).toEqual(['held 0 9 open'])
  expect(lines([event(0, 'queued', 0, { dueAt: at(20) })], { s: 9, isHeld: true })).toEqual(['delayed 0 9 open'])
})

test('past holds are shown apart from waiting for a worker', () => {
  const hold = (from: number, to: number, by: string) => ({ fromMs: T + from * 1000, toMs: T + to * 1000, by })
  const holds = [
    hold(30, 45, 'queue mail'),
    hold(0, 20, 'breaker gw'),
    hold(10, 15, 'queue mail'),
    hold(90, 99, 'late'),
  ]
  const life = [event(5, 'queued', 0, { dueAt: at(8) }), event(50, 'processing', 1), event(60, 'complete', 1)]
  expect(lines(life, { holds })).toEqual([
    'delayed 5 8',
    'held 8 20 breaker gw',
    'waiting 20 30',
    'held 30 45 queue mail',
    'waiting 45 50',
    'running 50 60 1 complete',
  ])
  // Something else holds it now, and nobody knows since when: not before what is known ended.
  const waits = [event(0, 'queued')]
  expect(lines(waits, { s: 40, isHeld: true, holds: [hold(5, 20, 'breaker gw')] })).toEqual([
    'waiting 0 5',
    'held 5 20 breaker gw',
    'held 20 40 open',
  ])
})

test('a past pause ends with its resume, its time limit or now', () => {
  const act = (s: number, name: string, untilMs?: number): AuditView => ({
    ...{ seq: s, at: at(s), actor: 'olga', act: `queues.${name}`, reason: 'a test', target: 'queue', ids: ['mail'] },
    data: untilMs === undefined ? null : { untilMs },
  })
  const acts = [act(1, 'pause'), act(3, 'resume'), act(4, 'pause', T + 5_000), act(7, 'resume'), act(8, 'pause')]
  const found = pausesOf('mail', acts.toReversed(), T + 9_000)
  expect(found.map(({ fromMs, toMs, by }) => [fromMs - T, toMs - T, by])).toEqual([
    [1_000, 3_000, 'queue mail'],
    [4_000, 5_000, 'queue mail'],
    [8_000, 9_000, 'queue mail'],
  ])
})

test('a lost worker and a late manual retry have their own phases', () => {
  expect(
    lines([
      event(0, 'queued'),
      event(1, 'processing', 1),
      event(31, 'orphaned', 1),
      event(90, 'failed', 1),
      event(900, 'manual-retry', 1),
      event(901, 'processing', 2),
      event(901, 'complete', 2),
    ]),
  ).toEqual([
    'waiting 0 1',
    'running 1 31 1',
    'orphaned 31 90 1 failed',
    'ended 90 900',
    'waiting 900 901',
    'running 901 901 2 complete',
  ])
})
