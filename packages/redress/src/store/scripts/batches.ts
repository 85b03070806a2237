import {
  type BatchCounts,
  type BatchEvent,
  type BatchEventKind,
  type BatchFailure,
  type BatchStanding,
  type BatchState,
  countsOfMove,
  isPastExpiry,
  isReopenedByRetry,
  isTaking,
  newsOf,
  outcomeOf,
  settledPayload,
  stateAt,
  statesEntered,
} from '../../core/batch.ts'
import { RedressError } from '../../core/errors.ts'
import type { Status } from '../../core/job/states.ts'
import { noticesOfSettlement } from '../../core/notice/notice.ts'
import type { Rollup } from '../../core/policy/flow.ts'
import type { Policy } from '../../core/policy/policy.ts'
import type { BatchRow, BatchStore, NewBatch } from '../contract/batches.ts'
import type { ActorAndReason, BatchKey, NewJob, Submitted } from '../contract/store.ts'
import { settledJobId } from './derived-id.ts'
import { history, toEventNumber } from './history.ts'
import type { ScriptContext, Tx } from './tx/context.ts'
import type { Script } from './tx/script.ts'
import { allOf, type Sql, sql } from './tx/sql.ts'

/** A row of `batches`, as both drivers have it. */
export interface StoredBatch {
  key: number
  id: string
  name: string
  owner: string | null
  rollup: Rollup | null
  state: BatchState
  sealed: number
  total: number
  unfinished: number
  complete: number
  failed: number
  permanent: number
  cancelled: number
  data: string
  on_settled: string | null
  notify: string | null
  created_at: number
  settled_at: number | null
  settlements: number
  expires_at: number | null
}

const ROLLUP_WITHOUT_JOBS: Rollup = 'partial'

export const standingOf = (row: StoredBatch): BatchStanding => ({
  state: row.state,
  isSealed: row.sealed === 1,
  rollup: row.rollup ?? ROLLUP_WITHOUT_JOBS,
  expiresAtMs: row.expires_at,
  total: row.total,
  unfinished: row.unfinished,
  complete: row.complete,
  failed: row.failed,
  permanent: row.permanent,
  cancelled: row.cancelled,
})

const closedError = ({ id, name, state, sealed }: StoredBatch): RedressError => {
  const why = state === 'expired' ? 'it has expired' : sealed === 1 ? 'it is sealed' : 'its time is over'
  return new RedressError('BATCH_CLOSED', `Batch ${id} (${name}) takes no more jobs: ${why}.`)
}

/** The write-ahead line must be on disk before the transaction that settles the batch, which cannot be foreseen. */
function refuseWriteAheadOnSettled(type: string, { audit }: Policy): void {
  if (audit !== 'write-ahead') return
  throw new RedressError('OPTION_INVALID', `onSettled: ${type} has audit 'write-ahead', and cannot be submitted so.`, {
    action: 'Let onSettled submit a job of another type, which submits that one.',
  })
}

export type Batches = ReturnType<typeof openBatches>

/**
 * Counts and states of batches. The counters change in one UPDATE that answers with the new counts: of two jobs that end
 * at the same moment, the second one's transaction counts on from the first one's commit, and only it finds nothing
 * unfinished.
 */
