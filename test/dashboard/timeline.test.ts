import { expect, test } from 'vitest'
import { phasesOf } from '../../dashboard/src/words/timeline.ts'
import type { EventView } from '../../src/core/view-history.ts'

const T = Date.parse('2026-01-31T08:00:00Z')
const at = (s: number): string => new Date(T + s * 1000).toISOString()

let seq = 0
const event = (s: number, kind: EventView['kind'], attempt = 0, data: EventView['data'] = {}): EventView => ({
  ...{ seq: ++seq, at: at(s), kind, attempt, worker: null, durationMs: null, data },
})

/** Each phase in a line: kind, from and to in seconds, attempt, outcome. */
const lines = (events: EventView[], { s = 1_000, isHeld = false } = {}): string[] =>
  phasesOf(events, { nowMs: T + s * 1000, isHeld }).map(({ kind, fromMs, toMs, attempt, outcome, isOpen }) =>
    [kind, (fromMs - T) / 1000, (toMs - T) / 1000, attempt, outcome, isOpen && 'open']
      .filter((x) => x || x === 0)
      .join(' '),
  )

test('a job waits, runs, is put off, and runs again; after its end nothing is drawn', () => {
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

test('what goes on ends now, and says so', () => {
  expect(lines([event(0, 'queued'), event(2, 'processing', 1)], { s: 9 })).toEqual([
    'waiting 0 2',
    'running 2 9 1 open',
  ])
  expect(lines([event(0, 'queued')], { s: 9, isHeld: true })).toEqual(['held 0 9 open'])
  expect(lines([event(0, 'queued', 0, { dueAt: at(20) })], { s: 9, isHeld: true })).toEqual(['delayed 0 9 open'])
})

test('a worker that is gone, and what a person did long after the end, have phases of their own', () => {
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
