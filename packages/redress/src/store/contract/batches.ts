import type { BatchEvent, BatchRecord, BatchState } from '../../core/batch.ts'
import type { Rollup } from '../../core/policy/flow.ts'
import type { BatchKey, By, NewJob, Submitted } from './store.ts'
/**
 * Jobs with a common outcome. The counts move in the transaction that moves the job, whoever does that; the transaction
 * that ends the last one settles the batch, tells of it and submits the job of `onSettled`: once per settlement.
 */
export interface BatchStore {
  /** Makes a batch and its jobs, all or nothing. An id that is there already changes nothing. */
  openBatch(params: { batch: NewBatch; jobs: readonly NewJob[] }): Promise<{ isNew: boolean; jobs: Submitted[] }>
  /** No more jobs will be added: from now on it settles when all have ended. With `by`, a person did it (by `act`). */
  sealBatch(params: { id: string; by?: By & { act: string } }): Promise<'sealed' | 'was-sealed' | 'not-found'>
  batch(params: { id: string }): Promise<BatchRow | null>
  /** The newest first. */
  batches(params: BatchFilter): Promise<BatchRow[]>
  batchEvents(params: { id: string }): Promise<BatchEvent[]>
  /** The sum of one field, wherever it is a number, over the results of its complete jobs. */
  batchSum(params: { id: string; field: string }): Promise<number>
  /** Writes down what has expired, at most so many; answers how many. Readers see it expired without this. */
  expireBatches(params: { limit: number }): Promise<number>
  nextBatchExpiryMs(): Promise<number | null>
}

export interface NewBatch {
  /** Made by the caller, so that opening it again after an unknown commit finds it. */
  id: string
  name: string
  owner: string | null
  /** null = as the policy of the first job's type says. */
  rollup: Rollup | null
  isSealed: boolean
  expiresInMs: number | null
  /** JSON text. */
  data: string
  /** A job that each settlement submits; `input` is JSON text of an object, which gets the outcome as `batch`. */
  onSettled: { type: string; input: string } | null
  /** Names of channels. null = as the policy of the first job's type says. */
  notify: readonly string[] | null
}

export interface BatchRow extends BatchRecord {
  key: BatchKey
}

export interface BatchFilter {
  state?: BatchState
  owner?: string
  name?: string
  beforeKey?: BatchKey
  limit: number
}
