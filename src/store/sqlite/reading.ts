import type { JobEvent } from '../../core/events.ts'
import { parse, type Row, toCounts, toEvent, toFailedEnd, toFailure, toJob } from '../rows.ts'
import type {
  Cancellation,
  FailedCount,
  JobFilter,
  JobPage,
  JobRow,
  Stalled,
  StoredFailure,
  StoredWorker,
  StuckAge,
  TypeCounts,
  WorkerKey,
} from '../store.ts'
import type { Connection } from './connection.ts'
import { openJobSearch } from './job-search.ts'
import type { Types } from './types.ts'

const JOB_COLUMNS = `
  jobs.key, job_specs.id, jobs.type, status, payload, result, job_specs.owner, priority, attempt, spent, progress,
  job_specs.created_at, queued_at,
  counts_from, due_at, claimed_at, job_specs.retried_from, job_specs.retried_as, jobs.started_at, finished_at, lease_until, orphaned_at,
  cancel_requested_at, dedupe_key, failure, forward_only, dead_letter, limit_key, workers.id AS worker_id,
  CASE WHEN left_batch IS NULL THEN job_specs.batch END AS batch, batches.id AS batch_id,
  (SELECT made.status FROM job_specs AS made_spec JOIN jobs AS made USING (key) WHERE made_spec.id = job_specs.retried_as)
    AS retried_as_status`
const JOB_TABLES = `jobs JOIN job_specs USING (key) LEFT JOIN workers ON workers.key = jobs.worker
  LEFT JOIN batches ON batches.key = job_specs.batch`

const JOBS_PER_STEP = 20_000
const COUNTS = `
  SELECT type, status, count(*) AS n, sum(due_at IS NOT NULL AND ready IS NULL) AS waiting,
    sum(orphaned_at IS NOT NULL) AS orphaned
  FROM jobs WHERE key > ? AND key <= ? GROUP BY type, status`

