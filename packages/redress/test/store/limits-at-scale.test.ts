import { expect, test } from 'vitest'
import { openWithConnection } from '../../../../test/support/stores/sqlite.ts'
import { policy } from '../../src/core/policy/policy.ts'
import { Bench } from '../../src/store/conformance/index.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { waitingSql } from '../../src/store/scripts/limits/backlog.ts'
import { limitSql } from '../../src/store/scripts/limits/gates.ts'
import { keySql } from '../../src/store/scripts/limits/limit-keys.ts'
import { OLDEST_READY_SQL } from '../../src/store/scripts/limits/queues.ts'
import { openTx } from '../../src/store/sqlite/connection/tx.ts'

const LANES = [{ type: 'limited', ttlMs: 30_000 }]
const HOT = 100_000

/** A store in memory with as many ready jobs of one key as asked for, and what SQLite says about a statement on it. */
async function crowded(hot: number) {
  const { database, store } = openWithConnection({ path: ':memory:', nowMs: () => 1_000 })
  await store.register({
    types: [{ name: 'limited', queue: 'default', policy: policy({ concurrency: { perKey: 2 } }) }],
  })
  database.exec(`
    INSERT INTO job_specs (id, type, payload, created_at)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${hot})
    SELECT 'hot-' || i, 1, '{}', 0 FROM n;
    INSERT INTO jobs (key, type, status, priority, queued_at, ready, limit_key, forward_only)
    SELECT key, 1, 'queued', 0, 0, 1, 'hot', 0 FROM job_specs;`)
  const planOf = (sql: string): string =>
    (database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[]).map(({ detail }) => detail).join('\n')
  return { database, store, planOf }
}

test('a key with a hundred thousand ready jobs in front is jumped over, not walked through', async () => {
  const { store, planOf } = await crowded(HOT)
  const worker = await store.enlist({ id: 'w', host: 'here', pid: 1, types: [] })
  const jobs = ['a', 'b', 'a', 'a', 'c'].map((limitKey, i) => ({ ...job(`other-${i}`), limitKey }))
  await store.submit({ jobs })
  const claim = async () => (await store.claim({ worker, lanes: LANES, max: 10 })).leases.map(({ id }) => id)
  expect(await claim()).toEqual(['hot-1', 'hot-2', 'other-0', 'other-1', 'other-2', 'other-4'])
  expect(await claim()).toEqual([])

  // From one key to the next, each by a search in the index that the jobs of one key are beside each other in.
  const plan = planOf(keySql.firstOfEach(1, '', 1_000).text)
  expect(plan).toMatch(/SEARCH jobs USING INDEX jobs_limited_ready \(type=\? AND limit_key>\?\)/)
  expect(plan).toMatch(/SEARCH next USING INDEX jobs_limited_ready \(type=\? AND limit_key>\?\)/)
  expect(plan).not.toMatch(/SCAN jobs|SCAN next|TEMP B-TREE/)
})

test('whatever a limit asks is answered by a search in an index, in its order', async () => {
  const { database, planOf } = await crowded(10)
  const index = (sql: string): string | undefined =>
    /(?:jobs|next) USING (?:COVERING )?INDEX (\w+)/.exec(planOf(sql))?.[1]
  const { ready, due } = waitingSql(1, 10)
  const backlog = { ready: ready.text, waiting: due.text }
  const tx = openTx({ database, prepare: database.prepare.bind(database) }, { nowMs: () => 1_000 })
  const asked = {
    head: keySql.head(1, 10).text,
    firstOfEach: keySql.firstOfEach(1, '', 10).text,
    ofKey: keySql.ofKey(1, 'hot', 10).text,
    unkeyed: keySql.unkeyed(1, 10).text,
    underWay: limitSql.underWay(1, 10).text,
    underWayByKey: limitSql.underWayByKey(tx, 1, ['hot', 'cold']).text,
    ...backlog,
    oldestReady: OLDEST_READY_SQL.text,
  }
  expect(Object.fromEntries(Object.entries(asked).map(([name, sql]) => [name, index(sql)]))).toEqual({
    head: 'jobs_ready',
    firstOfEach: 'jobs_limited_ready',
    ofKey: 'jobs_limited_ready',
    underWay: 'jobs_limited_running',
    underWayByKey: 'jobs_limited_running',
    ready: 'jobs_ready',
    unkeyed: 'jobs_ready',
    waiting: 'jobs_limited_waiting',
    oldestReady: 'jobs_ready',
  })
  for (const sql of Object.values(asked)) expect(planOf(sql)).not.toMatch(/SCAN (jobs|next)|TEMP B-TREE/)
})

