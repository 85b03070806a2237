import type { BatchEvent, BatchFailure } from '../../core/view-batch.ts'
import { batchRowOf, type StoredBatch } from '../batch-rows.ts'
import type { BatchFilter, BatchRow } from '../batches.ts'
import type { Pool } from './client.ts'
import type { PgContext } from './context.ts'

interface ReadBatch extends StoredBatch {
  processing: number
  failed_job: string | null
  failed_type: number
  failed_code: string
  failed_message: string
  failed_attempt: number
  failed_at: number
  failed_letter: number | null
}

export function openBatchReading({ types }: PgContext) {
  /** The counter and the jobs are read in one statement: apart, a claim between them would make the split wrong. */
  const select = (sql: Pool, keys: readonly number[]) => sql<ReadBatch[]>`
    SELECT batches.*, CASE WHEN unfinished > 0 THEN (
        SELECT count(*) FROM job_specs JOIN jobs ON jobs.key = job_specs.key
        WHERE job_specs.batch = batches.key AND left_batch IS NULL AND status = 'processing') ELSE 0 END AS processing,
      last.*
    FROM batches LEFT JOIN LATERAL (
      SELECT job_specs.id AS failed_job, job_specs.type AS failed_type, code AS failed_code,
        message AS failed_message, failures.attempt AS failed_attempt, at AS failed_at, dead_letter AS failed_letter
      FROM job_specs JOIN jobs ON jobs.key = job_specs.key JOIN failures ON failures.seq = jobs.failure
      WHERE batches.failed > 0 AND job_specs.batch = batches.key AND left_batch IS NULL AND jobs.failure IS NOT NULL
      ORDER BY failures.seq DESC LIMIT 1) AS last ON true
    WHERE batches.key = ANY(${keys as number[]}::bigint[]) ORDER BY batches.key DESC`

  const lastFailureOf = async (row: ReadBatch): Promise<BatchFailure | null> => {
    if (row.failed_job === null) return null
    return {
      jobId: row.failed_job,
      type: (await types.byKey(row.failed_type)).name,
      code: row.failed_code,
      message: row.failed_message,
      attempt: row.failed_attempt,
      atMs: row.failed_at,
      // 0 is a mere flag on the job, without a letter of its own.
      deadLetterOffset: row.failed_letter || null,
    }
  }

  const rowsOf = async (sql: Pool, keys: readonly number[], nowMs: number): Promise<BatchRow[]> => {
    if (keys.length === 0) return []
    const rows: BatchRow[] = []
    for (const row of await select(sql, keys)) rows.push(batchRowOf(row, await lastFailureOf(row), nowMs))
    return rows
  }

  return {
    async batch(sql: Pool, id: string, nowMs: number): Promise<BatchRow | null> {
      const found = await sql<{ key: number }[]>`SELECT key FROM batches WHERE id = ${id}`
      const [row] = await rowsOf(
        sql,
        found.map(({ key }) => key),
        nowMs,
      )
      return row ?? null
    },

    async batches(
      sql: Pool,
      { state, owner, name, beforeKey, limit }: BatchFilter,
      nowMs: number,
    ): Promise<BatchRow[]> {
      // Says in SQL what `stateAt` says, so that a page of a list can be filled.
      const hasExpired = sql`(state = 'expired' OR expires_at IS NOT NULL AND expires_at <= ${nowMs} AND unfinished = 0)`
      const ofState =
        state === undefined
          ? sql``
          : state === 'expired'
            ? sql`AND ${hasExpired}`
            : sql`AND state = ${state} AND NOT ${hasExpired}`
      const found = await sql<{ key: number }[]>`
        SELECT key FROM batches
        WHERE true ${ofState} ${owner === undefined ? sql`` : sql`AND owner = ${owner}`}
          ${name === undefined ? sql`` : sql`AND name = ${name}`}
          ${beforeKey === undefined ? sql`` : sql`AND key < ${beforeKey}`}
        ORDER BY key DESC LIMIT ${limit}`
      return rowsOf(
        sql,
        found.map(({ key }) => key),
        nowMs,
      )
    },

    async events(sql: Pool, id: string): Promise<BatchEvent[]> {
      const rows = await sql<{ seq: number; at: number; kind: BatchEvent['kind']; data: string }[]>`
        SELECT seq, at, kind, data FROM events WHERE subject = ${`batch:${id}`} ORDER BY seq`
      return rows.map(({ seq, at, kind, data }) => ({ seq, atMs: at, kind, data: JSON.parse(data) }))
    },

    async sum(sql: Pool, id: string, field: string): Promise<number> {
      const [row] = await sql<{ sum: number | null }[]>`
        SELECT sum((result::jsonb ->> ${field}::text)::float8) AS sum
        FROM batches JOIN job_specs ON job_specs.batch = batches.key JOIN jobs ON jobs.key = job_specs.key
        WHERE batches.id = ${id} AND left_batch IS NULL AND result IS NOT NULL
          AND jsonb_typeof(result::jsonb -> ${field}::text) = 'number'`
      return row?.sum ?? 0
    },
  }
}
