import { z } from 'zod'
import type { SubjectEvents } from './job/events.ts'
import { BATCH_STATES, type BatchCounts, type BatchStanding, type BatchState, batchCountFields } from './rollup.ts'
import { count } from './views/fields.ts'

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
export const batchNewsSchema = z.strictObject({ ...batchCountFields, state: z.enum(BATCH_STATES), settlement: count })
export type BatchNews = z.infer<typeof batchNewsSchema>

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
