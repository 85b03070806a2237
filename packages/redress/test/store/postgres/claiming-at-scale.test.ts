import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { newJob } from '../../../../../test/support/stores/new-job.ts'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { policy } from '../../../src/core/policy/policy.ts'
import type { Lease, NewJob, Store } from '../../../src/store/contract/store.ts'
import { openPool, type Pool } from '../../../src/store/postgres/connection/client.ts'
import {
  LEASE_PICKED_SQL,
  LOOK_SQL,
  PROMOTE_SQL,
  pickSql,
  plainSql,
} from '../../../src/store/postgres/jobs/claim-sql.ts'
import { openPostgres } from '../../../src/store/postgres/store.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

const LANES = [{ type: 'limited', ttlMs: 30_000 }]

async function open(schema: string): Promise<{ store: Store; sql: Pool; worker: number }> {
  const store = await openPostgres({ url: server.url, schema, nowMs: () => 1_000 })
  const sql = openPool({ url: server.url, schema, connectionsMax: 1 })
  onTestFinished(async () => {
    await sql.end()
    await store.stop()
  })
  return { store, sql, worker: await store.enlist({ id: 'w', host: 'here', pid: 1, types: [] }) }
}

/** Ready jobs of the first declared type, all with one key. */
async function fill(sql: Pool, count: number, limitKey: string | null): Promise<void> {
  await sql`
    INSERT INTO job_specs (id, type, payload, created_at)
    SELECT 'hot-' || i, 1, '{}', 0 FROM generate_series(1, ${count}) AS i`
  await sql`
    INSERT INTO jobs (key, type, status, priority, queued_at, ready, limit_key, forward_only)
    SELECT key, 1, 'queued', 0, 0, 1, ${limitKey}, 0 FROM job_specs WHERE id LIKE 'hot-%' ORDER BY key`
}

const job = (id: string, limitKey: string | null): NewJob => newJob({ id, type: 'limited', limitKey })

/** [what it is, the statement, the types of its parameters] */
const STATEMENTS: readonly [string, string, string][] = [
  ['one lane', plainSql(1), 'bigint, bigint, bigint, bigint[], bigint[], text[], bigint, boolean'],
  ['three lanes', plainSql(3), 'bigint, bigint, bigint, bigint[], bigint[], text[], bigint, boolean'],
  [
    'two lanes from their places on',
    plainSql(2, true),
    'bigint, bigint, bigint, bigint[], bigint[], text[], bigint, boolean, bigint[], bigint[], bigint[]',
  ],
  ['a look', LOOK_SQL, 'bigint, bigint[]'],
  ['promoting', PROMOTE_SQL, 'bigint'],
  ['limited lanes', pickSql(['free', 'bounded', 'chosen']), 'bigint, bigint, bigint, bigint, bigint[]'],
  ['leasing', LEASE_PICKED_SQL, 'bigint, bigint[], bigint, bigint[], bigint[]'],
]

