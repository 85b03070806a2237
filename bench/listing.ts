import { DatabaseSync } from 'node:sqlite'
import postgres from 'postgres'
import { redress } from 'redress'
import type { Fresh, Place } from './places.ts'

/** How long a page takes in a store of a million jobs, for each filter alone and for some together. */

const JOBS = 1_000_000
const TYPES = 20
const RARE_TYPE = 'list.rare'
const ROUNDS = 21
const LONG_AGO_MS = 1_700_000_000_000

type Filters = Record<string, Record<string, string | number>>

/** What most jobs are like, and what hardly any is like: both must be found. */
const FILTERS: Filters = {
  nothing: {},
  'status queued': { status: 'queued' },
  'status processing': { status: 'processing' },
  'status complete': { status: 'complete' },
  'status failed': { status: 'failed' },
  'status cancelled': { status: 'cancelled' },
  'type, a twentieth': { type: 'list.3' },
  'type, 20 jobs': { type: RARE_TYPE },
  'queue, half of all': { queue: 'even' },
  'queue, 20 jobs': { queue: 'rare' },
  'owner, a thousandth': { owner: 'owner 7' },
  'owner, a third': { owner: 'everybody' },
  'code, most failures': { code: 'GW_5XX' },
  'code, 10 failures': { code: 'RARE' },
  'batch of 1,000': { batch: 'batch 7' },
  'since, all': { since: '2020-01-01' },
  'until, all': { until: '2040-01-01' },
  'until, the first 1,000': { until: new Date(LONG_AGO_MS + 1_000).toISOString() },
  'until, the middle': { until: new Date(LONG_AGO_MS + JOBS / 2).toISOString() },
  'made from a job': { retriedFrom: idOf(123_456) },
  'made from no job': { retriedFrom: idOf(1) },
  'since, the last 1,000': { since: new Date(LONG_AGO_MS + JOBS - 1_000).toISOString() },
  'q, an id': { q: idOf(123_456) },
  'q, the beginning of an id': { q: idOf(123_456).slice(0, 32) },
  'q, the beginning of many ids': { q: idOf(123_456).slice(0, 8) },
  'q, a dedupe key': { q: 'key 999000' },
  'q, a batch': { q: 'batch 7' },
  'q, a code': { q: 'RARE' },
  'q, an owner': { q: 'owner 7' },
  'q, a type': { q: RARE_TYPE },
  'q, nothing': { q: 'no such thing' },
  'owner and status': { owner: 'everybody', status: 'failed' },
  'type and code': { type: 'list.10', code: 'GW_5XX' },
  'type and status complete': { type: 'list.3', status: 'complete' },
  'owner, type, hardly any': { owner: 'everybody', type: RARE_TYPE },
  'owner, batch, none': { owner: 'owner 8', batch: 'batch 7' },
  'since, until, status': {
    since: new Date(LONG_AGO_MS + JOBS / 2).toISOString(),
    until: new Date(LONG_AGO_MS + JOBS / 2 + 50_000).toISOString(),
    status: 'failed',
  },
  'until, status queued, none': { until: '2020-01-01', status: 'queued' },
  'queue, status, since': { queue: 'even', status: 'failed', since: '2020-01-01' },
}

function idOf(n: number): string {
  return `01900000-0000-7000-8000-${n.toString(16).padStart(12, '0')}`
}

export async function measureListing(place: Place): Promise<void> {
  const fresh = await place.fresh()
  try {
    await fillWithJobs(fresh)
    await measure(fresh, place.title)
  } finally {
    await fresh.remove()
  }
}

/** A million jobs of many kinds. */
export async function fillWithJobs(fresh: Fresh): Promise<void> {
  await makeTypes(fresh)
  process.stderr.write(`filling with ${JOBS.toLocaleString('en-US')} jobs\n`)
  await (fresh.store.startsWith('sqlite:')
    ? fillSqlite(fresh.store.slice('sqlite:'.length))
    : fillPostgres(fresh.store))
}

async function makeTypes({ store }: Fresh): Promise<void> {
  const app = redress({ store })
  for (let i = 0; i < TYPES; i++) app.job(`list.${i}`, { queue: i % 2 === 0 ? 'even' : 'odd', run: () => undefined })
  app.job(RARE_TYPE, { queue: 'rare', run: () => undefined })
  await app.store()
  await app.stop()
}

async function measure({ store }: Fresh, title: string): Promise<void> {
  const app = redress({ store })
  console.log(`\npages of 50 among ${JOBS.toLocaleString('en-US')} jobs, median of ${ROUNDS}, ${title}\n`)
  console.log(
    `${'filter'.padEnd(32)}${'list ms'.padStart(10)}${'jobs'.padStart(6)}${'count ms'.padStart(10)}${'count'.padStart(9)}`,
  )
  for (const [name, filter] of Object.entries(FILTERS)) {
    const [listMs, { jobs, nextCursor }] = await medianMs(() => app.perform('jobs.list', filter as never))
    const [countMs, { count, isMore }] = await medianMs(() => app.perform('jobs.count', filter as never))
    const more = nextCursor === null ? ' ' : '+'
    console.log(
      `${name.padEnd(32)}${listMs.toFixed(1).padStart(10)}${`${jobs.length}${more}`.padStart(6)}` +
        `${countMs.toFixed(1).padStart(10)}${`${count}${isMore ? '+' : ' '}`.padStart(9)}`,
    )
  }
  await app.stop()
}

