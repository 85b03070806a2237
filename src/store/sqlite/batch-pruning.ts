import { DAY_MS } from '../../core/duration.ts'
import type { BatchKey, JobKey } from '../store.ts'
import type { Connection } from './connection.ts'

/** A batch that never had a job has none whose removal could take it along. */
const EMPTY_KEPT_MS = 30 * DAY_MS

/** A job's place in a batch, as far as removing the job is concerned. */
interface Place {
  batch: BatchKey
  /** Its batch is not settled yet, and whoever looks into it must find what it counts. */
  isNeeded: boolean
}

/** The counts are kept in the batch and not derived from its jobs: these may go, and the batch goes with the last one. */
export function openBatchPruning(connection: Connection) {
  const place = connection.prepare(`
    SELECT batch, left_batch IS NULL AND state = 'open' AS needed
    FROM job_specs JOIN batches ON batches.key = job_specs.batch WHERE job_specs.key = ?`)
  const removeIfLast = connection.prepare(`
    DELETE FROM batches WHERE key = ?1 AND state <> 'open' AND NOT EXISTS (SELECT 1 FROM job_specs WHERE batch = ?1)
    RETURNING id`)
  const removeEmpty = connection.prepare(`
    DELETE FROM batches WHERE key IN (
      SELECT key FROM batches WHERE total = 0 AND state <> 'open' AND settled_at <= ? LIMIT ?) RETURNING id`)
  // The newest event stays: its number must not be given to another one.
  const removeEvents = connection.prepare(
    'DELETE FROM events WHERE subject = ? AND seq < (SELECT max(seq) FROM events)',
  )
  const forget = (rows: readonly unknown[]) => {
    for (const row of rows) removeEvents.run(`batch:${(row as { id: string }).id}`)
  }

  return {
    placeOf(job: JobKey): Place | undefined {
      const row = place.get(job) as { batch: BatchKey; needed: number } | undefined
      return row === undefined ? undefined : { batch: row.batch, isNeeded: row.needed === 1 }
    },
    removeIfLast: (batch: BatchKey): void => forget(removeIfLast.all(batch)),
    removeEmpty: (nowMs: number, limit: number): void => forget(removeEmpty.all(nowMs - EMPTY_KEPT_MS, limit)),
  }
}
