import type { BatchEvent, BatchFailure } from '../../../core/batch.ts'
import { RedressError } from '../../../core/errors.ts'
import { isPastExpiry, stateAt } from '../../../core/rollup.ts'
import type { BatchRow, BatchStore } from '../../contract/batches.ts'
import type { ScriptContext, Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { allOf, type Sql, sql } from '../tx/sql.ts'
import { type Batches, type StoredBatch, standingOf } from './batches.ts'

/** A larger batch searches its running jobs among all running jobs of the store. */
const FEW_JOBS = sql`1000`
const JOBS_PER_STEP = 5_000

const OF_BATCH = sql`
  jobs.key = job_specs.key AND job_specs.batch = batches.key AND left_batch IS NULL AND status = 'processing'`

/**
 * The counter and the jobs are read in one statement: apart, a claim between them would make the split wrong. Each
 * condition is the one of an index of running jobs.
 */
const COLUMNS = sql`batches.*,
  CASE WHEN unfinished = 0 THEN 0
    WHEN total <= ${FEW_JOBS} THEN (SELECT count(*) FROM job_specs CROSS JOIN jobs WHERE ${OF_BATCH})
    ELSE (SELECT count(*) FROM jobs CROSS JOIN job_specs
        WHERE lease_until IS NOT NULL AND orphaned_at IS NULL AND ${OF_BATCH})
      + (SELECT count(*) FROM jobs CROSS JOIN job_specs
        WHERE orphaned_at IS NOT NULL AND lease_until IS NOT NULL AND ${OF_BATCH})
    END AS processing,
  CASE WHEN failed = 0 THEN NULL ELSE (
    SELECT max(jobs.failure) FROM job_specs CROSS JOIN jobs
    WHERE jobs.key = job_specs.key AND job_specs.batch = batches.key AND left_batch IS NULL) END AS last_failure`

interface ReadBatch extends StoredBatch {
  processing: number
  last_failure: number | null
}

interface FailureRow {
  seq: number
  id: string
  type: number
  code: string
  message: string
  attempt: number
  at: number
  dead_letter: number | null
}

/** As it stands at this moment, whether or not its expiry is stored yet. */
function batchRowOf(row: ReadBatch, lastFailure: BatchFailure | null, nowMs: number): BatchRow {
  const standing = standingOf(row)
  return {
    ...standing,
    state: stateAt(standing, nowMs),
    isSealed: standing.isSealed || isPastExpiry(standing, nowMs),
    key: row.key,
    id: row.id,
    name: row.name,
    owner: row.owner,
    processing: row.processing,
    data: row.data,
    onSettled: row.on_settled === null ? null : JSON.parse(row.on_settled),
    notify: row.notify === null ? [] : JSON.parse(row.notify),
    createdAtMs: row.created_at,
    settledAtMs: row.settled_at,
    settlements: row.settlements,
    lastFailure,
  }
}

export function openBatchStore({ types, read, write, withinBacklog }: ScriptContext, batches: Batches): BatchStore {
  const failuresOf = function* (tx: Tx, rows: readonly ReadBatch[]): Script<Map<number, BatchFailure>> {
    const seqs = rows.flatMap(({ last_failure }) => last_failure ?? [])
    if (seqs.length === 0) return new Map()
    const found = yield* tx.all<FailureRow>`
      SELECT failures.seq, job_specs.id, job_specs.type, failures.code, message, failures.attempt, at, dead_letter
      FROM failures JOIN jobs ON jobs.key = failures.job JOIN job_specs ON job_specs.key = failures.job
      WHERE failures.seq ${tx.dialect.inNumbers(seqs)}`
    const failures = new Map<number, BatchFailure>()
    for (const { seq, id, type, code, message, attempt, at, dead_letter } of found) {
      const { name } = yield* types.byKey(tx, type)
      // 0 is a mere flag on the job, without a letter of its own.
      const deadLetterOffset = dead_letter || null
      failures.set(seq, { jobId: id, type: name, code, message, attempt, atMs: at, deadLetterOffset })
    }
    return failures
  }

  const rowsWhere = function* (tx: Tx, condition: Sql, limit: number, nowMs: number): Script<BatchRow[]> {
    const rows = yield* tx.all<ReadBatch>`
      SELECT ${COLUMNS} FROM batches WHERE ${condition} ORDER BY key DESC LIMIT ${limit}`
    const failures = yield* failuresOf(tx, rows)
    return rows.map((row) => batchRowOf(row, failures.get(row.last_failure ?? 0) ?? null, nowMs))
  }

  return {
    async openBatch({ batch, jobs }) {
      const answer = await write('opening a batch', function* (tx, nowMs) {
        tx.hintWork()
        let isNew = false
        const open = function* () {
          const opened = yield* batches.open(tx, batch, jobs, nowMs)
          isNew = opened.isNew
          return opened.jobs
        }
        const submitted = yield* withinBacklog(tx, jobs, open)
        return submitted instanceof RedressError ? submitted : { isNew, jobs: submitted }
      })
      if (answer instanceof RedressError) throw answer
      return answer
    },

    sealBatch: ({ id, by }) => write('sealing a batch', (tx, nowMs) => batches.seal(tx, id, by, nowMs)),

    batch: ({ id }) =>
      read('reading a batch', function* (tx) {
        const [row] = yield* rowsWhere(tx, sql`id = ${id}`, 1, yield* tx.now())
        return row ?? null
      }),

    batches: ({ state, owner, name, beforeKey, limit }) =>
      read('listing batches', function* (tx) {
        const nowMs = yield* tx.now()
        // Says in SQL what `stateAt` says, so that a page of a list can be filled.
        const hasExpired = sql`(state = 'expired' OR expires_at IS NOT NULL AND expires_at <= ${nowMs} AND unfinished = 0)`
        const conditions: Sql[] = []
        if (state === 'expired') conditions.push(hasExpired)
        else if (state !== undefined) conditions.push(sql`state = ${state} AND NOT ${hasExpired}`)
        if (owner !== undefined) conditions.push(sql`owner = ${owner}`)
        if (name !== undefined) conditions.push(sql`name = ${name}`)
        if (beforeKey !== undefined) conditions.push(sql`key < ${beforeKey}`)
        return yield* rowsWhere(tx, allOf(conditions), limit, nowMs)
      }),

    batchEvents: ({ id }) =>
      read('reading the history of a batch', function* (tx) {
        const rows = yield* tx.all<{ seq: number; at: number; kind: BatchEvent['kind']; data: string }>`
          SELECT seq, at, kind, data FROM events WHERE subject = ${`batch:${id}`} ORDER BY seq`
        return rows.map(({ seq, at, kind, data }) => ({ seq, atMs: at, kind, data: JSON.parse(data) }))
      }),

    batchSum: ({ id, field }) =>
      read('adding up the results of a batch', (tx) => sumOf(tx, id, field), { isLong: true }),

    async expireBatches({ limit }) {
      // Usually there is nothing to do, which must not lock anything.
      const found = await read('looking for expired batches', function* (tx) {
        const nowMs = yield* tx.now()
        return yield* tx.all<{ key: number }>`
          SELECT key FROM batches
          WHERE expires_at IS NOT NULL AND state <> 'expired' AND expires_at <= ${nowMs} AND unfinished = 0
          ORDER BY expires_at LIMIT ${limit}`
      })
      if (found.length === 0) return 0
      const keys = found.map(({ key }) => key)
      return write('expiring batches', (tx, nowMs) => batches.expire(tx, keys, nowMs))
    },

    nextBatchExpiryMs: () =>
      read('looking for the next expiry', function* (tx) {
        const nowMs = yield* tx.now()
        const row = yield* tx.get<{ at: number | null }>`
          SELECT min(expires_at) AS at FROM batches
          WHERE expires_at IS NOT NULL AND state <> 'expired' AND expires_at > ${nowMs}`
        return row?.at ?? null
      }),
  }
}

function* sumOf(tx: Tx, id: string, field: string): Script<number> {
  const batch = yield* tx.get<{ key: number }>`SELECT key FROM batches WHERE id = ${id}`
  if (batch === undefined) return 0
  const path = `$.${JSON.stringify(field)}`
  const value = tx.dialect.choose({
    sqlite: sql`CASE WHEN json_type(result, ${path}) IN ('integer', 'real') THEN CAST(result ->> ${path} AS real) END`,
    postgres: sql`CASE WHEN jsonb_typeof(result::jsonb -> ${field}::text) = 'number'
      THEN (result::jsonb ->> ${field}::text)::float8 END`,
  })
  let sum = 0
  for (let after = 0; ; ) {
    const end = tx.isPaced
      ? (yield* tx.get<{ key: number }>`
          SELECT key FROM job_specs WHERE batch = ${batch.key} AND key > ${after}
          ORDER BY key LIMIT 1 OFFSET ${JOBS_PER_STEP - 1}`)?.key
      : undefined
    const row = yield* tx.get<{ sum: number }>`
      SELECT coalesce(sum(${value}), 0) AS sum FROM job_specs CROSS JOIN jobs
      WHERE jobs.key = job_specs.key AND batch = ${batch.key} AND job_specs.key > ${after}
        AND job_specs.key <= ${end ?? Number.MAX_SAFE_INTEGER} AND left_batch IS NULL AND result IS NOT NULL`
    sum += row?.sum ?? 0
    if (end === undefined) return sum
    after = end
    yield* tx.pause()
  }
}
