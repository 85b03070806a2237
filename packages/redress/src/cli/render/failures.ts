import type { FailureGroupView } from '../../operations/failures/failures.ts'
import type { OutputOf } from '../../operations/table.ts'
import { type Column, columns, facts } from '../terminal/columns.ts'
import { age, ago, type Style } from '../terminal/terminal.ts'
import { failureBlock } from './jobs.ts'
import type { Renderers, Rendering } from './rendering.ts'

const STYLES: Readonly<Record<FailureGroupView['state'], Style>> = {
  open: 'waiting',
  regressed: 'bad',
  snoozed: 'quiet',
  resolved: 'good',
}

function failureGroups(shown: OutputOf<'failures.list'>, { terminal, hint }: Rendering): string {
  const shape: Column<FailureGroupView>[] = [
    { title: 'FINGERPRINT', of: (group) => group.fingerprint },
    { title: 'STATE', of: (group) => group.state, style: ({ state }) => STYLES[state] },
    { title: 'COUNT', of: (group) => group.count, isNumber: true },
    { title: 'FINAL', of: (group) => group.finalCount, isNumber: true },
    { title: 'LAST', of: (group) => age(group.lastSeenAt, terminal), isNumber: true },
    { title: 'TYPE', of: (group) => group.type, charsMin: 8 },
    { title: 'CODE', of: (group) => group.code, charsMin: 8 },
    { title: 'FAULT', of: (group) => group.fault },
    { title: 'MESSAGE', of: (group) => group.message, charsMin: 12 },
  ]
  if (shown.nextCursor !== null) hint(`More: add --cursor ${shown.nextCursor}`)
  if (shown.notGrouped.length > 0) hint(`Not grouped, because of their policy: ${shown.notGrouped.join(', ')}`)
  if (shown.groups.length > 0) return columns(shown.groups, shape, terminal)
  hint('No failures.')
  return ''
}

function failureGroup(group: OutputOf<'failures.show'>, { terminal, command }: Rendering): string {
  const when = (at: string) => `${at}  (${ago(at, terminal)})`
  const by = group.stateBy === null ? '' : ` by ${group.stateBy}: ${group.stateReason}`
  const lines = facts(
    [
      ['group', group.fingerprint],
      ['type', group.type],
      ['queue', group.queue],
      ['code', `${group.code} (fault: ${group.fault})`],
      ['message', group.message],
      ['failures', `${group.count}, of which ${group.finalCount} ended their job`],
      ['first seen', when(group.firstSeenAt)],
      ['last seen', when(group.lastSeenAt)],
      ['state', `${group.state} since ${when(group.stateSince)}${by}`],
      ['snoozed until', endOf(group)],
      ['last day', `${group.hours.map(({ count }) => count).join(' ')}  (per hour, the current one last)`],
    ],
    terminal,
  )
  const parts = [
    lines,
    section('Most frequent values', topValues(group, terminal), terminal),
    section('Newest jobs', jobsOf(group, terminal), terminal),
    section('Batches', batchesOf(group, terminal), terminal),
    section('History', historyOf(group, terminal), terminal),
    group.sample === null
      ? ''
      : `${terminal.paint('strong', 'Newest failure')}\n${failureBlock(group.sample, terminal)}`,
  ]
  const [newest] = group.jobs
  const hint = newest === undefined ? '' : `Why: ${command('explain', newest.id)}\n`
  return `${parts.filter((part) => part !== '').join('\n')}${hint}`
}

function endOf({ snoozedUntil, snoozedForMore }: FailureGroupView): string | null {
  const more = snoozedForMore === null ? null : `${snoozedForMore} more failures`
  return [snoozedUntil, more].filter((end) => end !== null).join(', or until ') || null
}

const section = (title: string, body: string, terminal: Rendering['terminal']): string =>
  body === '' ? '' : `${terminal.paint('strong', title)}\n${body}`

type Shown = OutputOf<'failures.show'>

const TOP_SHOWN = 3

function topValues({ fields }: Shown, terminal: Rendering['terminal']): string {
  const rows = fields.map(({ field, values }) => {
    const top = values
      .slice(0, TOP_SHOWN)
      .map(({ value, count, over }) => `${value} (${over > 0 ? 'at most ' : ''}${count})`)
    return [field, top.join(', ')] as const
  })
  return rows.length === 0 ? '' : facts(rows, terminal)
}

function jobsOf({ jobs }: Shown, terminal: Rendering['terminal']): string {
  if (jobs.length === 0) return ''
  return columns(
    jobs,
    [
      { title: 'ID', of: (job) => job.id },
      { title: 'STATUS', of: (job) => job.status },
      { title: 'ATTEMPT', of: (job) => job.attempt, isNumber: true },
      { title: 'AT', of: (job) => job.at },
    ],
    terminal,
  )
}

function batchesOf({ batches }: Shown, terminal: Rendering['terminal']): string {
  if (batches.length === 0) return ''
  return columns(
    batches,
    [
      { title: 'ID', of: (batch) => batch.id },
      { title: 'STATE', of: (batch) => batch.state },
      { title: 'JOBS', of: (batch) => batch.count, isNumber: true },
      { title: 'NAME', of: (batch) => batch.name, charsMin: 8 },
    ],
    terminal,
  )
}

function historyOf({ history }: Shown, terminal: Rendering['terminal']): string {
  if (history.length === 0) return ''
  return columns(
    history,
    [
      { title: 'AT', of: (event) => event.at },
      { title: 'WHAT', of: (event) => event.kind },
      { title: 'WHO', of: (event) => event.actor, charsMin: 8 },
      { title: 'WHY', of: (event) => event.reason, charsMin: 12 },
    ],
    terminal,
  )
}

function actedOnGroup(output: OutputOf<'failures.resolve'>): string {
  return `${output.did}\n`
}

export const failureRenderers = {
  'failures.list': failureGroups,
  'failures.show': failureGroup,
  'failures.resolve': actedOnGroup,
  'failures.snooze': actedOnGroup,
  'failures.reopen': actedOnGroup,
} satisfies Partial<Renderers>
