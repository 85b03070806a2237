import type { ReplayItemView, ReplayView } from '../../operations/replays/replays.ts'
import type { OutputOf } from '../../operations/table.ts'
import { quoted } from '../language/commands.ts'
import { type Column, columns, facts } from '../terminal/columns.ts'
import { age, ago, type Style } from '../terminal/terminal.ts'
import type { Renderers, Rendering } from './rendering.ts'

const STYLES: Readonly<Record<ReplayView['state'], Style>> = {
  planning: 'quiet',
  planned: 'plain',
  canary: 'waiting',
  running: 'waiting',
  paused: 'waiting',
  stopped: 'bad',
  done: 'good',
  aborted: 'quiet',
}

function replayList({ replays, nextCursor }: OutputOf<'replays.list'>, rendering: Rendering): string {
  const { terminal } = rendering
  const shape: Column<ReplayView>[] = [
    { title: 'ID', of: ({ id }) => id },
    { title: 'STATE', of: ({ state }) => state, style: ({ state }) => STYLES[state] },
    { title: 'LETTERS', of: ({ total }) => total, isNumber: true },
    { title: 'DONE', of: ({ submitted }) => submitted, isNumber: true },
    { title: 'SKIPPED', of: ({ skipped }) => skipped, isNumber: true },
    { title: 'LEFT', of: ({ waiting }) => waiting, isNumber: true },
    { title: 'AGE', of: ({ createdAt }) => age(createdAt, terminal), isNumber: true },
    { title: 'BY', of: ({ startedBy, plannedBy }) => (startedBy ?? plannedBy).actor, charsMin: 6 },
    { title: 'WHY', of: ({ startedBy, plannedBy }) => (startedBy ?? plannedBy).reason, charsMin: 10 },
  ]
  if (nextCursor !== null) rendering.hint(`More: add --cursor ${nextCursor}`)
  return columns(replays, shape, terminal)
}

const SKIPPED: readonly Column<OutputOf<'replays.plan'>['skipped'][number]>[] = [
  { title: 'SKIPPED', of: ({ letters }) => letters, isNumber: true },
  { title: 'BECAUSE', of: ({ code }) => code },
  { title: 'SUCH AS', of: ({ example }) => example.offset, isNumber: true },
  { title: '', of: ({ example }) => example.why, charsMin: 20 },
]

function planned(output: OutputOf<'replays.plan'>, rendering: Rendering): string {
  const { hint, command } = rendering
  if (output.replay !== null) hint(`Start it: ${command('replays', 'start', output.replay.id)} --reason ${why()}`)
  return summary(output, rendering)
}

export function replayedMatching(output: OutputOf<'dead-letters.replay-matching'>, rendering: Rendering): string {
  const { hint, command } = rendering
  if (output.replay !== null) hint(`Next: ${command('replays', 'show', output.replay.id)}`)
  return summary(output, rendering)
}

function summary({ did, skipped, unchecked }: OutputOf<'replays.plan'>, { terminal }: Rendering): string {
  const table = skipped.length === 0 ? '' : `\n${columns(skipped, SKIPPED, terminal)}`
  const types = unchecked.map(({ type, letters }) => `${letters} of ${type}`).join(', ')
  const note =
    types === '' ? '' : `\nNot checked here: ${types}. A worker that knows the type checks each one before it runs.\n`
  return `${did}\n${table}${note}`
}

function actedOnReplay(output: OutputOf<'replays.start'>, { hint, command }: Rendering): string {
  hint(`Next: ${command('replays', 'show', output.replay.id)}`)
  return `${output.did}\n`
}

