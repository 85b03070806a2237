import type { BatchEventView, BatchFailureCode, BatchItem, BatchView } from '../../operations/batches/batches.ts'
import type { OutputOf } from '../../operations/table.ts'
import { type Column, columns, facts } from '../terminal/columns.ts'
import { age, ago, type Style } from '../terminal/terminal.ts'
import type { Renderers, Rendering } from './rendering.ts'

const STYLES: Readonly<Record<BatchView['state'], Style>> = {
  open: 'plain',
  complete: 'good',
  partial: 'waiting',
  failed: 'bad',
  cancelled: 'quiet',
  expired: 'quiet',
}

const COUNTS = ['total', 'queued', 'processing', 'complete', 'failed', 'cancelled'] as const

function batchList({ batches, nextCursor }: OutputOf<'batches.list'>, rendering: Rendering): string {
  const { terminal } = rendering
  const shape: Column<BatchView>[] = [
    { title: 'ID', of: ({ id }) => id },
    { title: 'STATE', of: ({ state }) => state, style: ({ state }) => STYLES[state] },
    ...COUNTS.map((name) => ({
      title: name.toUpperCase(),
      of: ({ counts }: BatchView) => counts[name],
      isNumber: true,
    })),
    { title: 'AGE', of: ({ createdAt }) => age(createdAt, terminal), isNumber: true },
    { title: 'NAME', of: ({ name }) => name, charsMin: 8 },
  ]
  if (nextCursor !== null) rendering.hint(`More: add --cursor ${nextCursor}`)
  return columns(batches, shape, terminal)
}

function batch(shown: OutputOf<'batches.show'>, { terminal, command, hint }: Rendering): string {
  const when = (at: string | null) => (at === null ? null : `${at}  (${ago(at, terminal)})`)
  const { counts, lastError } = shown
  const lines: [string, string | number | null][] = [
    ['id', shown.id],
    ['name', shown.name],
    ['owner', shown.owner],
    ['roll-up', shown.rollup],
    ['sealed', shown.sealed ? null : 'no: jobs may be added'],
    ['jobs', COUNTS.map((name) => `${counts[name]} ${name}`).join(', ')],
    ['cannot be retried', counts.permanent === 0 ? null : counts.permanent],
    ['last error', lastError === null ? null : `${lastError.code}: ${lastError.message}`],
    ['of job', lastError?.jobId ?? null],
    ['dead letter', lastError?.deadLetterOffset ?? null],
    ['created', when(shown.createdAt)],
    ['settled', when(shown.settledAt)],
    ['settlements', shown.settlements < 2 ? null : shown.settlements],
    ['expires', shown.expiresAt],
    ['on settled', shown.onSettled === null ? null : `submits ${shown.onSettled}`],
    ['notifies', shown.notify.join(', ')],
    ['data', JSON.stringify(shown.data) === '{}' ? null : JSON.stringify(shown.data)],
  ]
  hint(`Its jobs: ${command('jobs', 'list', '--batch', shown.id)}`)
  const state = `${terminal.paint('quiet', 'state'.padEnd(17))}  ${terminal.paint(STYLES[shown.state], shown.state)}\n`
  const { codes, isMore } = shown.failures
  if (isMore) hint('There are more failed jobs than were counted.')
  const failures = codes.length === 0 ? '' : `\n${columns(codes, FAILURES, terminal)}`
  const history = shown.history.length === 0 ? '' : `\n${columns(shown.history, HISTORY, terminal)}`
  return `${state}${facts(lines, terminal)}${failures}${history}`
}

const FAILURES: readonly Column<BatchFailureCode>[] = [
  { title: 'FAILED', of: ({ count }) => count, isNumber: true },
  { title: 'RETRYABLE', of: ({ retryable }) => retryable, isNumber: true },
  { title: 'CODE', of: ({ code }) => code, charsMin: 8 },
  { title: 'FAULT', of: ({ fault }) => fault },
  { title: 'MESSAGE', of: ({ message }) => message, charsMin: 12 },
]

const HISTORY: readonly Column<BatchEventView>[] = [
  { title: 'AT', of: ({ at }) => at },
  { title: 'WAS', of: ({ kind }) => kind.replace('batch-', '') },
  { title: 'STATE', of: ({ data }) => data.state, style: ({ data }) => STYLES[data.state] },
  { title: 'COMPLETE', of: ({ data }) => data.complete, isNumber: true },
  { title: 'FAILED', of: ({ data }) => data.failed, isNumber: true },
  { title: 'CANCELLED', of: ({ data }) => data.cancelled, isNumber: true },
]

const REFUSED: readonly Column<BatchItem>[] = [
  { title: 'JOB', of: ({ id }) => id },
  { title: 'WHY NOT', of: ({ did }) => did, charsMin: 20 },
]

function batchActed(output: OutputOf<'batches.cancel'>, { terminal, command, hint }: Rendering): string {
  const refused = output.items.filter(({ code }) => code !== null)
  hint(`Next: ${command('batches', 'show', output.batch.id)}`)
  return `${output.did}\n${refused.length === 0 ? '' : `\n${columns(refused, REFUSED, terminal)}`}`
}

export const batchRenderers = {
  'batches.list': batchList,
  'batches.show': batch,
  'batches.cancel': batchActed,
  'batches.retry-failed': batchActed,
} satisfies Partial<Renderers>
