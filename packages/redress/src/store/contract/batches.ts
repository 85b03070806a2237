import type { BatchEvent, BatchRecord, BatchState } from '../../core/batch.ts'
import type { Rollup } from '../../core/policy/flow.ts'
import type { ActorAndReason, BatchKey, NewJob, Submitted } from './store.ts'
/**
 * Jobs with one combined outcome. Every transaction that moves a job also changes the counts. The transaction that ends the
 * last job settles the batch, adds its notices and submits the job of `onSettled`, once per settlement.
 */
export interface BatchStore {
  /** Makes a batch and its jobs, all or nothing. An existing id changes nothing. */
  openBatch(params: { batch: NewBatch; jobs: readonly NewJob[] }): Promise<{ isNew: boolean; jobs: Submitted[] }>
  /** No more jobs can be added: the batch settles when all have ended. `by`: the person who sealed it, and the operation. */
  sealBatch(params: {
    id: string
    by?: ActorAndReason & { act: string }
  }): Promise<'sealed' | 'was-sealed' | 'not-found'>
  batch(params: { id: string }): Promise<BatchRow | null>
  /** The newest first. */
  batches(params: BatchFilter): Promise<BatchRow[]>
  batchEvents(params: { id: string }): Promise<BatchEvent[]>
  /** The sum of a numeric field over the results of its complete jobs. */
  batchSum(params: { id: string; field: string }): Promise<number>
  /** Records at most `limit` expiries. Returns how many. Readers see an expired batch without this. */
  expireBatches(params: { limit: number }): Promise<number>
  nextBatchExpiryMs(): Promise<number | null>
}

export interface NewBatch {
  /** Made by the caller: opening it again after an unknown commit finds it. */
  id: string
  name: string
  owner: string | null
  /** null: as in the policy of the first job's type. */
  rollup: Rollup | null
  isSealed: boolean
  expiresInMs: number | null
  /** JSON text. */
  data: string
  /** A job that each settlement submits; `input` is JSON text of an object, which gets the outcome as `batch`. */
  onSettled: { type: string; input: string } | null
  /** Names of channels. null: as in the policy of the first job's type. */
  notify: readonly string[] | null
}

export interface BatchRow extends BatchRecord {
  key: BatchKey
}

interface BatchFilter {
  state?: BatchState
  owner?: string
  name?: string
  beforeKey?: BatchKey
  limit: number
}
