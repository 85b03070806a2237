import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { newJob } from '../../../../test/support/stores/new-job.ts'
import { startPostgres, type TestPostgres } from '../../../../test/support/stores/postgres.ts'
import { temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import { policy } from '../../src/core/policy/policy.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { openPool } from '../../src/store/postgres/connection/client.ts'
import { KNOWN_VERSION, versionOf } from '../../src/store/postgres/schema/migrate.ts'
import { MIGRATIONS as POSTGRES_MIGRATIONS } from '../../src/store/postgres/schema/schema.ts'
import { openPostgres } from '../../src/store/postgres/store.ts'
import { APPLICATION_ID } from '../../src/store/sqlite/connection/connection.ts'
import { MIGRATIONS } from '../../src/store/sqlite/schema/schema.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'

const NOW_MS = Date.UTC(2026, 0, 1)
const nowMs = () => NOW_MS

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

/**
 * A job that waits since before the store was brought up to date says since when, and what happens is counted. A schedule
 * from then is one of the code, and due at its tick.
 */
async function expectUpToDate(store: Store): Promise<void> {
  onTestFinished(() => store.stop())
  const worker = await store.enlist({ id: 'w', host: 'h', pid: 1, types: [] })
  const claim = async () => (await store.claim({ worker, lanes: [{ type: 'old', ttlMs: 1_000 }], max: 1 })).leases[0]
  const lease = await claim()
  expect(lease).toMatchObject({ id: 'one', queuedAtMs: 5, dueSinceMs: 5 })
  const { key = 0, attempt = 0 } = lease ?? {}
  const change = { to: 'queued', cause: 'released', delayMs: 0, spent: null, failure: null, note: null } as const
  expect(await store.close({ worker, closes: [{ key, attempt, change, ranMs: null }] })).toEqual(['closed'])
  expect(await claim()).toMatchObject({ queuedAtMs: 5, dueSinceMs: NOW_MS })
  const { due } = await store.dueSchedules({ declared: ['nightly'], limit: 10 })
  expect(due).toMatchObject([{ name: 'nightly', origin: 'code', cron: '@daily', everyMs: null, nextAtMs: 7 }])
  expect((await store.dueSchedules({ declared: [], limit: 10 })).due).toEqual([])
  await store.addActivity({ counts: [{ agoMs: 0, type: 'old', what: 'complete', count: 2 }] })
  expect(await store.activity({ types: ['old'], sinceMs: 0 })).toEqual([
    { minuteMs: NOW_MS, what: 'complete', count: 2 },
  ])
}

const JOB = `
  INSERT INTO job_types (key, name, queue, policy, forward_only, registered_at) VALUES (1, 'old', 'default', '{}', 0, 0);
  INSERT INTO job_specs (key, id, type, payload, created_at) VALUES (1, 'one', 1, '{}', 5);
  INSERT INTO jobs (key, type, status, priority, queued_at, ready, forward_only) VALUES (1, 1, 'queued', 0, 5, 1, 0);
  INSERT INTO schedules (name, revision, type, payload, cron, timezone, missed, priority, next_at, declared_at, seen_at)
    VALUES ('nightly', 1, 'old', '{}', '@daily', 'UTC', 'once', 0, 7, 5, 5);`

test('a file from before activity was counted is brought up to date', async () => {
  const path = join(temporaryFolder(), 'redress.db')
  const old = new DatabaseSync(path)
  for (const migration of MIGRATIONS.slice(0, 3)) old.exec(migration)
  old.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = 3; ${JOB}`)
  old.close()
  await expectUpToDate(openSqlite({ path, nowMs }))
})

test('a schema from before activity was counted is brought up to date, and older programs may go on with it', async () => {
  const schema = 'before_activity'
  const sql = openPool({ url: server.url, schema, connectionsMax: 1 })
  onTestFinished(() => sql.end())
  await sql`CREATE SCHEMA ${sql(schema)}`
  for (const { sql: migration } of POSTGRES_MIGRATIONS.slice(0, 2)) await sql.unsafe(migration)
  await sql.unsafe(`
    CREATE TABLE redress_version (version int NOT NULL, oldest int NOT NULL, store uuid NOT NULL DEFAULT gen_random_uuid());
    INSERT INTO redress_version (version, oldest) VALUES (2, 1); ${JOB}`)
  await expectUpToDate(await openPostgres({ url: server.url, schema, nowMs }))
  expect(await versionOf(sql)).toMatchObject({ version: KNOWN_VERSION, oldest: 1 })
})

/** The fields of a policy that the first version knows. It refuses any other field. */
const FIRST_FIELDS = `
  retry.max retry.perCode retry.backoff retry.unknown retry.budget retry.retryAfterMsMax manualRetry.mode manualRetry.budget
  orphan.action orphan.budget orphan.maxReclaims lease.ttlMs lease.startTimeoutMs timeout.attemptMs timeout.totalMs
  deadLetter reject audit errors aggregates cancel deny forwardOnly retention.completeMs retention.failedMs
  retention.cancelledMs retention.deadLettersMs breaker concurrency.max concurrency.perKey rate backlog.max rollup
  notify.failed notify.orphaned notify.settled notify.windowMs locked shutdown`.split(/\s+/)

test('a policy is stored in the fields that a program of the version before reads', async () => {
  const schema = 'beside_older'
  const store = await openPostgres({ url: server.url, schema, nowMs })
  const sql = openPool({ url: server.url, schema, connectionsMax: 1 })
  onTestFinished(async () => {
    await store.stop()
    await sql.end()
  })
  const declared = policy({ orphan: { action: 'requeue', stuckAfter: '30m' } })
  await store.register({ types: [{ name: 'new', queue: 'default', policy: declared }] })
  const [row] = await sql<{ policy: string }[]>`SELECT policy FROM job_types`
  const stored = JSON.parse(row?.policy ?? '')
  const isSection = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value)
  const fields = Object.entries(stored).flatMap(([name, value]) =>
    isSection(value) ? Object.keys(value as object).map((field) => `${name}.${field}`) : [name],
  )
  expect(fields.filter((field) => !FIRST_FIELDS.includes(field))).toEqual([])
})

test('the total time of a job counts from its retry by a program of the version before', async () => {
  const schema = 'retried_by_older'
  const store = await openPostgres({ url: server.url, schema, nowMs })
  const sql = openPool({ url: server.url, schema, connectionsMax: 1 })
  onTestFinished(async () => {
    await store.stop()
    await sql.end()
  })
  await sql.unsafe(JOB)
  await sql`UPDATE jobs SET counts_from = 10, queued_at = 70`
  expect((await store.job({ id: 'one' }))?.queuedAtMs).toBe(70)
  const worker = await store.enlist({ id: 'w', host: 'h', pid: 1, types: [] })
  const { leases } = await store.claim({ worker, lanes: [{ type: 'old', ttlMs: 0 }], max: 1 })
  expect(leases).toMatchObject([{ id: 'one', queuedAtMs: 70 }])
  expect(await store.stalled({ unstartedForMs: 0, limit: 1 })).toMatchObject([{ queuedAtMs: 70 }])
})

/** A claim as the version before wrote it: an event of its own, and nothing about it in the row. */
const OLD_CLAIM = `
  UPDATE jobs SET status = 'processing', ready = NULL, due_at = NULL, attempt = 2, worker = 1, lease_until = ${NOW_MS + 9},
    claimed_at = ${NOW_MS + 5} WHERE key = 1;
  INSERT INTO events (job, at, kind, attempt, worker) VALUES (1, ${NOW_MS + 5}, 'processing', 2, 1);`

test('a claim of a program of the version before is told once, also after an attempt of this version', async () => {
  const path = join(temporaryFolder(), 'redress.db')
  let atMs = NOW_MS
  const store = openSqlite({ path, nowMs: () => atMs })
  onTestFinished(() => store.stop())
  await store.register({ types: [{ name: 'old', queue: 'default', policy: policy() }] })
  await store.submit({ jobs: [newJob({ id: 'one', type: 'old' })] })
  const worker = await store.enlist({ id: 'w', host: 'h', pid: 1, types: [] })
  const [lease] = (await store.claim({ worker, lanes: [{ type: 'old', ttlMs: 1_000 }], max: 1 })).leases
  const { key = 0 } = lease ?? {}
  const released = { to: 'queued', cause: 'released', delayMs: 0, spent: null, failure: null, note: null } as const
  await store.close({ worker, closes: [{ key, attempt: 1, change: released, ranMs: null }] })
  const old = new DatabaseSync(path)
  old.exec(OLD_CLAIM)
  old.close()
  const kinds = async () => (await store.events({ id: 'one' })).map(({ kind, attempt }) => `${kind} ${attempt}`)
  const before = ['queued 0', 'processing 1', 'released 1', 'processing 2']
  expect(await kinds()).toEqual(before)
  atMs += 100
  const change = { ...released, cause: 'reclaimed' } as const
  expect(await store.reclaim({ reclaims: [{ key, attempt: 2, expect: 'expired', change }] })).toEqual(['closed'])
  expect(await kinds()).toEqual([...before, 'reclaimed 2'])
})
