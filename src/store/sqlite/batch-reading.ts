import type { BatchEvent, BatchFailure } from '../../core/view-batch.ts'
import { batchRowOf, type StoredBatch } from '../batch-rows.ts'
import type { BatchFilter, BatchRow } from '../batches.ts'
import type { Connection } from './connection.ts'
import type { Types } from './types.ts'

interface ReadBatch extends StoredBatch {
  processing: number
}

interface FailureRow {
  id: string
  type: number
  code: string
  message: string
  attempt: number
  at: number
  dead_letter: number | null
}

/** In a larger batch, running jobs are found among all running jobs of the store. */
const FEW_JOBS = 1_000
const JOBS_PER_STEP = 5_000

/** The counter and the jobs are read in one statement: apart, a claim between them would make the split wrong. */
const COLUMNS = `batches.*, CASE WHEN unfinished = 0 THEN 0
  WHEN total <= ${FEW_JOBS} THEN (
    SELECT count(*) FROM job_specs CROSS JOIN jobs USING (key)
    WHERE job_specs.batch = batches.key AND left_batch IS NULL AND status = 'processing')
  ELSE (${underWay('lease_until IS NOT NULL AND orphaned_at IS NULL')})
    + (${underWay('orphaned_at IS NOT NULL AND lease_until IS NOT NULL')}) END AS processing`

/** Phrased to match an index of running jobs only, however many jobs the batch has. */
function underWay(indexed: string): string {
  return `SELECT count(*) FROM jobs CROSS JOIN job_specs USING (key)
    WHERE ${indexed} AND job_specs.batch = batches.key AND left_batch IS NULL AND status = 'processing'`
}

/** Says in SQL what `stateAt` says, so that a page of a list can be filled. Takes the time. */
const HAS_EXPIRED = `(state = 'expired' OR expires_at IS NOT NULL AND expires_at <= ? AND unfinished = 0)`

export function openBatchReading(connection: Connection, types: Types) {
  const one = connection.prepare(`SELECT ${COLUMNS} FROM batches WHERE id = ?`)
  const lastFailure = connection.prepare(`
    SELECT job_specs.id, job_specs.type, failures.code, message, failures.attempt, at, dead_letter
    FROM job_specs CROSS JOIN jobs USING (key) JOIN failures ON failures.seq = jobs.failure
    WHERE job_specs.batch = ? AND left_batch IS NULL AND jobs.failure IS NOT NULL ORDER BY failures.seq DESC LIMIT 1`)
  const events = connection.prepare('SELECT seq, at, kind, data FROM events WHERE subject = ? ORDER BY seq')

  const lastFailureOf = (row: ReadBatch): BatchFailure | null => {
    if (row.failed === 0) return null
    const found = lastFailure.get(row.key) as FailureRow | undefined
    if (found === undefined) return null
    const { id, type, code, message, attempt, at, dead_letter } = found
    // 0 is a mere flag on the job, without a letter of its own.
    return {
      jobId: id,
      type: types.byKey(type).name,
      code,
      message,
      attempt,
      atMs: at,
      deadLetterOffset: dead_letter || null,
    }
  }

  const toRow = (row: ReadBatch, nowMs: number): BatchRow => batchRowOf(row, lastFailureOf(row), nowMs)

  return {
    batch(id: string, nowMs: number): BatchRow | null {
      const row = one.get(id) as ReadBatch | undefined
      return row === undefined ? null : toRow(row, nowMs)
    },

    batches({ state, owner, name, beforeKey, limit }: BatchFilter, nowMs: number): BatchRow[] {
      const where: string[] = []
      const values: (string | number)[] = []
      const and = (sql: string, ...bound: (string | number)[]) => {
        where.push(sql)
        values.push(...bound)
      }
      if (state === 'expired') and(HAS_EXPIRED, nowMs)
      else if (state !== undefined) and(`state = ? AND NOT ${HAS_EXPIRED}`, state, nowMs)
      if (owner !== undefined) and('owner = ?', owner)
      if (name !== undefined) and('name = ?', name)
      if (beforeKey !== undefined) and('key < ?', beforeKey)
      const sql = `SELECT ${COLUMNS} FROM batches ${where.length === 0 ? '' : `WHERE ${where.join(' AND ')}`}
        ORDER BY key DESC LIMIT ?`
      return (connection.prepare(sql).all(...values, limit) as unknown as ReadBatch[]).map((row) => toRow(row, nowMs))
    },

    events: (id: string): BatchEvent[] =>
      (events.all(`batch:${id}`) as { seq: number; at: number; kind: string; data: string }[]).map((row) => ({
        seq: row.seq,
        atMs: row.at,
        kind: row.kind as BatchEvent['kind'],
        data: JSON.parse(row.data),
      })),

    *sum(on: Connection, id: string, field: string): Generator<undefined, number> {
      const batch = on.prepare('SELECT key FROM batches WHERE id = ?').get(id) as { key: number } | undefined
      if (batch === undefined) return 0
      const stepEnd = on.prepare(`
        SELECT key FROM job_specs WHERE batch = ? AND key > ? ORDER BY key LIMIT 1 OFFSET ${JOBS_PER_STEP - 1}`)
      const summed = on.prepare(`
        SELECT total(CASE WHEN json_type(result, ?4) IN ('integer', 'real') THEN result ->> ?4 END) AS sum
        FROM job_specs CROSS JOIN jobs USING (key)
        WHERE batch = ?1 AND job_specs.key > ?2 AND job_specs.key <= ?3 AND left_batch IS NULL AND result IS NOT NULL`)
      let sum = 0
      for (let after = 0; ; ) {
        const end = (stepEnd.get(batch.key, after) as { key: number } | undefined)?.key
        const to = end ?? Number.MAX_SAFE_INTEGER
        sum += (summed.get(batch.key, after, to, `$.${JSON.stringify(field)}`) as { sum: number }).sum
        if (end === undefined) return sum
        after = end
        yield
      }
    },
  }
}
