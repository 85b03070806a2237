import { renderExplanation } from '../../core/explain/text.ts'
import { stageInWords } from '../../core/failure/stage.ts'
import type { Action } from '../../core/job/actions.ts'
import { holdText } from '../../core/job/hold.ts'
import { formatMs } from '../../core/text/duration.ts'
import { oneLine, printable } from '../../core/text/printable.ts'
import type { EventView, FailureView, JobView } from '../../core/views/job.ts'
import type { LogLineView } from '../../operations/jobs/logs.ts'
import type { OutputOf } from '../../operations/table.ts'
import { quoted } from '../language/commands.ts'
import { type Column, columns, facts } from '../terminal/columns.ts'
import { age, ago, type Style, type Terminal } from '../terminal/terminal.ts'
import type { Renderers, Rendering } from './rendering.ts'

function styleOf({ status, orphanedAt, errorCode }: JobView): Style {
  if (orphanedAt !== null || status === 'failed') return 'bad'
  if (status === 'complete') return 'good'
  return status === 'queued' && errorCode !== null ? 'waiting' : 'plain'
}

function jobCount({ count, isMore }: OutputOf<'jobs.count'>): string {
  return `${count.toLocaleString('en-US')}${isMore ? '+' : ''}\n`
}

function jobList({ jobs, nextCursor }: OutputOf<'orphans.list'>, rendering: Rendering): string {
  const { terminal } = rendering
  const shape: Column<JobView>[] = [
    { title: 'ID', of: (job) => job.id },
    { title: 'STATUS', of: (job) => (job.orphanedAt === null ? job.status : 'orphaned'), style: styleOf },
    { title: 'TRY', of: (job) => `${triesOf(job)}/${job.maxAttempts}` },
    { title: 'TYPE', of: (job) => job.type, charsMin: 8 },
    { title: 'AGE', of: (job) => age(job.createdAt, terminal), isNumber: true },
    { title: 'ERROR', of: (job) => errorOf(job), charsMin: 8, style: styleOf },
  ]
  // A hint for a person is no part of the data.
  if (nextCursor !== null) rendering.hint(`More: add --cursor ${nextCursor}`)
  return jobs.length === 0 ? 'No jobs on this page.\n' : columns(jobs, shape, terminal)
}

function errorOf({ errorCode, retryAfter, held: [hold] }: JobView): string {
  if (hold !== undefined) return holdText(hold)
  if (errorCode === null) return retryAfter === null ? '' : `not before ${retryAfter}`
  return errorCode
}

function job(shown: OutputOf<'jobs.show'>, { terminal, command }: Rendering): string {
  const when = (at: string | null) => (at === null ? null : `${at}  (${ago(at, terminal)})`)
  const status = terminal.paint(styleOf(shown), shown.orphanedAt === null ? shown.status : 'processing, orphaned')
  const lines: [string, string | number | null][] = [
    ['id', shown.id],
    ['type', shown.type],
    ['queue', shown.queue],
    ['owner', shown.owner],
    ['batch', shown.batchId],
    ['priority', shown.priority === 0 ? null : shown.priority],
    ['tries', `${triesOf(shown)} of ${shown.maxAttempts}`],
    ['manual retries', shown.manualRetryCount === 0 ? null : shown.manualRetryCount],
    ['retried from', shown.retriedFrom],
    ['retried as', shown.retriedAs],
    ['created', when(shown.createdAt)],
    ['last attempt', when(shown.lastAttemptAt)],
    ['not before', when(shown.retryAfter)],
    ...shown.held.map((hold): [string, string] => ['waits', holdText(hold)]),
    ['started', when(shown.startedAt)],
    ['finished', when(shown.finishedAt)],
    ['progress', progressText(shown)],
    ['worker', shown.worker],
    ['lease until', when(shown.leaseUntil)],
    ['orphaned', when(shown.orphanedAt)],
    ['cancel requested', when(shown.cancelRequestedAt)],
    ['dead letter', shown.deadLettered ? 'yes' : null],
    ['error', shown.errorCode === null ? null : `${shown.errorCode}: ${shown.errorMessage}`],
    ['input', JSON.stringify(shown.input)],
    ['result', shown.result === null ? null : JSON.stringify(shown.result)],
    [
      'actions',
      shown.actions
        .filter(({ allowed }) => allowed)
        .map(({ name }) => name)
        .join(', ') || 'nothing',
    ],
  ]
  return `${terminal.paint('quiet', 'status'.padEnd(16))}  ${status}\n${facts(lines, terminal)}${lastLines(shown, terminal, command('jobs', 'logs', shown.id))}\nWhy: ${command('explain', shown.id)}\n`
}

function progressText({ status, progress, progressDone, progressTotal, progressNote }: JobView): string | null {
  if (status !== 'processing') return null
  const done = progressDone === null ? '' : ` (${progressDone} of ${progressTotal})`
  return `${Math.round(progress * 100)} %${done}${progressNote === null ? '' : `, ${progressNote}`}`
}

function lastLines({ logs }: OutputOf<'jobs.show'>, terminal: Terminal, more: string): string {
  const { lines, count, dropped } = logs
  if (count + dropped === 0) return ''
  const left = count > lines.length ? `the last ${lines.length} of ${count} lines: ${more}` : `${count} lines`
  const title = terminal.paint('quiet', `log (${left}${droppedText(dropped)})`)
  return `\n${title}\n${lines.map((line) => logLine(line, terminal)).join('')}`
}

const droppedText = (dropped: number): string => (dropped === 0 ? '' : `; ${dropped} more were dropped`)

