import type { Policy } from '../../core/policy.ts'
import type { OutputOf } from '../../operations/table.ts'
import { columns } from '../columns.ts'
import { age, ago } from './ago.ts'
import { policyLines } from './policy.ts'
import type { Rendering } from './rendering.ts'

export function types({ types: shown }: OutputOf<'types.list'>, { terminal }: Rendering): string {
  return columns(
    shown,
    [
      { title: 'TYPE', of: (type) => type.name },
      { title: 'QUEUE', of: (type) => type.queue },
      { title: 'TRIES', of: (type) => type.policy.retry.max, isNumber: true },
      { title: 'MANUAL RETRY', of: (type) => type.policy.manualRetry.mode },
      { title: 'LOST WORKER', of: (type) => type.policy.orphan.action },
      { title: 'DEAD LETTER', of: (type) => type.policy.deadLetter },
      { title: '', of: (type) => marksOf(type.policy), charsMin: 6 },
    ],
    terminal,
  )
}

const marksOf = ({ locked, forwardOnly }: Policy): string =>
  [locked ? 'locked' : '', forwardOnly ? 'forward only' : ''].filter(Boolean).join(', ')

export function workers({ workers: shown }: OutputOf<'workers.list'>, { terminal }: Rendering): string {
  return columns(
    shown,
    [
      { title: 'WORKER', of: (worker) => worker.id },
      {
        title: 'STATE',
        of: (worker) => worker.state,
        style: ({ state }) => (state === 'working' ? 'good' : state === 'silent' ? 'bad' : 'quiet'),
      },
      { title: 'HOST', of: (worker) => worker.host, charsMin: 8 },
      { title: 'PID', of: (worker) => worker.pid, isNumber: true },
      { title: 'STARTED', of: (worker) => ago(worker.startedAt, terminal) },
      { title: 'SEEN', of: (worker) => ago(worker.seenAt, terminal) },
    ],
    terminal,
  )
}

export function queues({ queues: shown }: OutputOf<'queues.list'>, { terminal }: Rendering): string {
  type Counts = (typeof shown)[number]
  const count = (title: keyof Counts & string) => ({
    title: title.toUpperCase(),
    of: (counts: Counts) => counts[title],
    isNumber: true,
  })
  return columns(
    shown,
    [
      { title: 'QUEUE', of: (counts) => counts.queue, charsMin: 7 },
      { title: 'TYPE', of: (counts) => counts.type, charsMin: 12 },
      ...(['queued', 'waiting', 'processing', 'orphaned', 'complete', 'failed', 'cancelled'] as const).map(count),
    ],
    terminal,
  )
}

export function deadLetters(shown: OutputOf<'dead-letters.list'>, rendering: Rendering): string {
  const { terminal } = rendering
  if (shown.nextAfter !== null) rendering.hint(`There are more: add --after ${shown.nextAfter}`)
  return columns(
    shown.deadLetters,
    [
      { title: 'OFFSET', of: (letter) => letter.offset, isNumber: true },
      { title: 'JOB', of: (letter) => letter.jobId },
      { title: 'TYPE', of: (letter) => letter.type, charsMin: 10 },
      { title: 'TRY', of: (letter) => letter.attempts, isNumber: true },
      { title: 'CODE', of: (letter) => letter.failure.code, style: () => 'bad', charsMin: 8 },
      { title: 'AGE', of: (letter) => age(letter.at, terminal), isNumber: true },
    ],
    terminal,
  )
}

export const policy = ({ type, policy: shown }: OutputOf<'policy.show'>, { terminal }: Rendering): string =>
  `${terminal.paint('strong', type)}\n${policyLines(shown, terminal)}`