const ITEMS: readonly Column<ReplayItemView>[] = [
  { title: 'NR', of: ({ position }) => position, isNumber: true },
  { title: 'LETTER', of: ({ offset }) => offset, isNumber: true },
  { title: 'STATE', of: ({ state }) => state, style: ({ state }) => (state === 'skipped' ? 'quiet' : 'plain') },
  { title: 'JOB', of: ({ jobId }) => jobId },
  {
    title: 'STATUS',
    of: ({ state, jobStatus }) => (state === 'submitted' ? (jobStatus ?? 'removed') : null),
    style: ({ jobStatus }) => (jobStatus === 'failed' ? 'bad' : jobStatus === 'complete' ? 'good' : 'plain'),
  },
  { title: 'WHY NOT', of: ({ skip }) => skip?.why ?? '', charsMin: 10 },
]

function replay(shown: OutputOf<'replays.show'>, { terminal, command, hint }: Rendering): string {
  const when = (at: string | null) => (at === null ? null : `${at}  (${ago(at, terminal)})`)
  const by = (who: ReplayView['startedBy']) => (who === null ? null : `${who.actor}: ${who.reason}`)
  const list = (parts: readonly (readonly [string, number])[]) =>
    parts.flatMap(([name, count]) => (count === 0 ? [] : [`${count} ${name}`])).join(', ')
  const { selection, canary, canaryFailuresMax, perSecond, patch } = shown
  const chosen = Object.entries(selection).map(
    ([name, value]) => `${name} ${typeof value === 'boolean' ? (value ? 'yes' : 'no') : value}`,
  )
  const lines: [string, string | number | null][] = [
    ['id', shown.id],
    ['because', shown.why],
    ['letters', chosen.join(', ') || 'all'],
    ['planned by', by(shown.plannedBy)],
    ['started by', by(shown.startedBy)],
    ['rate', perSecond === null ? null : `${Number(perSecond.toFixed(3))} a second`],
    ['canary', canary === 0 ? null : `${canary} first; ${canaryFailuresMax} of them may fail`],
    ['patch', patch === null ? null : JSON.stringify(patch)],
    ['progress', `${shown.submitted + shown.skipped} of ${shown.total}: ${progress(shown)}`],
    ['jobs now', list(Object.entries(shown.jobs))],
    ['skipped', list(shown.skippedBy.map(({ code, letters }) => [code, letters] as const))],
    ['created', when(shown.createdAt)],
    ['started', when(shown.startedAt)],
    ['ended', when(shown.endedAt)],
  ]
  const isWaiting = shown.state === 'running' && shown.waitingTypes.length > 0
  const types = shown.waitingTypes.map(({ type }) => type).join(', ')
  if (isWaiting) hint(`The remaining letters need a worker that knows ${types}.`)
  const next = NEXT[shown.state]
  if (next !== undefined) hint(`${next[0]}: ${command('replays', next[1], shown.id)} --reason ${why()}`)
  if (shown.nextAfter !== null) hint(`More letters: add --after ${shown.nextAfter}`)
  const state = `${terminal.paint('quiet', 'state'.padEnd(10))}  ${terminal.paint(STYLES[shown.state], shown.state)}\n`
  const items = shown.items.length === 0 ? '' : `\n${columns(shown.items, ITEMS, terminal)}`
  return `${state}${facts(lines, terminal)}${items}`
}

const progress = ({ submitted, skipped, waiting, state }: ReplayView): string =>
  `${submitted} replayed, ${skipped} skipped, ${waiting} ${state === 'aborted' ? 'left' : 'to come'}`

const NEXT: Readonly<Partial<Record<ReplayView['state'], [string, string]>>> = {
  planned: ['Start it', 'start'],
  canary: ['Pause it', 'pause'],
  running: ['Pause it', 'pause'],
  paused: ['Resume it', 'resume'],
  stopped: ['Resume it anyway', 'resume'],
}

const why = (): string => quoted('say why')

export const replayRenderers = {
  'replays.plan': planned,
  'replays.start': actedOnReplay,
  'replays.pause': actedOnReplay,
  'replays.resume': actedOnReplay,
  'replays.abort': actedOnReplay,
  'replays.list': replayList,
  'replays.show': replay,
} satisfies Partial<Renderers>