export function openBatches({ types, submit }: Pick<ScriptContext, 'types' | 'submit'>) {
  const announce = function* (tx: Tx, batch: StoredBatch, kind: BatchEventKind, nowMs: number): Script<void> {
    yield* history.subjectEvent(tx, `batch:${batch.id}`, nowMs, kind, newsOf(batch))
    if (kind !== 'settled' || batch.notify === null) return
    yield* history.notify(tx, noticesOfSettlement(batch, JSON.parse(batch.notify) as string[]), null, nowMs)
  }

  /** One job per settlement, in its transaction; the id is derived from the settlement. */
  const submitOnSettled = function* (tx: Tx, batch: StoredBatch, nowMs: number): Script<void> {
    if (batch.on_settled === null) return
    const { type, input } = JSON.parse(batch.on_settled) as NonNullable<NewBatch['onSettled']>
    const id = settledJobId(batch.id, batch.settlements)
    const { owner } = batch
    const job = { id, type, payload: settledPayload(input, outcomeOf(batch)), owner, priority: 0, delayMs: 0 }
    tx.wakeWorkers()
    const rest = { dedupe: null, retriedFrom: null, rejected: null, batch: null, limitKey: null }
    yield* submit(tx, [{ ...job, ...rest }], nowMs)
  }

  // Each compares the state that it leaves: a second transaction changes nothing and announces nothing.
  const settle = (tx: Tx, key: BatchKey, state: BatchState, nowMs: number) => tx.get<StoredBatch>`
    UPDATE batches SET state = ${state}, sealed = 1, settled_at = ${nowMs}, settlements = settlements + 1
    WHERE key = ${key} AND state = 'open' AND unfinished = 0 RETURNING *`
  const expire = (tx: Tx, key: BatchKey) => tx.get<StoredBatch>`
    UPDATE batches SET state = 'expired' WHERE key = ${key} AND state NOT IN ('open', 'expired') RETURNING *`

  /** Lets a batch enter the states that it has reached and answers with its new row. The row is locked. */
  const enterStates = function* (tx: Tx, batch: StoredBatch, nowMs: number): Script<StoredBatch> {
    let standing = batch
    for (const state of statesEntered(standingOf(batch), nowMs)) {
      const isExpiry = state === 'expired'
      const entered = yield* isExpiry ? expire(tx, batch.key) : settle(tx, batch.key, state, nowMs)
      if (entered === undefined) break
      standing = entered
      yield* announce(tx, standing, isExpiry ? 'expired' : 'settled', nowMs)
      if (!isExpiry) yield* submitOnSettled(tx, standing, nowMs)
    }
    return standing
  }

  /** Called before a job of the batch is unfinished again. A batch whose time is over expires first, and stays so. */
  const reopenFor = function* (tx: Tx, key: BatchKey, nowMs: number): Script<void> {
    const before = yield* tx.get<StoredBatch>`SELECT * FROM batches WHERE key = ${key} ${tx.dialect.forUpdate}`
    if (before === undefined || !isReopenedByRetry(before)) return
    const standing = yield* enterStates(tx, before, nowMs)
    if (!isReopenedByRetry(standing)) return
    const reopened = yield* tx.get<StoredBatch>`
      UPDATE batches SET state = 'open', settled_at = NULL
      WHERE key = ${key} AND state NOT IN ('open', 'expired') RETURNING *`
    if (reopened !== undefined) yield* announce(tx, reopened, 'reopened', nowMs)
  }

  const count = function* (tx: Tx, key: BatchKey, counts: BatchCounts, jobs: number, nowMs: number): Script<void> {
    const { total, unfinished, complete, failed, permanent, cancelled } = counts
    if (unfinished > 0) yield* reopenFor(tx, key, nowMs)
    const row = yield* tx.get<StoredBatch>`
      UPDATE batches SET total = total + ${total * jobs}, unfinished = unfinished + ${unfinished * jobs},
        complete = complete + ${complete * jobs}, failed = failed + ${failed * jobs},
        permanent = permanent + ${permanent * jobs}, cancelled = cancelled + ${cancelled * jobs}
      WHERE key = ${key} RETURNING *`
    if (row !== undefined) yield* enterStates(tx, row, nowMs)
  }

  const keyOf = function* (tx: Tx, id: string): Script<BatchKey | null> {
    const row = yield* tx.get<{ key: BatchKey }>`SELECT key FROM batches WHERE id = ${id}`
    return row?.key ?? null
  }

  const sealOne = function* (tx: Tx, key: BatchKey, nowMs: number): Script<'sealed' | 'was-sealed'> {
    const sealed = yield* tx.get<StoredBatch>`
      UPDATE batches SET sealed = 1 WHERE key = ${key} AND sealed = 0 RETURNING *`
    if (sealed === undefined) return 'was-sealed'
    yield* enterStates(tx, sealed, nowMs)
    return 'sealed'
  }

  return {
    keyOf,

    /** `jobs` jobs of the batch changed their state. Called in the transaction that changes them. */
    moved: (tx: Tx, batch: BatchKey, from: Status, to: Status, isPermanent: boolean, nowMs: number, jobs = 1) =>
      count(tx, batch, countsOfMove(from, to, isPermanent), jobs, nowMs),

    /** `jobs` new jobs enter, all in the same state. The first job sets the batch options of its type. */
    *entered(
      tx: Tx,
      id: string,
      policy: Policy,
      status: Status,
      isPermanent: boolean,
      nowMs: number,
      jobs = 1,
    ): Script<void> {
      // Locked: it must not be sealed, or expire, between this look and the count.
      const batch = yield* tx.get<StoredBatch>`SELECT * FROM batches WHERE id = ${id} ${tx.dialect.forUpdate}`
      if (batch === undefined) throw new RedressError('BATCH_NOT_FOUND', `There is no batch ${id}.`)
      if (!isTaking(standingOf(batch), nowMs)) throw closedError(batch)
      if (batch.rollup === null || batch.notify === null) {
        yield* tx.run`
          UPDATE batches SET rollup = coalesce(rollup, ${policy.rollup}),
            notify = coalesce(notify, ${JSON.stringify(policy.notify.settled)})
          WHERE key = ${batch.key}`
      }
      yield* count(tx, batch.key, countsOfMove(null, status, isPermanent), jobs, nowMs)
    },

    *open(
      tx: Tx,
      batch: NewBatch,
      jobs: readonly NewJob[],
      nowMs: number,
    ): Script<{ isNew: boolean; jobs: Submitted[] }> {
      const { id, name, owner, rollup, data, onSettled, notify, expiresInMs } = batch
      if (onSettled !== null) {
        const { policy } = yield* types.needed(tx, onSettled.type)
        refuseWriteAheadOnSettled(onSettled.type, policy)
      }
      const settled = onSettled === null ? null : JSON.stringify(onSettled)
      const channels = notify === null ? null : JSON.stringify(notify)
      const expiresAtMs = expiresInMs === null ? null : nowMs + expiresInMs
      const added = yield* tx.get<{ key: BatchKey }>`
        INSERT INTO batches (id, name, owner, rollup, state, sealed, data, on_settled, notify, created_at, expires_at)
        VALUES (${id}, ${name}, ${owner}, ${rollup}, 'open', 0, ${data}, ${settled}, ${channels}, ${nowMs},
          ${expiresAtMs})
        ON CONFLICT DO NOTHING RETURNING key`
      if (added === undefined) return { isNew: false, jobs: [] }
      const ofBatch = jobs.map((job) => ({ ...job, batch: id }))
      const submitted = yield* submit(tx, ofBatch, nowMs)
      if (batch.isSealed) yield* sealOne(tx, added.key, nowMs)
      return { isNew: true, jobs: submitted }
    },

    *seal(
      tx: Tx,
      id: string,
      by: (ActorAndReason & { act: string }) | undefined,
      nowMs: number,
    ): Script<'sealed' | 'was-sealed' | 'not-found'> {
      const key = yield* keyOf(tx, id)
      if (key === null) return 'not-found'
      if (by !== undefined) yield* history.audit(tx, by, { atMs: nowMs, act: by.act, target: 'batch', ids: [id] })
      return yield* sealOne(tx, key, nowMs)
    },

    /** Looks again, in this transaction: another process may have been quicker, or a retry. */
    *expire(tx: Tx, keys: readonly BatchKey[], nowMs: number): Script<number> {
      const rows = yield* tx.all<StoredBatch>`
        SELECT * FROM batches WHERE key ${tx.dialect.inNumbers(keys)} AND state <> 'expired'
        ORDER BY key ${tx.dialect.forUpdate}`
      let expired = 0
      for (const batch of rows) {
        const { state } = yield* enterStates(tx, batch, nowMs)
        if (state === 'expired') expired++
      }
      return expired
    },
  }
}

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

/** The batch at this moment, whether or not its expiry is stored yet. */
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
        tx.wakeWorkers()
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
        return rows.map(({ seq, at, kind, data }) => ({
          seq: toEventNumber(seq),
          atMs: at,
          kind,
          data: JSON.parse(data),
        }))
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
