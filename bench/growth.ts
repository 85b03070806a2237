import { DatabaseSync } from 'node:sqlite'
import postgres from 'postgres'
import { type App, redress } from 'redress'
import { BENCH_TYPE, drain, openBench, submitBulk } from './measures.ts'
import type { Fresh, Place } from './places.ts'

/** What can slow a drain down: finished rows, waiting rows, dead rows that cannot be removed, many queues, many limits. */
export const GROWTHS = ['empty', 'history', 'backlog', 'horizon', 'queues', 'few keys', 'keys'] as const
export type Growth = (typeof GROWTHS)[number]

export interface GrowthOptions {
  jobs: number
  rounds: number
  /** Finished or waiting jobs in a store that has grown. */
  rows: number
  /** Queues, and limit keys. */
  spread: number
}

const FEW_KEYS = 10

export const growthText = (growth: Growth, { rows, spread }: GrowthOptions): string =>
  ({
    empty: 'in an empty store',
    history: `with ${rows.toLocaleString('en-US')} finished jobs`,
    backlog: `with ${rows.toLocaleString('en-US')} jobs behind`,
    horizon: 'while a transaction stands idle',
    queues: `in ${spread.toLocaleString('en-US')} queues`,
    'few keys': `limited by ${FEW_KEYS} keys`,
    keys: `limited by ${spread.toLocaleString('en-US')} keys`,
  })[growth]

/** What a growth is compared with: a limited job is never claimed ahead, so few keys are the measure of many. */
export const baseOf = (growth: Growth): Growth => (growth === 'keys' ? 'few keys' : 'empty')

/** Jobs per second of a drain under each of them, in turns. */
export async function measureGrowth(
  place: Place,
  options: GrowthOptions,
  note: (growth: Growth, perSecond: number) => void,
): Promise<void> {
  const filled = new Map<Growth, Fresh>()
  try {
    for (const growth of ['history', 'backlog'] as const) {
      process.stderr.write(`filling: ${growthText(growth, options)}\n`)
      const fresh = await place.fresh()
      filled.set(growth, fresh)
      await fill(fresh.store, growth, options.rows)
    }
    for (let round = 0; round < options.rounds; round++) {
      process.stderr.write(`growth, round ${round + 1} of ${options.rounds}\n`)
      for (const growth of GROWTHS) {
        const { store, remove } = filled.get(growth) ?? (await place.fresh())
        note(growth, await drainIn(store, growth, options))
        if (!filled.has(growth)) await remove()
      }
    }
  } finally {
    for (const { remove } of filled.values()) await remove()
  }
}

async function drainIn(store: string, growth: Growth, { jobs, spread }: GrowthOptions): Promise<number> {
  const release = growth === 'horizon' ? await holdHorizon(store) : null
  const app = await submitted(store, growth, jobs, spread)
  const perSecond = await drain(app, jobs)
  await app.stop()
  await release?.()
  return perSecond
}

/** An app whose jobs wait, ahead of whatever was there. */
async function submitted(store: string, growth: Growth, jobs: number, spread: number): Promise<App> {
  if (growth === 'queues') return submittedToQueues(store, jobs, spread)
  if (growth === 'keys') return submittedWithKeys(store, jobs, spread)
  if (growth === 'few keys') return submittedWithKeys(store, jobs, FEW_KEYS)
  const { app, type } = await openBench(store)
  await submitBulk(type, jobs, 1)
  return app
}

/** One type per queue, and the jobs spread evenly over them. */
async function submittedToQueues(store: string, jobs: number, queues: number): Promise<App> {
  const app = redress({ store, log: false })
  const types = Array.from({ length: queues }, (_, n) =>
    app.job<{ n: number }>(`bench.queue.${n}`, {
      queue: `bench ${n}`,
      policy: { orphan: 'requeue' },
      run: () => undefined,
    }),
  )
  await app.store()
  await Promise.all(
    types.map((type, at) =>
      type.submitMany(Array.from({ length: Math.floor((jobs + at) / queues) }, (_, n) => ({ n }))),
    ),
  )
  return app
}