async function medianMs<T>(run: () => Promise<T>): Promise<[number, T]> {
  const times: number[] = []
  let answer: T | undefined
  for (let n = 0; n < ROUNDS; n++) {
    const beganMs = performance.now()
    answer = await run()
    times.push(performance.now() - beganMs)
  }
  return [times.toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)] as number, answer as T]
}

/**
 * The same jobs in both stores, in words that both understand. Of the oldest half all are complete. Of the newer half
 * 1 in 10 has failed and the newest thousands wait; 20 that run are the oldest of all, and 50 that were cancelled come after.
 */
const STATUS = `CASE WHEN n <= 20 THEN 'processing' WHEN n <= 70 THEN 'cancelled' WHEN n > ${JOBS - 5_000} THEN 'queued'
  WHEN n > ${JOBS / 2} AND n % 10 = 0 THEN 'failed' ELSE 'complete' END`
const TYPE = `CASE WHEN n % ${JOBS / 20} = 0 THEN ${TYPES + 1} ELSE n % ${TYPES} + 1 END`
const OWNER = `CASE n % 3 WHEN 0 THEN 'everybody' WHEN 1 THEN 'owner ' || (n % 1000) END`
const CODE = `CASE WHEN n % ${JOBS / 20} = 10 THEN 'RARE' ELSE 'GW_5XX' END`
const SPECS = `SELECT n, '01900000-0000-7000-8000-' || HEX, ${TYPE}, '{"n":1}', ${OWNER}, ${LONG_AGO_MS} + n,
  CASE WHEN n % 1000 = 0 THEN 'key ' || n END, CASE WHEN n % 1000 = 0 THEN 'always' END, CASE WHEN n % 1000 = 0 THEN 1 END,
  CASE WHEN n % 2 = 0 AND n <= 200000 THEN n / 2000 + 1 END,
  CASE WHEN n % 1000 = 1 THEN '${idOf(123_456)}' END FROM numbers`
const ROWS = `SELECT key, type, status, 0, created_at, CASE WHEN status = 'queued' THEN 1 END,
  CASE WHEN status = 'queued' THEN 0 ELSE 1 END, CASE WHEN status = 'processing' THEN 1 END,
  CASE WHEN status = 'processing' THEN ${LONG_AGO_MS} * 2 END, CASE WHEN status = 'processing' THEN created_at END,
  CASE WHEN status IN ('complete', 'failed', 'cancelled') THEN created_at END, 0,
  CASE WHEN status = 'failed' THEN key END, CASE status WHEN 'failed' THEN code WHEN 'cancelled' THEN '' END
  FROM (SELECT key, type, created_at, ${STATUS} AS status, ${CODE} AS code FROM (SELECT *, key AS n FROM job_specs) AS s) AS t`
const FAILURES = `SELECT failure, key, queued_at, 1, 1, 'execution', 'worker', ended_with, 'dependency', 'It went wrong.',
  'It went wrong.', 'Error: it went wrong', 'declared by the handler', '1:0123456789abcdef', 'processing', 'failed',
  '{"because":"it was the last","rule":"retry.max","budget":null,"delay":{"source":"none"}}' FROM jobs WHERE failure IS NOT NULL`
const BATCHES = `SELECT n, 'batch ' || n, 'a batch', 'partial', 'open', 0, 0, '{}', ${LONG_AGO_MS} FROM numbers WHERE n <= 101`

const [INTO_SPECS, INTO_JOBS, INTO_FAILURES, INTO_BATCHES] = [
  'job_specs (key, id, type, payload, owner, created_at, dedupe_key, dedupe_scope, dedupe_held, batch, retried_from)',
  `jobs (key, type, status, priority, queued_at, ready, attempt, worker, lease_until, claimed_at, finished_at, forward_only,
    failure, ended_with)`,
  `failures (seq, job, at, attempt, worker, stage, owner, code, fault, message, waiting, detail, rule, fingerprint,
    from_status, to_status, decision)`,
  'batches (key, id, name, rollup, state, sealed, total, data, created_at)',
]
const WORKER = `INSERT INTO workers (key, id, host, pid, started_at, seen_at) VALUES (1, 'w', 'h', 1, 1, 1)`
const SQLITE_NUMBERS = `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${JOBS})`
const POSTGRES_NUMBERS = `WITH numbers (n) AS (SELECT generate_series(1, ${JOBS})::bigint)`

function fillSqlite(path: string): void {
  const database = new DatabaseSync(path)
  database.exec(`PRAGMA synchronous = OFF; BEGIN; ${WORKER};
    ${SQLITE_NUMBERS} INSERT INTO ${INTO_SPECS} ${SPECS.replace('HEX', `format('%012x', n)`)};
    INSERT INTO ${INTO_JOBS} ${ROWS};
    INSERT INTO ${INTO_FAILURES} ${FAILURES};
    ${SQLITE_NUMBERS} INSERT INTO ${INTO_BATCHES} ${BATCHES}; COMMIT`)
  database.close()
}

async function fillPostgres(url: string): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined, connection: { search_path: 'redress' } })
  await sql.unsafe(`${WORKER};
    ${POSTGRES_NUMBERS} INSERT INTO ${INTO_SPECS} ${SPECS.replace('HEX', `lpad(to_hex(n), 12, '0')`)};
    INSERT INTO ${INTO_JOBS} ${ROWS};
    INSERT INTO ${INTO_FAILURES} ${FAILURES};
    ${POSTGRES_NUMBERS} INSERT INTO ${INTO_BATCHES} ${BATCHES}`)
  // As the server itself does before long.
  await sql.unsafe('VACUUM')
  await sql.end()
}
