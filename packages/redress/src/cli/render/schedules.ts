import type { ScheduleView } from '../../operations/schedules/schedules.ts'
import type { OutputOf } from '../../operations/table.ts'
import { type Column, columns, facts } from '../terminal/columns.ts'
import { ago, type Style } from '../terminal/terminal.ts'
import type { Renderers, Rendering } from './rendering.ts'

const STYLES: Readonly<Record<ScheduleView['state'], Style>> = {
  active: 'good',
  paused: 'strong',
  undeclared: 'bad',
  ended: 'quiet',
}

const when = ({ cron, every }: ScheduleView): string => cron ?? `every ${every}`

const inWords = ({ state, problem }: ScheduleView): string =>
  state === 'undeclared' ? 'no longer declared' : problem === null ? state : 'stuck'

function scheduleList(
  { schedules, nextCursor }: OutputOf<'schedules.list'>,
  { terminal, hint, command }: Rendering,
): string {
  const shape: Column<ScheduleView>[] = [
    { title: 'SCHEDULE', of: ({ name }) => name },
    { title: 'STATE', of: inWords, style: (one) => (one.problem === null ? STYLES[one.state] : 'bad') },
    { title: 'WHEN', of: when },
    { title: 'ZONE', of: ({ cron, timezone }) => cron && timezone, charsMin: 6 },
    { title: 'JOB', of: ({ type }) => type, charsMin: 8 },
    { title: 'NEXT', of: ({ nextAt }) => nextAt },
    { title: 'LAST', of: ({ lastAt }) => lastAt && ago(lastAt, terminal) },
    { title: 'LAST JOB', of: ({ lastJob }) => lastJob && (lastJob.status ?? 'removed') },
    { title: 'RUNS', of: ({ runs }) => runs, isNumber: true },
    { title: 'SKIPPED', of: ({ skipped }) => skipped, isNumber: true },
  ]
  const stuck = schedules.find(({ problem }) => problem !== null)
  if (stuck !== undefined) hint(`See why: ${command('schedules', 'show', stuck.name)}`)
  if (nextCursor !== null) hint(`More: add --cursor ${nextCursor}`)
  return columns(schedules, shape, terminal)
}

function schedule(shown: OutputOf<'schedules.show'>, { terminal }: Rendering): string {
  const since = (at: string | null): string | null => (at === null ? null : `${at}  (${ago(at, terminal)})`)
  const { paused, problem, lastJob, count, jitter } = shown
  const undeclared = `no working program declares it; last seen ${ago(shown.seenAt, terminal)}`
  return facts(
    [
      ['schedule', shown.name],
      ['state', shown.state === 'undeclared' ? `no longer declared: ${undeclared}` : inWords(shown)],
      ['paused', paused && `${since(paused.at)} by ${paused.actor}: ${paused.reason}`],
      ['problem', problem && `${problem.message}  (since ${problem.at})`],
      ['tried again', problem?.retryAt ?? null],
      ['kind', shown.origin === 'code' ? 'declared in code' : 'stored at runtime'],
      ['when', shown.cron === null ? when(shown) : `${shown.cron}  (${shown.timezone})`],
      ['from', shown.from],
      ['until', shown.until],
      ['jitter', jitter && `up to ${jitter} after each tick`],
      ['count', count === null ? null : `${shown.counted} of ${count} runs made`],
      ['job', shown.type],
      ['input', shown.input === null ? 'made by the program for each run' : JSON.stringify(shown.input)],
      ['missed ticks', MISSED[shown.missed]],
      ['owner', shown.owner],
      ['priority', shown.priority === 0 ? null : shown.priority],
      ['next', shown.nextAt],
      ['last', since(shown.lastAt)],
      ['last job', lastJob && `${lastJob.id}  (${lastJob.status ?? 'removed after its retention'})`],
      ['runs', String(shown.runs)],
      ['skipped', String(shown.skipped)],
      [shown.origin === 'code' ? 'declared' : 'stored', since(shown.declaredAt)],
    ],
    terminal,
  )
}

const MISSED: Readonly<Record<ScheduleView['missed'], string>> = {
  skip: 'skip: they do not run',
  once: 'once: one run for all of them',
  all: 'all: each runs, at most 100 at a time',
}

function scheduleActed(output: OutputOf<'schedules.pause'>, { hint, command }: Rendering): string {
  if (output.jobId !== null) hint(`Next: ${command('explain', output.jobId)}`)
  return `${output.did}\n`
}

export const scheduleRenderers = {
  'schedules.list': scheduleList,
  'schedules.show': schedule,
  'schedules.upsert': scheduleActed,
  'schedules.pause': scheduleActed,
  'schedules.resume': scheduleActed,
  'schedules.trigger': scheduleActed,
  'schedules.remove': scheduleActed,
} satisfies Partial<Renderers>