test('whatever the statistics say, a claim finds its rows by an index and in its order', async () => {
  const { sql } = await open('plans')
  const check = async (when: string): Promise<void> => {
    for (const [what, text, types] of STATEMENTS) {
      await sql.unsafe(`PREPARE claim (${types}) AS ${text}`)
      const nulls = types.replaceAll(/[a-z[\]]+/g, 'NULL')
      const rows = await sql.unsafe(`EXPLAIN (COSTS OFF) EXECUTE claim (${nulls})`).values()
      const plan = rows.map(([line]) => line).join('\n')
      await sql.unsafe('DEALLOCATE claim')
      const message = `${what}, ${when}:\n${plan}`
      expect(plan, message).not.toMatch(/(Seq|Bitmap \w+) Scan on (jobs|job_specs|events)/)
      // The whole index, or all of it for a column that is not its first.
      expect(plan, message).not.toMatch(/ on (jobs|job_specs)( \w+)?\n\s+(Filter|Output|->|$)/)
      expect(plan, message).not.toMatch(/using jobs_ready on jobs\w*( \w+)?\n\s+Index Cond: \(key/)
      // Only the few that were chosen by their keys are sorted, or those that lanes end after.
      const sorts = plan.match(/^\s*->\s+Sort$/gm) ?? []
      expect(sorts.length, message).toBe(['limited lanes', 'two lanes from their places on'].includes(what) ? 1 : 0)
    }
  }
  await check('new')
  await sql`VACUUM ANALYZE`
  await check('known to be empty')
  await fill(sql, 20_000, null)
  await check('known to be empty, and full')
  await sql`ANALYZE`
  await check('known to be full')
})

test('a key with a hundred thousand ready jobs in front is jumped over, not walked through', async () => {
  const { store, sql, worker } = await open('hot_key')
  await store.register({
    types: [{ name: 'limited', queue: 'default', policy: policy({ concurrency: { perKey: 2 } }) }],
  })
  const claim = async () => (await store.claim({ worker, lanes: LANES, max: 10 })).leases.map(({ id }) => id)
  // The plans are made, and kept, when there is nothing.
  await sql`VACUUM ANALYZE`
  await store.submit({ jobs: [job('first', 'a')] })
  expect(await claim()).toEqual(['first'])
  await fill(sql, 100_000, 'hot')
  await store.submit({ jobs: ['a', 'b', 'b', 'b', 'c'].map((limitKey, i) => job(`other-${i}`, limitKey)) })
  const beganMs = performance.now()
  expect(await claim()).toEqual(['hot-1', 'hot-2', 'other-0', 'other-1', 'other-2', 'other-4'])
  expect(await claim()).toEqual([])
  expect(performance.now() - beganMs).toBeLessThan(1_000)
})

test('of more keys than one claim visits, each comes to its turn', async () => {
  const { store, sql, worker } = await open('many_keys')
  await store.register({
    types: [{ name: 'limited', queue: 'default', policy: policy({ concurrency: { perKey: 1 } }) }],
  })
  await fill(sql, 3_000, 'hot')
  // The first 2,000 keys have a job under way each. Their rows come last in the table and first in the line.
  await sql.unsafe(`
    UPDATE jobs SET limit_key = 'k' || lpad((3000 - key)::text, 4, '0'), priority = (key > 1000)::int;
    INSERT INTO job_specs (id, type, payload, created_at) SELECT 'held-' || i, 1, '{}', 0 FROM generate_series(0, 1999) AS i;
    INSERT INTO jobs (key, type, status, priority, queued_at, limit_key, forward_only, attempt, worker, lease_until, claimed_at)
      SELECT key, 1, 'processing', 0, 0, 'k' || lpad(substr(id, 6), 4, '0'), 0, 1, ${worker}, 9000000000, 0
      FROM job_specs WHERE id LIKE 'held-%'`)
  await sql`VACUUM ANALYZE`
  const claimed: string[] = []
  for (let i = 0; i < 60; i++) {
    const { leases } = await store.claim({ worker, lanes: LANES, max: 100 })
    claimed.push(...leases.map(({ id }) => id))
  }
  expect(new Set(claimed).size).toBe(1_000)
  expect(claimed.length).toBe(1_000)
})

test('while a transaction stands open for long, every job is claimed once, and what is urgent at once', async () => {
  const { store, sql, worker } = await open('horizon')
  await store.register({ types: [{ name: 'limited', queue: 'default', policy: policy() }] })
  await fill(sql, 40_000, null)
  const other = openPool({ url: server.url, schema: 'horizon', connectionsMax: 1 })
  onTestFinished(() => other.end())
  const forgotten = await other.reserve()
  await forgotten`BEGIN ISOLATION LEVEL REPEATABLE READ`
  await forgotten`SELECT count(*) FROM jobs`

  const claim = async (max: number) => (await store.claim({ worker, lanes: LANES, max })).leases
  const taken: string[] = []
  while (taken.length < 39_000) {
    const leases = await claim(1_000)
    taken.push(...leases.map(({ id }) => id))
    if (taken.length !== 30_000) continue
    // What is urgent is found at once, wherever claims go on; and nobody who came back is forgotten.
    const [back] = leases as [(typeof leases)[0]]
    const requeue = { to: 'queued', cause: 'released', delayMs: 0, spent: null, failure: null, note: null } as const
    await store.close({ worker, closes: [{ ...back, change: requeue, ranMs: null }] })
    taken.splice(taken.indexOf(back.id), 1)
    await store.submit({ jobs: [{ ...job('urgent', null), priority: 1 }] })
    expect((await claim(1)).map(({ id }) => id)).toEqual(['urgent'])
  }
  for (let rest = await claim(1_000); rest.length > 0; rest = await claim(1_000))
    taken.push(...rest.map(({ id }) => id))
  expect(new Set(taken).size).toBe(40_000)
  expect(taken.length).toBe(40_000)

  await forgotten`COMMIT`
  forgotten.release()
})

test.each([
  ['is refused', `RAISE EXCEPTION 'refused'`],
  ['loses its connection', 'PERFORM pg_terminate_backend(pg_backend_pid())'],
])('a claim whose second statement %s answers with the leases of its first', async (what, body) => {
  const { store, sql, worker } = await open(`second_${what.slice(0, 2).trim()}`)
  await store.register({ types: [{ name: 'limited', queue: 'default', policy: policy() }] })
  await fill(sql, 11_500, null)
  const forgotten = await sql.reserve()
  await forgotten`BEGIN ISOLATION LEVEL REPEATABLE READ`
  await forgotten`SELECT count(*) FROM jobs`
  // Claims go on behind the place that was reached for as long as the time stands still.
  vi.spyOn(performance, 'now').mockReturnValue(performance.now())
  onTestFinished(() => void vi.restoreAllMocks())
  const claim = async (max: number) => (await store.claim({ worker, lanes: LANES, max })).leases
  const [back] = (await claim(11_000)) as [Lease]
  await claim(1)
  const requeue = { to: 'queued', cause: 'released', delayMs: 0, spent: null, failure: null, note: null } as const
  await store.close({ worker, closes: [{ ...back, change: requeue, ranMs: null }] })
  await forgotten`COMMIT`
  forgotten.release()
  await sql.unsafe(`
    UPDATE jobs SET queued_at = 0 WHERE key = ${back.key};
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body}; RETURN NEW; END $$;
    CREATE TRIGGER refusing BEFORE UPDATE ON jobs FOR EACH ROW WHEN (NEW.key = ${back.key}) EXECUTE FUNCTION refuse()`)
  const leases = await claim(1_000)
  expect(leases).toHaveLength(499)
  expect(leases.map(({ key }) => key)).not.toContain(back.key)
  await sql.unsafe('DROP TRIGGER refusing ON jobs')
  expect((await claim(1_000)).map(({ key }) => key)).toEqual([back.key])
})
