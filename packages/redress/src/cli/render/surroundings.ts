import type { Policy } from '../../core/policy/policy.ts'
import type { OutputOf } from '../../operations/table.ts'
import { columns } from '../terminal/columns.ts'
import { ago } from './ago.ts'
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
      { title: 'RUNS', of: (worker) => worker.types.join(', '), charsMin: 8 },
      { title: 'STARTED', of: (worker) => ago(worker.startedAt, terminal) },
      { title: 'SEEN', of: (worker) => ago(worker.seenAt, terminal) },
    ],
    terminal,
  )
}

export function policyPreview(shown: OutputOf<'policy.preview'>, { hint }: Rendering): string {
  if (!shown.isCodesKnown) hint(`The codes of ${shown.type} are known only to the program that declares it.`)
  return shown.text
}

export const policy = ({ type, policy: shown }: OutputOf<'policy.show'>, { terminal }: Rendering): string =>
  `${terminal.paint('strong', type)}\n${policyLines(shown, terminal)}`
