import { randomBytes } from 'node:crypto'
import { copyFileSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { ownDatabase, rawPostgres } from '../../../../test/support/stores/databases.ts'
import { fillStore } from '../../../../test/support/stores/full-store.ts'
import { startPostgres, type TestPostgres } from '../../../../test/support/stores/postgres.ts'
import { openRaw, temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import { copyStore } from '../../src/app/store/copy-store.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import type { PostgresFacts, SqliteFacts, StoreFacts } from '../../src/store/contract/doctor.ts'
import { openPostgresDoctor } from '../../src/store/postgres/doctor.ts'
import { openSqliteDoctor } from '../../src/store/sqlite/doctor.ts'
import { refusal } from '../operations/bench.ts'

/** What `fillStore` leaves behind, whatever it is stored in. */
const FULL = {
  types: expect.arrayContaining([
    { type: 'guarded', queue: 'default', ready: 6, oldestReadyAtMs: expect.any(Number) },
    { type: 'hang', queue: 'default', ready: 0, oldestReadyAtMs: null },
  ]),
  workers: [expect.objectContaining({ id: 'worker-1', types: expect.arrayContaining(['fine', 'letter']) })],
  orphans: { count: 0, oldestAtMs: null },
  expired: { count: 1, oldestAtMs: expect.any(Number) },
  paused: [{ queue: 'post', by: 'ann', reason: 'a test', atMs: expect.any(Number), untilMs: null }],
  breakers: [
    expect.objectContaining({ name: 'bank', status: 'closed', forcedBy: null }),
    expect.objectContaining({ name: 'gateway', status: 'open', forcedBy: null }),
  ],
  waits: [{ channel: 'nobody', notices: 3, oldestAtMs: expect.any(Number) }],
}

async function filledFile(): Promise<string> {
  const path = join(temporaryFolder(), 'redress.db')
  await fillStore(path)
  return path
}

describe('a file', () => {
  const look = async (path: string, isDeep = false): Promise<StoreFacts & { base: SqliteFacts }> =>
    (await openSqliteDoctor({ path, nowMs: systemClock.nowMs }).facts({ isDeep })) as StoreFacts & { base: SqliteFacts }

  test('is looked at as it is, and is afterwards as it was', async () => {
    const path = await filledFile()
    const before = readFileSync(path)
    const { base, jobs } = await look(path, true)
    expect(base).toMatchObject({
      isOurs: true,
      journalMode: 'wal',
      mayWriteFile: true,
      mayWriteFolder: true,
      mayLock: true,
      mode: 0o600,
      damage: [],
    })
    expect(base.version.found).toBe(base.version.known)
    expect(base.diskFreeBytes).toBeGreaterThan(0)
    expect(jobs).toMatchObject(FULL)
    expect(readFileSync(path).equals(before)).toBe(true)
  })

  test('a job that was orphaned counts until it ends', async () => {
    const path = await filledFile()
    const database = openRaw(path)
    database.exec(`UPDATE jobs SET orphaned_at = 5 WHERE status = 'processing'`)
    database.exec(`UPDATE jobs SET orphaned_at = 3 WHERE status = 'complete'`)
    expect((await look(path)).jobs).toMatchObject({ orphans: { count: 1, oldestAtMs: 5 }, expired: { count: 0 } })
  })

  test('how long its log is, and how much of it a reader keeps from being emptied', async () => {
    const path = await filledFile()
    const [reader, writer] = [openRaw(path), openRaw(path)]
    reader.exec('BEGIN; SELECT * FROM jobs')
    for (let i = 0; i < 50; i++) writer.exec(`INSERT INTO meters VALUES ('${i} ${'x'.repeat(5000)}', 1, 1)`)
    writer.exec('PRAGMA wal_checkpoint(PASSIVE)')
    const { base } = await look(path)
    expect(base.walBytes).toBe(statSync(`${path}-wal`).size)
    expect(base.walPagesPending).toBeGreaterThan(50)
  })

  test('damage is found when it is looked for', async () => {
    const path = await filledFile()
    openRaw(path).exec('PRAGMA wal_checkpoint(TRUNCATE)')
    const damaged = join(temporaryFolder(), 'damaged.db')
    copyFileSync(path, damaged)
    const bytes = readFileSync(damaged)
    // Pages in the middle; the schema at the beginning stays readable.
    for (let at = 4096 * 40; at < 4096 * 44; at += 4096) randomBytes(4096).copy(bytes, at)
    writeFileSync(damaged, bytes)
    const { base } = await look(damaged, true).catch((error: unknown) => ({ base: { damage: [String(error)] } }))
    expect(base.damage?.length).toBeGreaterThan(0)
  })

  test('another version, another program, or none at all', async () => {
    const path = await filledFile()
    openRaw(path).exec('PRAGMA user_version = 99')
    expect(await look(path)).toMatchObject({ base: { version: { found: 99 } }, jobs: null })
    const theirs = join(temporaryFolder(), 'theirs.db')
    new DatabaseSync(theirs).exec('CREATE TABLE theirs (x)')
    expect(await look(theirs)).toMatchObject({ base: { isOurs: false, journalMode: 'delete' }, jobs: null })
    expect(await refusal(look(join(temporaryFolder(), 'none.db')))).toMatchObject({ code: 'STORE_NOT_FOUND' })
  })
})

describe('a server', () => {
  let server: TestPostgres
  beforeAll(async () => {
    server = await startPostgres({ settings: ['max_prepared_transactions=5'] })
  })
  afterAll(() => server.stop())

  const look = async (url: string, nowMs = systemClock.nowMs): Promise<StoreFacts & { base: PostgresFacts }> => {
    const doctor = openPostgresDoctor({ url, nowMs })
    onTestFinished(() => doctor.stop())
    return (await doctor.facts({ isDeep: false })) as StoreFacts & { base: PostgresFacts }
  }
  const filledDatabase = async (): Promise<string> => {
    const [path, to] = [await filledFile(), await ownDatabase(server.url)]
    await copyStore({ from: `sqlite:${path}`, to, isDryRun: false, isInUseAllowed: false, clock: systemClock })
    return to
  }
  /** A user of the test's own, without any right that was not given to it. */
  const ownUser = async (url: string, name: string): Promise<string> => {
    const sql = rawPostgres(url)
    await sql.unsafe(`CREATE ROLE ${name} LOGIN`)
    onTestFinished(async () => void (await sql.unsafe(`DROP OWNED BY ${name}; DROP ROLE ${name}`)))
    const own = new URL(url)
    own.username = name
    return own.href
  }

  test('is looked at with all that is stored there', async () => {
    const { base, jobs } = await look(await filledDatabase())
    expect(base).toMatchObject({
      isStandby: false,
      settings: { synchronousCommit: 'on', fsync: 'on', fullPageWrites: 'on', autovacuum: 'on' },
      ...{ hasSchema: true, rightsMissing: [], seesOthers: true, user: 'postgres' },
      notified: { ms: expect.any(Number) },
    })
    expect(base.version.found).toBe(base.version.known)
    expect(base.serverVersion).toBeGreaterThanOrEqual(140_000)
    expect(Math.abs(base.clockAheadMs)).toBeLessThan(1000)
    expect(base.connections.max).toBeGreaterThan(base.connections.used)
    expect(base.tables.map(({ table }) => table)).toContain('jobs')
    expect(jobs).toMatchObject(FULL)
  })

  test('without a store there are no jobs, and nothing is made', async () => {
    const url = await ownDatabase(server.url)
    expect(await look(url)).toMatchObject({ base: { hasSchema: false, version: { found: 0 } }, jobs: null })
    expect(await look(url)).toMatchObject({ base: { hasSchema: false, rightsMissing: [] } })
  })

  test('a transaction that is left open, one that is prepared, and a slot that nobody uses', async () => {
    const url = await filledDatabase()
    const sql = rawPostgres(url)
    const idle = await sql.reserve()
    onTestFinished(() => idle.release())
    await idle`BEGIN ISOLATION LEVEL REPEATABLE READ`
    const [session] = await idle`SELECT pg_backend_pid()::text AS pid, count(*) FROM jobs`
    const preparing = await sql.reserve()
    await preparing`BEGIN`
    await preparing`UPDATE meters SET at = at`
    await preparing`PREPARE TRANSACTION 'left'`
    preparing.release()
    await sql`SELECT pg_create_physical_replication_slot('unused', true)`
    const { base } = await look(url)
    await sql.unsafe(`ROLLBACK PREPARED 'left'`)
    await sql`SELECT pg_drop_replication_slot('unused')`
    await idle`ROLLBACK`
    const holder = (kind: string) => base.holders.find((one) => one.kind === kind)
    expect(holder('session')).toMatchObject({
      name: session?.pid,
      what: expect.stringContaining('idle in transaction'),
      forMs: expect.any(Number),
      isActive: false,
    })
    expect(holder('prepared')).toMatchObject({ name: 'left', forMs: expect.any(Number), isActive: false })
    expect(holder('slot')).toMatchObject({ name: 'unused', isActive: false, forMs: null })
    expect((await look(url)).base.holders).toEqual([])
  })

  test('what is set for the user counts', async () => {
    const url = await filledDatabase()
    const mine = await ownUser(url, 'hasty')
    await rawPostgres(url).unsafe(`ALTER ROLE hasty SET synchronous_commit = off`)
    expect(await look(mine)).toMatchObject({ base: { settings: { synchronousCommit: 'off' } } })
  })

  test('rights that are missing are named, and the jobs are then not looked at', async () => {
    const url = await filledDatabase()
    const mine = await ownUser(url, 'poor')
    const none = await look(mine)
    expect(none).toMatchObject({ base: { user: 'poor', seesOthers: false }, jobs: null })
    expect(none.base.rightsMissing).toEqual(expect.arrayContaining(['USAGE on the schema redress', 'SELECT on jobs']))
    const sql = rawPostgres(url)
    await sql.unsafe(`
      GRANT USAGE, CREATE ON SCHEMA redress TO poor; GRANT ALL ON ALL TABLES IN SCHEMA redress TO poor;
      GRANT USAGE ON ALL SEQUENCES IN SCHEMA redress TO poor; REVOKE DELETE ON jobs FROM poor`)
    expect((await look(mine)).base.rightsMissing).toEqual(['DELETE on jobs'])
    await sql.unsafe('GRANT DELETE ON jobs TO poor')
    expect(await look(mine)).toMatchObject({ base: { rightsMissing: [] }, jobs: FULL })
    const elsewhere = new URL(await ownDatabase(server.url))
    elsewhere.username = 'poor'
    expect((await look(elsewhere.href)).base.rightsMissing).toEqual([
      expect.stringMatching(/^CREATE on the database test_/),
    ])
  })

  test('a clock that goes wrong, and a server that cannot be reached', async () => {
    const url = await ownDatabase(server.url)
    const { base } = await look(url, () => systemClock.nowMs() - 60_000)
    expect(base.clockAheadMs).toBeGreaterThan(59_000)
    expect(await refusal(look('postgres://127.0.0.1:1/none'))).toMatchObject({ code: 'STORE_UNREACHABLE' })
  })
})
