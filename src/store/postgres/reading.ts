import { jobsOf } from '../job-search.ts'
import type { KnownType } from '../known-type.ts'
import { type Row, toCounts, toEvent, toFailedEnd, toFailure, toJob } from '../rows.ts'
import type { JobFilter, JobPage, JobRow, Store } from '../store.ts'
import { numbers } from './arrays.ts'
import type { Fragment, Pool } from './client.ts'
import type { PgContext } from './context.ts'
import { printable } from './history.ts'
import { countOfJobs, pageOf } from './job-search.ts'

/** A job together with its newest failure: read in one statement, they fit each other. */
interface JobAndFailure {
  [column: string]: unknown
  type: number
  latest_failure: Row | null
}

export function openReading({
  types,
  read,
}: PgContext): Pick<
  Store,
  'job' | 'jobs' | 'jobPage' | 'countJobs' | 'countFailed' | 'events' | 'failures' | 'counts'
> {
  const toRow = ({ latest_failure, ...row }: JobAndFailure): JobRow => {
    const type = types.knownByKey(row.type) as KnownType
    return toJob(row as unknown as Row, type, latest_failure === null ? null : toFailure(latest_failure))
  }

  const readJobs = async (sql: Pool, found: Fragment): Promise<JobRow[]> => {
    const rows = await sql<JobAndFailure[]>`
      WITH found AS MATERIALIZED (${found})
      SELECT jobs.key, job_specs.id, jobs.type, jobs.status, payload, result, job_specs.owner, priority, jobs.attempt, spent,
        progress, job_specs.created_at, queued_at, greatest(counts_from, queued_at) AS counts_from, due_at, claimed_at, job_specs.retried_from,
        job_specs.retried_as, jobs.started_at, finished_at,
        lease_until, orphaned_at, cancel_requested_at, dedupe_key, jobs.failure, forward_only, dead_letter, limit_key,
        workers.id AS worker_id, CASE WHEN left_batch IS NULL THEN job_specs.batch END AS batch, batches.id AS batch_id,
        (SELECT made.status FROM job_specs AS made_spec JOIN jobs AS made ON made.key = made_spec.key
          WHERE made_spec.id = job_specs.retried_as) AS retried_as_status,
        to_json(latest) AS latest_failure
      FROM found JOIN jobs ON jobs.key = found.key JOIN job_specs ON job_specs.key = found.key
        LEFT JOIN workers ON workers.key = jobs.worker LEFT JOIN batches ON batches.key = job_specs.batch
        LEFT JOIN LATERAL (
          SELECT failures.*, job_specs.id AS job_id, who.id AS worker_id
          FROM failures LEFT JOIN workers AS who ON who.key = failures.worker
          WHERE failures.job = found.key ORDER BY failures.job DESC, failures.seq DESC LIMIT 1) AS latest ON true`
    // What is not known of the types by now was declared after the last look, and before these jobs were submitted.
    if (rows.some(({ type }) => types.knownByKey(type) === undefined)) await types.refresh(sql)
    // Put in order here, not there: for the sake of an order, a planner may walk a whole index that has it.
    return rows.map(toRow).sort((a, b) => b.key - a.key)
  }

  const page = (filter: JobFilter): Promise<JobPage> =>
    read('listing jobs', async (sql, clock) => {
      await types.refresh(sql)
      const { keys, nextKey } = await pageOf(sql, types.known(), filter, clock)
      if (keys.length === 0) return { jobs: [], nextKey }
      return {
        jobs: await readJobs(sql, sql`SELECT key FROM unnest(${numbers(keys)}::bigint[]) AS page (key)`),
        nextKey,
      }
    })

  return {
    job: ({ id }) =>
      read('reading a job', async (sql) => {
        await types.refresh(sql)
        const [row] = await readJobs(sql, sql`SELECT key FROM job_specs WHERE id = ${printable(id)}`)
        return row ?? null
      }),

    jobs: (filter) => jobsOf(filter, page),
    jobPage: page,

    countJobs: ({ max, ...filter }) =>
      read('counting jobs', async (sql, clock) => {
        await types.refresh(sql)
        return countOfJobs(sql, types.known(), filter, max, clock)
      }),

    countFailed: ({ max, ...filter }) =>
      read('counting failed jobs', async (sql, clock) => {
        await types.refresh(sql)
        const asked = { ...filter, status: 'failed', limit: max } as const
        const { keys, nextKey } = await pageOf(sql, types.known(), asked, clock)
        // What a program of the version before has ended has its code only in the failure.
        const rows = await sql<Row[]>`
          SELECT ended.type, forward_only, ended.code, count, fault, message FROM (
            SELECT jobs.type, forward_only, count(*) AS count, max(failure) AS newest,
              coalesce(ended_with, (SELECT code FROM failures WHERE failures.seq = jobs.failure)) AS code
            FROM unnest(${numbers(keys)}::bigint[]) AS found (key) JOIN jobs ON jobs.key = found.key
            WHERE failure IS NOT NULL GROUP BY 1, 2, 5) AS ended
          JOIN failures ON failures.seq = ended.newest ORDER BY count DESC, ended.code COLLATE "C"`
        const ends = rows.map((row) => toFailedEnd(row, types.knownByKey(row.type as number) as KnownType))
        return { ends, isMore: nextKey !== null }
      }),

    events: ({ id }) =>
      read('reading events', async (sql) => {
        const rows = await sql<Row[]>`
          SELECT events.*, job_specs.id AS job_id, workers.id AS worker_id
          FROM job_specs JOIN events ON events.job = job_specs.key LEFT JOIN workers ON workers.key = events.worker
          WHERE job_specs.id = ${printable(id)}`
        return rows.map(toEvent).sort(bySeq)
      }),

    failures: ({ id }) =>
      read('reading failures', async (sql) => {
        const rows = await sql<Row[]>`
          SELECT failures.*, job_specs.id AS job_id, workers.id AS worker_id
          FROM job_specs JOIN failures ON failures.job = job_specs.key LEFT JOIN workers ON workers.key = failures.worker
          WHERE job_specs.id = ${printable(id)}`
        return rows.map(toFailure).sort(bySeq)
      }),

    counts: () =>
      read('counting jobs', async (sql) => {
        await types.refresh(sql)
        // Each part walks an index; in one statement, so that they add up.
        const rows = await sql<Row[]>`
          SELECT resting.type, status, n, coalesce(due.waiting, 0) AS waiting, 0 AS orphaned
          FROM (SELECT type, status, count(*) AS n FROM jobs WHERE lease_until IS NULL GROUP BY type, status) AS resting
            LEFT JOIN (SELECT type, count(*) AS waiting FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL
              GROUP BY type) AS due ON due.type = resting.type AND resting.status = 'queued'
          UNION ALL
          SELECT type, 'processing', count(*), 0, sum(orphaned)
          FROM (
            SELECT type, 0 AS orphaned FROM jobs WHERE lease_until IS NOT NULL AND orphaned_at IS NULL
            UNION ALL
            SELECT type, 1 FROM jobs WHERE orphaned_at IS NOT NULL AND status = 'processing') AS held
          GROUP BY type`
        if (rows.some(({ type }) => types.knownByKey(type as number) === undefined)) await types.refresh(sql)
        return toCounts(rows, (key) => types.knownByKey(key) as KnownType)
      }),
  }
}

const bySeq = (a: { seq: number }, b: { seq: number }): number => a.seq - b.seq
