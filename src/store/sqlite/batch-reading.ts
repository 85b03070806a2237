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

/** The counter and the jobs are read in one statement: apart, a claim between them would make the split wrong. */
const COLUMNS = `batches.*, CASE WHEN unfinished > 0 THEN (
    SELECT count(*) FROM job_specs CROSS JOIN jobs USING (key)
    WHERE job_specs.batch = batches.key AND left_batch IS NULL AND status = 'processing') ELSE 0 END AS processing`

/** Says in SQL what `stateAt` says, so that a page of a list can be filled. Takes the time. */
const HAS_EXPIRED = `(state = 'expired' OR expires_at IS NOT NULL AND expires_at <= ? AND unfinished = 0)`

export function openBatchReading(connection: Connection, types: Types) {
  const one = connection.prepare(`SELECT ${COLUMNS} FROM batches WHERE id = ?`)
  const lastFailure = connection.prepare(`
    SELECT job_specs.id, job_specs.type, failures.code, message, failures.attempt, at, dead_letter
    FROM job_specs CROSS JOIN jobs USING (key) JOIN failures ON failures.seq = jobs.failure
    WHERE job_specs.batch = ? AND left_batch IS NULL AND jobs.failure IS NOT NULL ORDER BY failures.seq DESC LIMIT 1`)
  const events = connection.prepare('SELECT seq, at, kind, data FROM events WHERE subject = ? ORDER BY seq')
  const sum = connection.prepare(`
    SELECT total(CASE WHEN json_type(result, ?2) IN ('integer', 'real') THEN result ->> ?2 END) AS sum
    FROM batches CROSS JOIN job_specs ON job_specs.batch = batches.key CROSS JOIN jobs ON jobs.key = job_specs.key
    WHERE batches.id = ?1 AND left_batch IS NULL AND result IS NOT NULL`)

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

    sum: (id: string, field: string): number => (sum.get(id, `$.${JSON.stringify(field)}`) as { sum: number }).sum,
  }
}
