import type { Fault } from '../../../core/failure/failure.ts'
import type { JobEvent } from '../../../core/job/events.ts'
import type { Status } from '../../../core/job/states.ts'
import { triesOfTask } from '../../../core/policy/budget.ts'
import { asForwardOnly } from '../../../core/policy/policy.ts'
import type { FailedEnd, JobKey, JobRow, Store, TypeCounts } from '../../contract/store.ts'
import type { ScriptContext, Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { type Sql, sql } from '../tx/sql.ts'
import { jobsOf, openJobSearch } from './job-search.ts'
import { eventRowsOf, type Row, toEvent, toFailure } from './rows.ts'
import type { KnownType } from './types.ts'

type JobReads = Pick<Store, 'job' | 'jobs' | 'jobPage' | 'countJobs' | 'countFailed' | 'events' | 'failures' | 'counts'>

/** Of the columns that jobs and failures both have, those of the failure have other names here. */
const COLUMNS = sql`
  jobs.key, job_specs.id, jobs.type, jobs.status, payload, result, job_specs.owner AS job_owner, priority,
  jobs.attempt AS job_attempt, spent, progress, job_specs.created_at, jobs.started_at, finished_at, due_at, claimed_at,
  CASE WHEN counts_from > queued_at THEN counts_from ELSE queued_at END AS queued_at,
  lease_until, orphaned_at, cancel_requested_at, dedupe_key, jobs.failure, forward_only, dead_letter, limit_key,
  workers.id AS holder, CASE WHEN left_batch IS NULL THEN job_specs.batch END AS batch, batches.id AS batch_id,
  job_specs.retried_from, job_specs.retried_as, (
    SELECT made.status FROM job_specs AS made_spec JOIN jobs AS made ON made.key = made_spec.key
    WHERE made_spec.id = job_specs.retried_as) AS retried_as_status,
  latest.seq, latest.at, latest.attempt, latest.stage, latest.owner, latest.code, latest.fault, latest.message,
  latest.waiting, latest.detail, latest.context, latest.causes, latest.rule, latest.fingerprint, latest.from_status,
  reported.done AS progress_done, reported.total AS progress_total, reported.note AS progress_note,
  latest.to_status, latest.decision, failed_on.id AS worker_id, job_specs.id AS job_id`

const LATEST_FAILURE = {
  sqlite: sql`LEFT JOIN failures AS latest
    ON latest.seq = (SELECT seq FROM failures WHERE failures.job = jobs.key ORDER BY seq DESC LIMIT 1)`,
  // Ordered by the columns of the index, which each day's table has.
  postgres: sql`LEFT JOIN LATERAL (
    SELECT * FROM failures WHERE failures.job = found.key ORDER BY failures.job DESC, failures.seq DESC LIMIT 1) AS latest
    ON true`,
}

/** Each part of PostgreSQL's statement reads an index. In one statement they add up. */
const COUNTS_POSTGRES = sql`
  SELECT resting.type, status, n, coalesce(due.waiting, 0) AS waiting, 0 AS orphaned
  FROM (SELECT type, status, count(*) AS n FROM jobs WHERE lease_until IS NULL GROUP BY type, status) AS resting
    LEFT JOIN (SELECT type, count(*) AS waiting FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL
      GROUP BY type) AS due ON due.type = resting.type AND resting.status = 'queued'
  UNION ALL
  SELECT type, 'processing', count(*), 0, CAST(sum(orphaned) AS bigint)
  FROM (
    SELECT type, 0 AS orphaned FROM jobs WHERE lease_until IS NOT NULL AND orphaned_at IS NULL
    UNION ALL
    SELECT type, 1 FROM jobs WHERE orphaned_at IS NOT NULL AND status = 'processing') AS held
  GROUP BY type`

const JOBS_PER_STEP = 20_000

interface CountRow {
  type: number
  status: Status
  n: number
  waiting: number
  orphaned: number
}

export function openJobs(context: ScriptContext): JobReads {
  const { types, read } = context
  const search = openJobSearch(context)

  const readJobs = function* (tx: Tx, found: Sql): Script<JobRow[]> {
    const rows = yield* tx.all<Row>`
      WITH found AS MATERIALIZED (${found})
      SELECT ${COLUMNS}
      FROM found JOIN jobs ON jobs.key = found.key JOIN job_specs ON job_specs.key = found.key
        LEFT JOIN workers ON workers.key = jobs.worker LEFT JOIN batches ON batches.key = job_specs.batch
        LEFT JOIN attempt_reports AS reported ON reported.job = found.key AND reported.attempt = jobs.attempt
        ${tx.dialect.choose(LATEST_FAILURE)} LEFT JOIN workers AS failed_on ON failed_on.key = latest.worker`
    const jobs: JobRow[] = []
    for (const row of rows) jobs.push(toJob(row, yield* types.byKey(tx, row.type as number)))
    // Sorted here: for an ORDER BY, PostgreSQL may walk through a whole index that has this order.
    return jobs.sort((a, b) => b.key - a.key)
  }

  const page: JobReads['jobPage'] = (filter) =>
    read('listing jobs', function* (tx) {
      yield* types.refresh(tx)
      const { keys, nextKey } = yield* search.page(tx, filter)
      return { jobs: keys.length === 0 ? [] : yield* readJobs(tx, sql`SELECT key FROM ${given(tx, keys)}`), nextKey }
    })

  return {
    job: ({ id }) =>
      read('reading a job', function* (tx) {
        yield* types.refresh(tx)
        const [job] = yield* readJobs(tx, sql`SELECT key FROM job_specs WHERE id = ${id}`)
        return job ?? null
      }),

    jobs: (filter) => jobsOf(filter, page),
    jobPage: page,

    countJobs: ({ max, ...filter }) =>
      read('counting jobs', function* (tx) {
        yield* types.refresh(tx)
        return yield* search.count(tx, filter, max)
      }),

    countFailed: ({ max, ...filter }) =>
      read('counting failed jobs', function* (tx) {
        yield* types.refresh(tx)
        const { keys, nextKey } = yield* search.page(tx, { ...filter, status: 'failed', limit: max })
        // A job that was ended by a program of the previous version has its code only in the failure.
        const rows = yield* tx.all<Row>`
          SELECT ended.type, forward_only, ended.code, count, fault, message FROM (
            SELECT jobs.type, forward_only, count(*) AS count, max(failure) AS newest,
              coalesce(ended_with, (SELECT code FROM failures WHERE failures.seq = jobs.failure)) AS code
            FROM ${given(tx, keys)} JOIN jobs ON jobs.key = given.key
            WHERE failure IS NOT NULL GROUP BY 1, 2, 5) AS ended
          JOIN failures ON failures.seq = ended.newest`
        const ends: FailedEnd[] = []
        for (const { type, code, forward_only, count, fault, message } of rows) {
          ends.push({
            type: (yield* types.byKey(tx, type as number)).name,
            code: code as string,
            isForwardOnly: forward_only === 1,
            count: count as number,
            fault: fault as Fault,
            message: message as string,
          })
        }
        return { ends: ends.sort((a, b) => b.count - a.count || (a.code < b.code ? -1 : 1)), isMore: nextKey !== null }
      }),

    events: ({ id }) =>
      read('reading events', function* (tx) {
        const key = sql`(SELECT key FROM job_specs WHERE id = ${id})`
        // In one statement, so that a claim is found either in the row of an event or in that of the job.
        const rows = yield* tx.all<Row>`
          SELECT history.*, workers.id AS worker_id FROM (
            SELECT seq, at, kind, attempt, worker, duration_ms, data, claimed_at FROM events
            WHERE job = ${key} AND kind NOT IN ('log', 'progress')
            UNION ALL
            SELECT CAST(NULL AS bigint), untold_claim, 'processing', attempt, worker, CAST(NULL AS bigint),
              CAST(NULL AS text), CAST(NULL AS bigint)
            FROM jobs WHERE key = ${key} AND status = 'processing' AND untold_claim = claimed_at
          ) AS history LEFT JOIN workers ON workers.key = history.worker`
        return historyOf(rows.map((row) => ({ ...row, job_id: id })))
      }),

    failures: ({ id }) =>
      read('reading failures', function* (tx) {
        const rows = yield* tx.all<Row>`
          SELECT failures.*, job_specs.id AS job_id, workers.id AS worker_id
          FROM job_specs JOIN failures ON failures.job = job_specs.key LEFT JOIN workers ON workers.key = failures.worker
          WHERE job_specs.id = ${id}`
        return rows.map(toFailure).sort(bySeq)
      }),

    counts: () =>
      read(
        'counting jobs',
        function* (tx) {
          yield* types.refresh(tx)
          const rows = tx.isPaced ? yield* countInSteps(tx) : yield* tx.all<CountRow>`${COUNTS_POSTGRES}`
          const byType = new Map<number, TypeCounts>()
          for (const { type, status, n, waiting, orphaned } of rows) {
            const { name, queue } = yield* types.byKey(tx, type)
            const sum = byType.get(type) ?? { type: name, queue, ...NO_JOBS }
            sum[status] += n
            sum.waiting += status === 'queued' ? waiting : 0
            sum.orphaned += status === 'processing' ? orphaned : 0
            byType.set(type, sum)
          }
          return [...byType.values()]
        },
        { isLong: true },
      ),
  }
}

/**
 * The rows of one job in order. The claim of the attempt under way has no row until an event tells of it, so its number is a
 * preliminary one: that after the last event that changed the job.
 */
function historyOf(rows: readonly Row[]): JobEvent[] {
  const isOpen = ({ seq }: Row): boolean => seq === null
  // A program of the version before wrote each claim as a row of its own, and left what the version after it had noted.
  const own = new Set(rows.flatMap((row) => (row.kind === 'processing' && !isOpen(row) ? [row.attempt] : [])))
  const told = rows
    .filter((row) => !isOpen(row))
    .flatMap((row) => eventRowsOf(own.has(row.attempt as number) ? { ...row, claimed_at: null } : row))
  const events = told.map(toEvent)
  const open = rows.find(isOpen)
  const last = Math.max(0, ...events.filter(({ kind }) => kind !== 'lost').map(({ seq }) => seq))
  return (open === undefined ? events : [...events, toEvent({ ...open, seq: last + 1 })]).sort(bySeq)
}

const NO_JOBS = { queued: 0, waiting: 0, processing: 0, orphaned: 0, complete: 0, failed: 0, cancelled: 0 }

function* countInSteps(tx: Tx): Script<CountRow[]> {
  const rows: CountRow[] = []
  for (let after = 0; ; ) {
    const last = yield* tx.get<{ key: number }>`
      SELECT key FROM jobs WHERE key > ${after} ORDER BY key LIMIT 1 OFFSET ${JOBS_PER_STEP - 1}`
    const end = last?.key ?? Number.MAX_SAFE_INTEGER
    const counted = yield* tx.all<CountRow>`
      SELECT type, status, count(*) AS n, sum(due_at IS NOT NULL AND ready IS NULL) AS waiting,
        sum(orphaned_at IS NOT NULL) AS orphaned
      FROM jobs WHERE key > ${after} AND key <= ${end} GROUP BY type, status`
    rows.push(...counted)
    if (last === undefined) return rows
    after = last.key
    yield* tx.pause()
  }
}

const given = (tx: Tx, keys: readonly JobKey[]): Sql =>
  sql`${tx.dialect.table(
    { key: 'bigint' },
    keys.map((key) => ({ key })),
  )} AS given`

const bySeq = (a: { seq: number }, b: { seq: number }): number => a.seq - b.seq

/** The details of an attempt that went back to the queue are history, like its progress. */
function progressDetailOf(row: Row): JobRow['progressDetail'] {
  if (row.progress === null || row.progress_done === null) return null
  return {
    done: row.progress_done as number,
    total: row.progress_total as number | null,
    note: row.progress_note as string | null,
  }
}

function toJob(row: Row, type: KnownType): JobRow {
  const isProcessing = row.status === 'processing'
  return {
    key: row.key as number,
    id: row.id as string,
    type: type.name,
    queue: type.queue,
    status: row.status as Status,
    payload: row.payload as string,
    result: row.result as string | null,
    owner: row.job_owner as string | null,
    priority: row.priority as number,
    attempt: row.job_attempt as number,
    tries: triesOfTask(row.job_attempt as number, row.spent as string | null),
    spent: row.spent as string | null,
    progress: row.status === 'complete' ? 1 : ((row.progress as number | null) ?? 0),
    progressDetail: progressDetailOf(row),
    createdAtMs: row.created_at as number,
    queuedAtMs: row.queued_at as number,
    dueAtMs: row.due_at as number | null,
    claimedAtMs: row.claimed_at as number | null,
    startedAtMs: row.started_at as number | null,
    finishedAtMs: row.finished_at as number | null,
    lease: isProcessing ? { worker: row.holder as string, untilMs: row.lease_until as number } : null,
    // Only a processing job can be an orphan. The marks of an attempt that has ended are history.
    orphanedAtMs: isProcessing ? (row.orphaned_at as number | null) : null,
    cancelRequestedAtMs: isProcessing ? (row.cancel_requested_at as number | null) : null,
    retriedFrom: row.retried_from as string | null,
    retriedAs: row.retried_as as string | null,
    retriedAsStatus: row.retried_as_status as Status | null,
    dedupeKey: row.dedupe_key as string | null,
    batch: row.batch as number | null,
    batchId: row.batch_id as string | null,
    limitKey: (row.limit_key as string | null) || null,
    failure: row.failure as number | null,
    latestFailure: row.seq === null ? null : toFailure(row),
    isForwardOnly: row.forward_only === 1,
    isDeadLettered: row.dead_letter !== null,
    policy: row.forward_only === 1 ? asForwardOnly(type.policy) : type.policy,
  }
}