async function submittedWithKeys(store: string, jobs: number, keys: number): Promise<App> {
  const app = redress({ store, log: false })
  const type = app.job<{ n: number }>('bench.keys', {
    policy: { orphan: 'requeue', concurrency: { perKey: 5 } },
    limitKey: ({ n }) => `key ${n % keys}`,
    run: () => undefined,
  })
  await app.store()
  await submitBulk(type, jobs)
  return app
}

/** As a forgotten session does: PostgreSQL can remove no row that dies from now on, and SQLite cannot restart its log. */
async function holdHorizon(store: string): Promise<() => Promise<void>> {
  const { app } = await openBench(store)
  await app.stop()
  if (isSqlite(store)) {
    const database = new DatabaseSync(pathOf(store))
    database.exec('BEGIN')
    database.prepare('SELECT count(*) FROM job_types').get()
    return async () => {
      database.exec('COMMIT')
      database.close()
    }
  }
  const sql = connect(store)
  const session = await sql.reserve()
  await session`BEGIN ISOLATION LEVEL REPEATABLE READ`
  await session`SELECT count(*) FROM job_types`
  return async () => {
    await session`COMMIT`
    session.release()
    await sql.end()
  }
}

/** Jobs of the type that is measured, with the events that their lives would have left. */
async function fill(store: string, growth: 'history' | 'backlog', rows: number): Promise<void> {
  const { app } = await openBench(store)
  await app.stop()
  if (isSqlite(store)) {
    const database = new DatabaseSync(pathOf(store))
    const row = database.prepare('SELECT key FROM job_types WHERE name = ?').get(BENCH_TYPE)
    const numbers = `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${rows})`
    database.exec('PRAGMA synchronous = OFF; BEGIN')
    for (const insert of fillingInserts(growth, Number(row?.key), "format('%012x', n)")) {
      database.exec(`${numbers} ${insert}`)
    }
    database.exec('COMMIT')
    database.close()
    return
  }
  const sql = connect(store)
  const [row] = await sql`SELECT key FROM job_types WHERE name = ${BENCH_TYPE}`
  for (const insert of fillingInserts(growth, Number(row?.key), "lpad(to_hex(n), 12, '0')")) {
    await sql.unsafe(`WITH numbers (n) AS (SELECT generate_series(1, ${rows})::bigint) ${insert}`)
  }
  await sql`SELECT setval('job_specs_key_seq', ${rows}::bigint)`
  await sql.end()
}

/** In words that both stores understand. `hex`: the number of a job as 12 hexadecimal digits. */
function fillingInserts(growth: 'history' | 'backlog', type: number, hex: string): string[] {
  const [isDone, now] = [growth === 'history', Date.now()]
  const whenDone = (value: number | string): number | string => (isDone ? value : 'NULL')
  const kinds = isDone ? ['queued', 'processing', 'complete'] : ['queued']
  return [
    `INSERT INTO job_specs (key, id, type, payload, created_at)
     SELECT n, '01900000-0000-7000-8000-' || ${hex}, ${type}, '{"n":' || n || '}', ${now} FROM numbers`,
    `INSERT INTO jobs (key, type, status, priority, queued_at, ready, attempt, claimed_at, started_at, finished_at, forward_only)
     SELECT n, ${type}, '${isDone ? 'complete' : 'queued'}', 0, ${now}, ${isDone ? 'NULL' : 1}, ${isDone ? 1 : 0},
       ${whenDone(now)}, ${whenDone(now)}, ${whenDone(now)}, 0 FROM numbers`,
    ...kinds.map(
      (kind) => `INSERT INTO events (job, at, kind, attempt, worker, duration_ms)
        SELECT n, ${now}, '${kind}', ${kind === 'queued' ? '0, NULL' : '1, 1'}, ${kind === 'complete' ? 0 : 'NULL'} FROM numbers`,
    ),
  ]
}

const isSqlite = (store: string): boolean => store.startsWith('sqlite:')
const pathOf = (store: string): string => store.slice('sqlite:'.length)

function connect(store: string) {
  return postgres(store, { max: 1, onnotice: () => undefined, connection: { search_path: 'redress' } })
}