export function openReading(connection: Connection, types: Types, nowMs: () => number) {
  const job = connection.prepare(`SELECT ${JOB_COLUMNS} FROM ${JOB_TABLES} WHERE job_specs.id = ?`)
  const byKey = connection.prepare(`SELECT ${JOB_COLUMNS} FROM ${JOB_TABLES} WHERE jobs.key = ?`)
  const search = openJobSearch(connection, types, nowMs)
  const events = connection.prepare(`
    SELECT events.*, job_specs.id AS job_id, workers.id AS worker_id
    FROM job_specs JOIN events ON events.job = job_specs.key LEFT JOIN workers ON workers.key = events.worker
    WHERE job_specs.id = ? ORDER BY events.seq`)
  const FAILURE_COLUMNS = `failures.*, job_specs.id AS job_id, workers.id AS worker_id`
  const FAILURE_TABLES = `failures JOIN job_specs ON job_specs.key = failures.job
    LEFT JOIN workers ON workers.key = failures.worker`
  const failures = connection.prepare(
    `SELECT ${FAILURE_COLUMNS} FROM ${FAILURE_TABLES} WHERE job_specs.id = ? ORDER BY failures.seq`,
  )
  const latestFailure = connection.prepare(
    `SELECT ${FAILURE_COLUMNS} FROM ${FAILURE_TABLES} WHERE failures.job = ? ORDER BY failures.seq DESC LIMIT 1`,
  )
  const failedEnds = connection.prepare(`
    SELECT ended.*, fault, message FROM (
      SELECT jobs.type, forward_only, ended_with AS code, count(*) AS count, max(failure) AS newest
      FROM json_each(?) AS found CROSS JOIN jobs ON jobs.key = found.value
      WHERE failure IS NOT NULL GROUP BY jobs.type, forward_only, ended_with) AS ended
    JOIN failures ON failures.seq = ended.newest ORDER BY count DESC, code`)
  const workers = connection.prepare('SELECT * FROM workers ORDER BY key')
  const stalled = connection.prepare(`
    SELECT jobs.key, jobs.type, attempt, lease_until, claimed_at, jobs.started_at,
      coalesce(counts_from, queued_at) AS queued_at, spent, cancel_requested_at,
      forward_only, job_specs.id, job_specs.owner, job_specs.created_at, job_specs.retried_from,
      workers.id AS worker_id
    FROM jobs JOIN job_specs USING (key) JOIN workers ON workers.key = jobs.worker
    WHERE lease_until IS NOT NULL AND orphaned_at IS NULL
      AND (lease_until <= ?1 OR jobs.started_at IS NULL AND claimed_at <= ?2 OR EXISTS (
        SELECT 1 FROM json_each(?3) WHERE value ->> 0 = jobs.type AND jobs.started_at <= value ->> 1))
    ORDER BY lease_until LIMIT ?4`)
  const cancellations = connection.prepare(`
    SELECT key, attempt, (
      SELECT data FROM events WHERE events.job = jobs.key AND kind = 'cancel-requested' ORDER BY seq DESC LIMIT 1) AS data
    FROM jobs WHERE lease_until IS NOT NULL AND orphaned_at IS NULL AND cancel_requested_at IS NOT NULL AND worker = ?`)

  const read = (row: Row): JobRow => {
    const last = latestFailure.get(row.key as number) as Row | undefined
    return toJob(row, types.byKey(row.type as number), last === undefined ? null : toFailure(last))
  }

  const startedBefore = (stuck: readonly StuckAge[], nowMs: number): string =>
    JSON.stringify(
      stuck.flatMap(({ type, startedForMs }) => {
        const known = types.byName(type)
        return known === undefined ? [] : [[known.key, nowMs - startedForMs]]
      }),
    )

  return {
    job: (id: string): JobRow | null => {
      types.refresh()
      const row = job.get(id) as Row | undefined
      return row === undefined ? null : read(row)
    },

    page(filter: JobFilter): JobPage {
      const { keys, nextKey } = search.page(filter)
      const rows = keys.map((key) => byKey.get(key) as Row | undefined)
      return { jobs: rows.filter((row) => row !== undefined).map(read), nextKey }
    },

    count: search.count,

    countFailed(filter: Omit<JobFilter, 'limit'>, max: number): FailedCount {
      const { keys, nextKey } = search.page({ ...filter, status: 'failed', limit: max })
      const rows = failedEnds.all(JSON.stringify(keys)) as Row[]
      return { ends: rows.map((row) => toFailedEnd(row, types.byKey(row.type as number))), isMore: nextKey !== null }
    },

    events: (id: string): JobEvent[] => (events.all(id) as Row[]).map(toEvent),
    failures: (id: string): StoredFailure[] => (failures.all(id) as Row[]).map(toFailure),

    workers: (): StoredWorker[] =>
      (workers.all() as Row[]).map((row) => ({
        id: row.id as string,
        host: row.host as string,
        pid: row.pid as number,
        types: JSON.parse(row.types as string) as string[],
        startedAtMs: row.started_at as number,
        seenAtMs: row.seen_at as number,
        stoppedAtMs: row.stopped_at as number | null,
      })),

    *counts(on: Connection): Generator<undefined, TypeCounts[]> {
      const stepEnd = on.prepare(`SELECT key FROM jobs WHERE key > ? ORDER BY key LIMIT 1 OFFSET ${JOBS_PER_STEP - 1}`)
      const counted = on.prepare(COUNTS)
      const sums = new Map<string, Row>()
      for (let after = 0; ; ) {
        const end = (stepEnd.get(after) as { key: number } | undefined)?.key
        for (const row of counted.all(after, end ?? Number.MAX_SAFE_INTEGER) as Row[]) {
          const sum = sums.get(`${row.type} ${row.status}`) ?? { n: 0, waiting: 0, orphaned: 0 }
          const add = (name: 'n' | 'waiting' | 'orphaned') => Number(sum[name]) + Number(row[name])
          const added = { ...row, n: add('n'), waiting: add('waiting'), orphaned: add('orphaned') }
          sums.set(`${row.type} ${row.status}`, added)
        }
        if (end === undefined) return toCounts([...sums.values()], types.byKey)
        after = end
        yield
      }
    },

    stalled: (nowMs: number, unstartedForMs: number, stuck: readonly StuckAge[], limit: number): Stalled[] =>
      (stalled.all(nowMs, nowMs - unstartedForMs, startedBefore(stuck, nowMs), limit) as Row[]).map((row) => ({
        key: row.key as number,
        id: row.id as string,
        type: types.byKey(row.type as number).name,
        attempt: row.attempt as number,
        worker: row.worker_id as string,
        leaseUntilMs: row.lease_until as number,
        claimedAtMs: row.claimed_at as number,
        startedAtMs: row.started_at as number | null,
        queuedAtMs: row.queued_at as number,
        createdAtMs: row.created_at as number,
        owner: row.owner as string | null,
        retriedFrom: row.retried_from as string | null,
        spent: row.spent as string | null,
        isExpired: (row.lease_until as number) <= nowMs,
        isCancelRequested: row.cancel_requested_at !== null,
        isForwardOnly: row.forward_only === 1,
        nowMs,
      })),

    cancellations: (worker: WorkerKey): Cancellation[] =>
      (cancellations.all(worker) as Row[]).map((row) => {
        const by = parse<{ actor: string; reason: string }>(row.data as string | null, { actor: '', reason: '' })
        return { key: row.key as number, attempt: row.attempt as number, actor: by.actor, reason: by.reason }
      }),
  }
}