test('of more keys than one claim goes through, each comes to its turn', async () => {
  const { store, database } = await crowded(3_000)
  const worker = await store.enlist({ id: 'w', host: 'here', pid: 1, types: [] })
  // Every key but the last has used up what it may have under way.
  database.exec(`
    UPDATE jobs SET limit_key = 'k' || printf('%04d', key % 1500);
    UPDATE jobs SET status = 'processing', ready = NULL, attempt = 1, worker = 1, lease_until = 9e9, claimed_at = 0
      WHERE key <= 1000;`)
  await store.register({
    types: [{ name: 'limited', queue: 'default', policy: policy({ concurrency: { perKey: 1 } }) }],
  })
  const claimed = new Set<string>()
  for (let i = 0; i < 40; i++) {
    const { leases } = await store.claim({ worker, lanes: LANES, max: 20 })
    for (const { id } of leases) claimed.add(id)
  }
  // Keys 1 to 1000 are under way; 500 others have two jobs each, of which one may go.
  expect(claimed.size).toBe(500)
})

test('a type that becomes limited has given all its older jobs a key when its declaration is done', async () => {
  const { store, database } = await crowded(4_500)
  database.exec('UPDATE jobs SET limit_key = NULL')
  const declare = (parts: Parameters<typeof policy>[0]) =>
    store.register({ types: [{ name: 'limited', queue: 'default', policy: policy(parts) }] })
  await declare({})
  await declare({ concurrency: { perKey: 2 } })
  const count = (from: string) => database.prepare(`SELECT count(*) AS n FROM ${from}`).get()
  expect(count('jobs WHERE limit_key IS NULL')).toEqual({ n: 0 })
  expect(count(`cursors WHERE name LIKE 'limiting %'`)).toEqual({ n: 0 })
})

test('a job that has no limit key yet is found although one key blocks the head of the queue', async () => {
  const { store, database } = await crowded(3_000)
  const worker = await store.enlist({ id: 'w', host: 'here', pid: 1, types: [] })
  // A process that was giving keys to older jobs was killed, and two of the jobs of the one key are under way.
  database.exec(`
    UPDATE jobs SET limit_key = NULL WHERE key = 3000;
    INSERT INTO cursors (name, position) VALUES ('limiting 1', 2000);
    UPDATE jobs SET status = 'processing', ready = NULL, attempt = 1, worker = 1, lease_until = 9e9, claimed_at = 0
      WHERE key <= 2;`)
  const { leases } = await store.claim({ worker, lanes: LANES, max: 10 })
  expect(leases.map(({ key }) => key)).toEqual([3_000])
})

test('the order of keys in the walk does not matter to their jobs: none is handed out twice', async () => {
  const bench = await Bench.set(({ nowMs }) => openWithConnection({ path: ':memory:', nowMs }).store, 'one')
  await bench.declare('limited', policy({ concurrency: { perKey: 1 } }))
  const keys = Array.from({ length: 1_200 }, (_, i) => (i % 2 === 0 ? `\u{1F600}${i}` : `￿${i}`))
  await bench.store.submit({
    jobs: [
      ...Array.from({ length: 300 }, () => bench.newJob({ type: 'limited', limitKey: 'hot', priority: 9 })),
      ...keys.map((limitKey) => bench.newJob({ type: 'limited', limitKey })),
    ],
  })
  const worker = await bench.worker()
  const handedOut: string[] = []
  for (let i = 0; i < 80; i++) {
    handedOut.push(...(await worker.claim({ max: 16, lanes: LANES })).leases.map(({ id }) => id))
  }
  expect(new Set(handedOut).size).toBe(handedOut.length)
  expect(handedOut.length).toBe(1_201)
})

function job(id: string): Parameters<Store['submit']>[0]['jobs'][number] {
  return {
    ...{ id, type: 'limited', payload: '{}', owner: null, priority: 0, delayMs: 0, dedupe: null },
    ...{ retriedFrom: null, rejected: null, batch: null, limitKey: null },
  }
}
