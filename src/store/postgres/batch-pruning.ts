import { DAY_MS } from '../../core/duration.ts'
import type { BatchKey, JobKey } from '../store.ts'
import type { Tx } from './client.ts'

/** A batch that never had a job has none whose removal could take it along. */
const EMPTY_KEPT_MS = 30 * DAY_MS

/** A job's place in a batch, as far as removing the job is concerned. */
export interface Place {
  batch: BatchKey
  /** Its batch is not settled yet, and whoever looks into it must find what it counts. */
  isNeeded: boolean
}

/** The counts are kept in the batch and not derived from its jobs: these may go, and the batch goes with the last one. */
export function openBatchPruning() {
  const forget = async (tx: Tx, rows: readonly { id: string }[]): Promise<void> => {
    if (rows.length === 0) return
    await tx`DELETE FROM events WHERE subject = ANY(${rows.map(({ id }) => `batch:${id}`)}::text[])`
  }

  return {
    /** Of those that have one. */
    async placesOf(tx: Tx, jobs: readonly JobKey[]): Promise<Map<JobKey, Place>> {
      const rows = await tx<{ key: JobKey; batch: BatchKey; needed: boolean }[]>`
        SELECT job_specs.key, batch, left_batch IS NULL AND state = 'open' AS needed
        FROM job_specs JOIN batches ON batches.key = job_specs.batch
        WHERE job_specs.key = ANY(${jobs as JobKey[]}::bigint[])`
      return new Map(rows.map(({ key, batch, needed }) => [key, { batch, isNeeded: needed }]))
    },

    async removeIfLast(tx: Tx, keys: readonly BatchKey[]): Promise<void> {
      if (keys.length === 0) return
      const removed = await tx<{ id: string }[]>`
        DELETE FROM batches WHERE key = ANY(${keys as BatchKey[]}::bigint[]) AND state <> 'open'
          AND NOT EXISTS (SELECT 1 FROM job_specs WHERE batch = batches.key)
        RETURNING id`
      await forget(tx, removed)
    },

    async removeEmpty(tx: Tx, nowMs: number, limit: number): Promise<void> {
      const removed = await tx<{ id: string }[]>`
        DELETE FROM batches WHERE key IN (
          SELECT key FROM batches WHERE total = 0 AND state <> 'open' AND settled_at <= ${nowMs - EMPTY_KEPT_MS}
          LIMIT ${limit})
        RETURNING id`
      await forget(tx, removed)
    },
  }
}
