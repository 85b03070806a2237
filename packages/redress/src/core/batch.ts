import { z } from 'zod'
import type { SubjectEvents } from './job/events.ts'
import type { Status } from './job/states.ts'
import type { Rollup } from './policy/flow.ts'
import { count } from './views/fields.ts'

/** The outcomes of a batch. */
export const OUTCOMES = ['complete', 'partial', 'failed', 'cancelled'] as const
export type Outcome = (typeof OUTCOMES)[number]

export const BATCH_STATES = ['open', ...OUTCOMES, 'expired'] as const
export type BatchState = (typeof BATCH_STATES)[number]

/** Always total = unfinished + complete + failed + cancelled. */
export const batchCountFields = {
  total: count,
  // Queued or processing.
  unfinished: count,
  complete: count,
  failed: count,
  permanent: count.describe('of the failed: no further attempt would have helped'),
  cancelled: count,
}
export type BatchCounts = z.infer<z.ZodObject<typeof batchCountFields>>

/** The facts that decide the state of a batch. */
export interface BatchStanding extends BatchCounts {
  state: BatchState
  /** No more jobs will be added. */
  isSealed: boolean
  rollup: Rollup
  expiresAtMs: number | null
}

export const NO_COUNTS: Readonly<BatchCounts> = {
  total: 0,
  unfinished: 0,
  complete: 0,
  failed: 0,
  permanent: 0,
  cancelled: 0,
}

/**
 * What a move of one job adds to the counts. A job that enters comes from nowhere (null). `isPermanent` is that of the
 * failure on whichever side is failed.
 */
export function countsOfMove(from: Status | null, to: Status, isPermanent: boolean): BatchCounts {
  const counts = { ...NO_COUNTS }
  const count = (status: Status, by: 1 | -1) => {
    counts[status === 'queued' || status === 'processing' ? 'unfinished' : status] += by
    if (status === 'failed' && isPermanent) counts.permanent += by
  }
  if (from === null) counts.total = 1
  else count(from, -1)
  count(to, 1)
  return counts
}

/** The outcome of a batch whose jobs have all ended. */
export function rollUp({ total, complete, failed, permanent }: BatchCounts, rollup: Rollup): Outcome {
  if (complete === total) return 'complete'
  if (complete === 0) return failed > 0 ? 'failed' : 'cancelled'
  switch (rollup) {
    case 'partial':
      return 'partial'
    case 'all-or-nothing':
      return 'failed'
    case 'any-permanent':
      return permanent > 0 ? 'failed' : 'partial'
  }
}

export const isPastExpiry = ({ expiresAtMs }: Pick<BatchStanding, 'expiresAtMs'>, nowMs: number): boolean =>
  expiresAtMs !== null && expiresAtMs <= nowMs

/** Takes more jobs. Its expiry seals a batch, whether or not that was recorded yet. */
export const isTaking = (batch: BatchStanding, nowMs: number): boolean =>
  batch.state === 'open' && !batch.isSealed && !isPastExpiry(batch, nowMs)

/**
 * The states a batch enters now, in order; none when it stays as it is. One that is still open at its expiry settles
 * first, when its last job ends, and then expires (W26).
 */
export function statesEntered(batch: BatchStanding, nowMs: number): readonly (Outcome | 'expired')[] {
  const { state, isSealed, unfinished, rollup } = batch
  const isPast = isPastExpiry(batch, nowMs)
  if (state === 'expired') return []
  if (state !== 'open') return isPast ? ['expired'] : []
  if (unfinished > 0 || !(isSealed || isPast)) return []
  const outcome = rollUp(batch, rollup)
  return isPast ? [outcome, 'expired'] : [outcome]
}

/** For readers between the expiry and its record in the store. */
export function stateAt(batch: BatchStanding, nowMs: number): BatchState {
  return statesEntered(batch, nowMs).at(-1) ?? batch.state
}

/** A settled batch one of whose jobs goes back to the queue. What has expired stays so (W26). */
export const isReopenedByRetry = ({ state }: Pick<BatchStanding, 'state'>): boolean =>
  state !== 'open' && state !== 'expired'

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

/** The event data when a batch is settled, reopened or expired. */
export const batchNewsSchema = z.strictObject({ ...batchCountFields, state: z.enum(BATCH_STATES), settlement: count })
export type BatchNews = z.infer<typeof batchNewsSchema>

export interface BatchEvent {
  seq: number
  atMs: number
  kind: BatchEventKind
  data: BatchNews
}

/** The value of `batch` in the input of the `onSettled` job. */
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

type AnnouncedBatch = Pick<BatchRecord, 'id' | 'name' | 'owner' | 'data' | 'settlements' | 'state' | keyof BatchCounts>

export function outcomeOf(batch: AnnouncedBatch): BatchOutcome {
  const { id, name, owner, data } = batch
  return { id, name, owner, ...newsOf(batch), data: JSON.parse(data) as unknown }
}

/** The input of the job of `onSettled`: what its author gave, with the outcome under `batch`. */
export const settledPayload = (input: string, outcome: BatchOutcome): string =>
  JSON.stringify({ ...(JSON.parse(input) as object), batch: outcome })
