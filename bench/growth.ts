import postgres from 'postgres'
import { BENCH_TYPE, drain, openBench, submitBulk } from './measures.ts'
import type { Fresh, Place } from './places.ts'

/** What a drain may be slowed down by: rows that are done, rows that wait, and dead rows that cannot be removed. */
export const GROWTHS = ['empty', 'history', 'backlog', 'horizon'] as const
export type Growth = (typeof GROWTHS)[number]

export const GROWTH_TEXTS: Readonly<Record<Growth, string>> = {
  empty: 'in an empty store',
  history: 'with a million finished jobs',
  backlog: 'with a million jobs behind',
  horizon: 'while a transaction stands idle',
}

const ROWS = 1_000_000

/** Jobs per second of a drain under each of them, `rounds` times in turns. */
export async function measureGrowth(
  place: Place,
  jobs: number,
  rounds: number,
  note: (growth: Growth, perSecond: number) => void,
): Promise<void> {
  const filled = new Map<Growth, Fresh>()
  try {
    for (const growth of ['history', 'backlog'] as const) {
      process.stderr.write(`filling: ${GROWTH_TEXTS[growth]}\n`)
      const fresh = await place.fresh()
      filled.set(growth, fresh)
      await fill(fresh.store, growth)
    }
    for (let round = 0; round < rounds; round++) {
      process.stderr.write(`growth, round ${round + 1} of ${rounds}\n`)
      for (const growth of GROWTHS) {
        const { store, remove } = filled.get(growth) ?? (await place.fresh())
        note(growth, await drainIn(store, jobs, growth === 'horizon'))
        if (!filled.has(growth)) await remove()
      }
    }
  } finally {
    for (const { remove } of filled.values()) await remove()
  }
}

async function drainIn(store: string, jobs: number, isHeld: boolean): Promise<number> {
  const { app, type } = await openBench(store)
  const release = isHeld ? await holdHorizon(store) : null
  // Ahead of whatever is there.
  await submitBulk(type, jobs, 1)
  const perSecond = await drain(app, jobs)
  await app.stop()
  await release?.()
  return perSecond
}

/** As a forgotten session does: nothing that dies from now on can be removed. */
async function holdHorizon(store: string): Promise<() => Promise<void>> {
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

/** A million jobs of the type that is measured, with the events that their lives would have left. */
async function fill(store: string, growth: 'history' | 'backlog'): Promise<void> {
  const { app } = await openBench(store)
  await app.stop()
  const sql = connect(store)
  const isDone = growth === 'history'
  const [row] = await sql`SELECT key, redress_now() AS now FROM job_types WHERE name = ${BENCH_TYPE}`
  const [type, now] = [Number(row?.key), Number(row?.now)]
  await sql`
    INSERT INTO job_specs (key, id, type, payload, created_at)
    SELECT n, gen_random_uuid()::text, ${type}::bigint, '{"n":' || n || '}', ${now}::bigint
    FROM generate_series(1, ${ROWS}::bigint) AS n`
  await sql`SELECT setval('job_specs_key_seq', ${ROWS}::bigint)`
  await sql`
    INSERT INTO jobs (key, type, status, priority, queued_at, ready, attempt, claimed_at, started_at, finished_at,
      forward_only)
    SELECT n, ${type}::bigint, ${isDone ? 'complete' : 'queued'}, 0, ${now}::bigint, ${isDone ? null : 1}::bigint,
      ${isDone ? 1 : 0}::bigint, ${isDone ? now : null}::bigint, ${isDone ? now : null}::bigint,
      ${isDone ? now : null}::bigint, 0
    FROM generate_series(1, ${ROWS}::bigint) AS n`
  for (const kind of isDone ? ['queued', 'processing', 'complete'] : ['queued']) {
    await sql`
      INSERT INTO events (job, at, kind, attempt, worker, duration_ms)
      SELECT n, ${now}::bigint, ${kind}, ${kind === 'queued' ? 0 : 1}::bigint, ${kind === 'queued' ? null : 1}::bigint,
        ${kind === 'complete' ? 0 : null}::bigint
      FROM generate_series(1, ${ROWS}::bigint) AS n`
  }
  await sql.end()
}

function connect(store: string) {
  return postgres(store, { max: 1, onnotice: () => undefined, connection: { search_path: 'redress' } })
}
