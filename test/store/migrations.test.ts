import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openPool } from '../../src/store/postgres/client.ts'
import { KNOWN_VERSION, versionOf } from '../../src/store/postgres/migrate.ts'
import { openPostgres } from '../../src/store/postgres/store.ts'
import { APPLICATION_ID } from '../../src/store/sqlite/connection.ts'
import { MIGRATIONS } from '../../src/store/sqlite/schema.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import type { Store } from '../../src/store/store.ts'
import { startPostgres, type TestPostgres } from '../support/postgres.ts'
import { temporaryFolder } from '../support/sqlite.ts'

const NOW_MS = Date.UTC(2026, 0, 1)
const nowMs = () => NOW_MS

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

/** A job that waits since before the store was brought up to date says since when, and what happens is counted. */
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
  await store.addActivity({ counts: [{ agoMs: 0, type: 'old', what: 'complete', count: 2 }] })
  expect(await store.activity({ types: ['old'], sinceMs: 0 })).toEqual([
    { minuteMs: NOW_MS, what: 'complete', count: 2 },
  ])
}

const JOB = `
  INSERT INTO job_types (key, name, queue, policy, forward_only, registered_at) VALUES (1, 'old', 'default', '{}', 0, 0);
  INSERT INTO job_specs (key, id, type, payload, created_at) VALUES (1, 'one', 1, '{}', 5);
  INSERT INTO jobs (key, type, status, priority, queued_at, ready, forward_only) VALUES (1, 1, 'queued', 0, 5, 1, 0);`

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
  await (await openPostgres({ url: server.url, schema, nowMs })).stop()
  const sql = openPool({ url: server.url, schema, connectionsMax: 1 })
  onTestFinished(() => sql.end())
  await sql.unsafe(`
    DROP TABLE activity; ALTER TABLE jobs DROP COLUMN due_since, DROP COLUMN counts_from;
    ALTER TABLE job_specs DROP COLUMN retried_as; UPDATE redress_version SET version = 2; ${JOB}`)
  await expectUpToDate(await openPostgres({ url: server.url, schema, nowMs }))
  expect(await versionOf(sql)).toMatchObject({ version: KNOWN_VERSION, oldest: 1 })
})
