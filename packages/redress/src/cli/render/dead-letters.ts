import type { LetterView } from '../../operations/dead-letters/dead-letters.ts'
import type { OutputOf } from '../../operations/table.ts'
import { quoted } from '../language/commands.ts'
import { type Column, columns, facts } from '../terminal/columns.ts'
import { age, ago, type Style } from '../terminal/terminal.ts'
import { failureBlock } from './jobs.ts'
import type { Renderers, Rendering } from './rendering.ts'
import { replayedMatching } from './replays.ts'

function letterList(shown: OutputOf<'dead-letters.list'>, rendering: Rendering): string {
  const { terminal } = rendering
  if (shown.nextAfter !== null) rendering.hint(`More: add --after ${shown.nextAfter}, with the same --order`)
  const shape: Column<LetterView>[] = [
    { title: 'OFFSET', of: (letter) => letter.offset, isNumber: true },
    { title: 'JOB', of: (letter) => letter.jobId },
    { title: 'TYPE', of: (letter) => letter.type, charsMin: 10 },
    { title: 'TRY', of: (letter) => letter.attempts, isNumber: true },
    { title: 'CODE', of: (letter) => letter.failure.code, style: () => 'bad', charsMin: 8 },
    { title: 'AGE', of: (letter) => age(letter.at, terminal), isNumber: true },
    { title: 'REPLAYED', of: (letter) => ago(letter.replayedAt, terminal), style: replayedStyle, charsMin: 8 },
  ]
  return columns(shown.deadLetters, shape, terminal)
}

function letter(shown: OutputOf<'dead-letters.show'>, { terminal, command, hint }: Rendering): string {
  const when = (at: string | null) => (at === null ? null : `${at}  (${ago(at, terminal)})`)
  const head = facts(
    [
      ['dead letter', shown.offset],
      ['job', `${shown.jobId} (${shown.jobStatus})`],
      ['type', shown.type],
      ['owner', shown.owner],
      ['attempts', shown.attempts],
      ['created', when(shown.at)],
      ['replayed', shown.replays === 0 ? null : `${when(shown.replayedAt)}${times(shown.replays)}`],
      ['as job', shown.replayedAs],
      ['input', JSON.stringify(shown.input)],
      ['can be replayed', shown.replay.allowed ? 'yes' : `no: ${shown.replay.why}`],
    ],
    terminal,
  )
  if (shown.replay.allowed) {
    hint(`Replay it: ${command('dead-letters', 'replay', String(shown.offset))} --reason ${quoted('say why')}`)
  }
  return `${head}\n${failureBlock(shown.failure, terminal)}`
}

const replayedStyle = ({ replays }: LetterView): Style => (replays === 0 ? 'quiet' : 'good')

const times = (count: number): string => (count === 1 ? '' : `, ${count} times in all`)

function replayedLetter(output: OutputOf<'dead-letters.replay'>, { hint, command }: Rendering): string {
  if (output.job !== null) hint(`Next: ${command('explain', output.job.id)}`)
  return `${output.did}\n`
}

type Cause = OutputOf<'dead-letters.purge'>['byCause'][number]

const CAUSES: readonly Column<Cause>[] = [
  { title: 'LETTERS', of: ({ letters }) => letters, isNumber: true },
  { title: 'TYPE', of: ({ type }) => type, charsMin: 10 },
  { title: 'CODE', of: ({ code }) => code, style: () => 'bad' },
]

function purged(output: OutputOf<'dead-letters.purge'>, { terminal }: Rendering): string {
  return `${output.did}\n${output.byCause.length === 0 ? '' : `\n${columns(output.byCause, CAUSES, terminal)}`}`
}

export const deadLetterRenderers = {
  'dead-letters.list': letterList,
  'dead-letters.show': letter,
  'dead-letters.replay': replayedLetter,
  'dead-letters.replay-matching': replayedMatching,
  'dead-letters.purge': purged,
} satisfies Partial<Renderers>