/** The further lines of a message are indented, and its fields follow it. */
export function logLine({ at, attempt, message, fields }: LogLineView, terminal: Terminal): string {
  const facts = Object.entries(fields ?? {}).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  const said = printable(message).trimEnd().replaceAll('\n', '\n    ')
  const rest = facts.length === 0 ? '' : `  ${terminal.paint('quiet', oneLine(facts.join(' ')))}`
  return `${terminal.paint('quiet', `${at}  attempt ${attempt}`)}  ${said}${rest}\n`
}

function jobLogs({ lines, attempts, nextCursor }: OutputOf<'jobs.logs'>, { terminal, hint }: Rendering): string {
  if (nextCursor !== null) hint(`More: add --cursor ${nextCursor}`)
  for (const { attempt, dropped } of attempts) {
    if (dropped > 0) hint(`Attempt ${attempt} logged too much: ${dropped} more lines were dropped.`)
  }
  return lines.map((line) => logLine(line, terminal)).join('')
}

/** What an action needs beside the id of the job, as an example. */
const WANTS: Readonly<Partial<Record<Action['name'], readonly string[]>>> = {
  reschedule: ['--delay', '10m'],
  reprioritise: ['10'],
  'replace-input': ['@input.json'],
}

function explanation(shown: OutputOf<'jobs.explain'>, { terminal, command }: Rendering): string {
  const commandFor = ({ name }: Action) =>
    `${command('jobs', name, shown.id, ...(WANTS[name] ?? []))} --reason ${quoted('say why')}`
  return renderExplanation(shown, {
    ...(terminal.columns !== null && { columns: Math.min(120, terminal.columns) }),
    paint: terminal.paint,
    commandFor,
  })
}

function events(shown: OutputOf<'jobs.events'>, { terminal }: Rendering): string {
  const shape: Column<EventView>[] = [
    { title: 'AT', of: (event) => event.at },
    { title: 'KIND', of: (event) => event.kind },
    { title: 'ATTEMPT', of: (event) => event.attempt, isNumber: true },
    { title: 'WORKER', of: (event) => event.worker, charsMin: 10 },
    { title: 'RAN', of: (event) => (event.durationMs === null ? null : formatMs(event.durationMs)), isNumber: true },
    { title: 'MORE', of: (event) => moreOf(event), charsMin: 20 },
  ]
  return columns(shown.events, shape, terminal)
}

function moreOf({ data }: EventView): string {
  const { spent: _, stages = [], ...rest } = data
  const facts = Object.entries(rest).map(([name, value]) => `${name} ${value}`)
  return [...facts, ...stages.map((stage) => `stage ${stageInWords(stage)}`)].join(', ')
}

function failures(shown: OutputOf<'jobs.failures'>, { terminal }: Rendering): string {
  return shown.failures.map((failure) => failureBlock(failure, terminal)).join('\n')
}

export function failureBlock(failure: FailureView, terminal: Rendering['terminal']): string {
  const { decision } = failure
  const title = terminal.paint('bad', `${failure.code}  ${oneLine(failure.message)}`)
  const lines = facts(
    [
      ['at', failure.at],
      ['attempt', failure.attempt],
      ['worker', failure.worker],
      ['phase', `${failure.phase} (layer: ${failure.layer})`],
      ['fault', failure.fault],
      ['rule', failure.rule],
      ['state', `${failure.from ?? 'submission'} -> ${failure.to}`],
      ['decided', decision.because],
      [
        'by',
        `${decision.rule}; ${decision.budget.name} ${decision.budget.before} -> ${decision.budget.after} of ${decision.budget.max}`,
      ],
      ['group', failure.fingerprint],
      ['context', Object.keys(failure.context).length === 0 ? null : JSON.stringify(failure.context)],
      ['caused by', failure.causes.map(({ name, message }) => `${name}: ${message}`).join(' <- ')],
    ],
    terminal,
  )
  const detail = printable(failure.detail)
    .split('\n')
    .map((line) => `    ${line}\n`)
    .join('')
  // Owners do not see the thrown error.
  return failure.detail === ''
    ? `${title}\n${lines}`
    : `${title}\n${lines}${terminal.paint('quiet', 'detail')}\n${detail}`
}

/** Attempts that were given back count for nothing: '3/3', never '4/3'. */
function triesOf({ attemptCount, maxAttempts }: { attemptCount: number; maxAttempts: number }): number {
  return Math.min(attemptCount, maxAttempts)
}

function did(output: OutputOf<'jobs.retry'>, { hint, command }: Rendering): string {
  if (output.isDone) hint(`Next: ${command('explain', output.job.id)}`)
  return `${output.did}\n`
}

function deleted({ did, filesRemovedBy }: OutputOf<'jobs.delete'>, { hint, command }: Rendering): string {
  if (filesRemovedBy !== null) hint(`Next: ${command('explain', filesRemovedBy)}`)
  return `${did}\n`
}

function submitted(output: OutputOf<'jobs.submit'>, { hint, command }: Rendering): string {
  if (output.job !== null) hint(`Next: ${command('explain', output.job.id)}`)
  return `${output.did}\n`
}

export const jobRenderers = {
  'jobs.list': jobList,
  'jobs.count': jobCount,
  'jobs.show': job,
  'jobs.explain': explanation,
  'jobs.events': events,
  'jobs.failures': failures,
  'jobs.logs': jobLogs,
  'jobs.submit': submitted,
  'jobs.retry': did,
  'jobs.cancel': did,
  'jobs.mark-failed': did,
  'jobs.reschedule': did,
  'jobs.promote': did,
  'jobs.reprioritise': did,
  'jobs.replace-input': did,
  'jobs.delete': deleted,
  'orphans.list': jobList,
} satisfies Partial<Renderers>
