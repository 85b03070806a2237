import type { SubjectEvents } from './events.ts'
import { isoTime, isoTimeOrNull } from './iso-time.ts'
import type { Rollup } from './policy-flow.ts'
import type { BatchCounts, BatchStanding, BatchState } from './rollup.ts'

/** A batch as a store hands it out. */
export interface BatchRecord extends BatchStanding {
  id: string
  name: string
  owner: string | null
  /** Of the unfinished, at this moment; the rest is queued. */
  processing: number
  /** JSON text. */
  data: string
  onSettled: { type: string; input: string } | null
  notify: readonly string[]
  createdAtMs: number
  settledAtMs: number | null
  /** How often it was settled: more than once when a retry reopened it. */
  settlements: number
  /** The newest failure that ended one of its jobs, while that job is failed. */
  lastFailure: BatchFailure | null
}

export interface BatchFailure {
  jobId: string
  type: string
  code: string
  message: string
  attempt: number
  atMs: number
  /** Where its dead letter is, if it has one. */
  deadLetterOffset: number | null
}

export type BatchEventKind = SubjectEvents['batch'][number]

/** What is told when a batch is settled, reopened or expired. */
export interface BatchNews extends BatchCounts {
  state: BatchState
  settlement: number
}

export interface BatchEvent {
  seq: number
  atMs: number
  kind: BatchEventKind
  data: BatchNews
}

/** What the job of `onSettled` finds under `batch` in its input. */
export interface BatchOutcome extends BatchNews {
  id: string
  name: string
  owner: string | null
  data: unknown
}

export const newsOf = (batch: BatchCounts & { state: BatchState; settlements: number }): BatchNews => ({
  state: batch.state,
  settlement: batch.settlements,
  total: batch.total,
  unfinished: batch.unfinished,
  complete: batch.complete,
  failed: batch.failed,
  permanent: batch.permanent,
  cancelled: batch.cancelled,
})

type Told = Pick<BatchRecord, 'id' | 'name' | 'owner' | 'data' | 'settlements' | 'state' | keyof BatchCounts>

export function outcomeOf(batch: Told): BatchOutcome {
  const { id, name, owner, data } = batch
  return { id, name, owner, ...newsOf(batch), data: JSON.parse(data) as unknown }
}

/** The input of the job of `onSettled`: what its author gave, with the outcome under `batch`. */
export const settledPayload = (input: string, outcome: BatchOutcome): string =>
  JSON.stringify({ ...(JSON.parse(input) as object), batch: outcome })

/** A batch as every door shows it. Times are ISO 8601 in UTC. */
export interface BatchView {
  id: string
  name: string
  owner: string | null
  state: BatchState
  rollup: Rollup
  /** No more jobs will be added. */
  sealed: boolean
  counts: BatchCounts & { queued: number; processing: number }
  lastError: (Omit<BatchFailure, 'atMs'> & { at: string }) | null
  data: unknown
  onSettled: string | null
  notify: readonly string[]
  createdAt: string
  settledAt: string | null
  settlements: number
  expiresAt: string | null
}

export function viewBatch(batch: BatchRecord): BatchView {
  const { total, unfinished, complete, failed, permanent, cancelled, processing, lastFailure } = batch
  return {
    id: batch.id,
    name: batch.name,
    owner: batch.owner,
    state: batch.state,
    rollup: batch.rollup,
    sealed: batch.isSealed,
    counts: {
      total,
      unfinished,
      queued: unfinished - processing,
      processing,
      complete,
      failed,
      permanent,
      cancelled,
    },
    lastError: lastFailure === null ? null : viewLastError(lastFailure),
    data: JSON.parse(batch.data) as unknown,
    onSettled: batch.onSettled?.type ?? null,
    notify: batch.notify,
    createdAt: isoTime(batch.createdAtMs),
    settledAt: isoTimeOrNull(batch.settledAtMs),
    settlements: batch.settlements,
    expiresAt: isoTimeOrNull(batch.expiresAtMs),
  }
}

function viewLastError({ atMs, ...rest }: BatchFailure): BatchView['lastError'] {
  return { ...rest, at: isoTime(atMs) }
}

export type BatchEventView = Omit<BatchEvent, 'atMs'> & { at: string }

export const viewBatchEvent = ({ atMs, ...rest }: BatchEvent): BatchEventView => ({ ...rest, at: isoTime(atMs) })
