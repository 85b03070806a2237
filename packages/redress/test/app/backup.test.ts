import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { ownDatabase } from '../../../../test/support/stores/databases.ts'
import { fillStore } from '../../../../test/support/stores/full-store.ts'
import { startPostgres, type TestPostgres } from '../../../../test/support/stores/postgres.ts'
import { smallDisk } from '../../../../test/support/stores/small-disk.ts'
import { openRaw, temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import { App } from '../../src/app/app.ts'
import { backupStore, restoreStore } from '../../src/app/store/copy-store.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { checkJob } from '../../src/store/conformance/bench/checks.ts'
import { COPIED_TABLES } from '../../src/store/contract/copying.ts'
import { openSqliteDoctor } from '../../src/store/sqlite/doctor.ts'
import { MIGRATIONS } from '../../src/store/sqlite/schema/schema.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { refusal } from '../operations/bench.ts'

const BY = { actor: 'rita', reason: 'a disk died' }

let prepared: string
beforeAll(async () => {
  prepared = join(mkdtempSync(join(tmpdir(), 'redress-backup-')), 'redress.db')
  await fillStore(prepared)
})
afterAll(() => rmSync(dirname(prepared), { recursive: true }))

/** Not the one that others use: a store of the test's own. */
function filledFile(): string {
  const path = join(temporaryFolder(), 'redress.db')
  copyFileSync(prepared, path)
  return path
}

const backUp = (store: string, file: string, mayReplace = false) =>
  backupStore({ from: store, file, mayReplace, clock: systemClock, onProgress: () => undefined })

const restore = (file: string, path: string, options: { isForced?: boolean; isPaused?: boolean } = {}) =>
  restoreStore({
    ...{ file, to: `sqlite:${path}`, isForced: false, isPaused: false, by: BY, clock: systemClock },
    ...{ onPages: () => undefined, ...options },
  })

const rowsOf = (path: string, table: string): unknown[] => {
  const database = new DatabaseSync(path, { readOnly: true })
  try {
    return database.prepare(`SELECT * FROM ${table} ORDER BY 1, 2`).all()
  } finally {
    database.close()
  }
}

const countOf = (path: string, table: string): number => rowsOf(path, table).length

describe('backup', () => {
  test('is one file with every row of every table, and says how many', async () => {
    const store = filledFile()
    const file = join(temporaryFolder(), 'copy.db')
    const progress: number[] = []
    const made = await backupStore({
      ...{ from: `sqlite:${store}`, file, mayReplace: false, clock: systemClock },
      onProgress: (_what, done, total) => progress.push(done / total),
    })
    for (const { name } of COPIED_TABLES) expect(rowsOf(file, name)).toEqual(rowsOf(store, name))
    expect(made.tables).toEqual(COPIED_TABLES.map(({ name }) => ({ table: name, rows: countOf(store, name) })))
    expect(made.version).toBe(MIGRATIONS.length)
    expect(progress.at(-1)).toBe(1)
    // Nothing beside it, and nothing is needed beside it.
    expect(readdirSync(dirname(file))).toEqual(['copy.db'])
    expect(openRaw(file).prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'delete' })
  })

  test('never replaces a file unless it is told to', async () => {
    const store = `sqlite:${filledFile()}`
    const file = join(temporaryFolder(), 'precious.db')
    writeFileSync(file, 'precious')
    expect(await refusal(backUp(store, file))).toMatchObject({ code: 'BACKUP_EXISTS' })
    expect(readFileSync(file, 'utf8')).toBe('precious')
    expect((await backUp(store, file, true)).tables.length).toBeGreaterThan(10)
    expect(readdirSync(dirname(file))).toEqual(['precious.db'])
  })

  test('of a store that an older Redress made leaves that store as it is', async () => {
    const path = join(temporaryFolder(), 'old.db')
    const old = openRaw(path)
    old.exec(MIGRATIONS[0] as string)
    old.exec('PRAGMA application_id = 0x72647273; PRAGMA user_version = 1')
    old.close()
    const { version, tables, file } = await backUp(`sqlite:${path}`, join(temporaryFolder(), 'copy.db'))
    expect(version).toBe(1)
    expect(tables.map(({ table }) => table)).not.toContain('accounts')
    expect(openRaw(path).prepare('PRAGMA user_version').get()).toEqual({ user_version: 1 })
    const restored = join(temporaryFolder(), 'redress.db')
    expect((await restore(file, restored)).version).toBe(MIGRATIONS.length)
  })

  test('of a place where nothing is, of memory, of itself and of a strange file is refused', async () => {
    const folder = temporaryFolder()
    const file = join(folder, 'copy.db')
    const store = filledFile()
    const strange = join(folder, 'strange.db')
    new DatabaseSync(strange).exec('CREATE TABLE theirs (id)')
    expect(await refusal(backUp(`sqlite:${join(folder, 'none.db')}`, file))).toMatchObject({ code: 'STORE_NOT_FOUND' })
    expect(await refusal(backUp('sqlite::memory:', file))).toMatchObject({ code: 'OPTION_INVALID' })
    expect(await refusal(backUp(`sqlite:${store}`, store, true))).toMatchObject({ code: 'OPTION_INVALID' })
    expect(await refusal(backUp(`sqlite:${strange}`, file))).toMatchObject({ code: 'STORE_NOT_REDRESS' })
    expect(existsSync(file)).toBe(false)
    expect(await refusal(backUp(`sqlite:${store}`, join(folder, 'no/such/folder.db')))).toMatchObject({
      code: 'OPTION_INVALID',
    })
  })

  test('leaves nothing on a disk that became full, and the store is as it was', async (context) => {
    const disk = smallDisk(context)
    const store = filledFile()
    const app = new App({ store: `sqlite:${store}` })
    app.job('large', { run: () => undefined })
    await app.submitMany('large', Array(40).fill({ ballast: 'x'.repeat(100_000) }))
    await app.stop()
    const before = countOf(store, 'jobs')
    disk.fill({ butBytes: 1_000_000 })
    const file = join(disk.folder, 'copy.db')
    expect(await refusal(backUp(`sqlite:${store}`, file))).toMatchObject({ code: 'STORE_FULL', exitCode: 1 })
    expect(readdirSync(disk.folder)).toEqual(['ballast'])
    expect(countOf(store, 'jobs')).toBe(before)
    expect(await refusal(restore(store, join(disk.folder, 'redress.db')))).toMatchObject({ code: 'STORE_FULL' })
    expect(readdirSync(disk.folder)).toEqual(['ballast', 'redress.db.lock'])
  })
})

describe('restore', () => {
  async function backupFile(): Promise<string> {
    return (await backUp(`sqlite:${filledFile()}`, join(temporaryFolder(), 'copy.db'))).file
  }

  test('makes a store whose jobs and histories are those of the backup', async () => {
    const file = await backupFile()
    const path = join(temporaryFolder(), 'data', 'redress.db')
    const restored = await restore(file, path)
    expect(restored.aside).toBeNull()
    expect(readdirSync(dirname(path))).toEqual(['redress.db', 'redress.db.lock'])
    const store = openSqlite({ path, nowMs: systemClock.nowMs })
    onTestFinished(() => store.stop())
    const jobs = await store.jobs({ limit: 1_000 })
    expect(jobs.length).toBe(countOf(file, 'jobs'))
    for (const job of jobs) checkJob(job, await store.events({ id: job.id }))
    const [act] = await store.auditTrail({ filter: { act: 'restore' }, beforeSeq: null, limit: 1 })
    expect(act).toMatchObject({ ...BY, target: 'store', ids: [basename(file)] })
  })

  test('keeps tokens; sessions and links of that time open nothing, and its workers count as gone', async () => {
    const file = await backupFile()
    const path = join(temporaryFolder(), 'redress.db')
    const kinds = (of: string) => rowsOf(of, 'credentials').map((row) => (row as { kind: string }).kind)
    expect(kinds(file)).toEqual(expect.arrayContaining(['token', 'link']))
    expect((await restore(file, path)).credentialsDropped).toBe(kinds(file).filter((kind) => kind !== 'token').length)
    expect(new Set(kinds(path))).toEqual(new Set(['token']))
    expect(rowsOf(path, 'workers').filter((row) => (row as { stopped_at: unknown }).stopped_at === null)).toEqual([])
  })

  test('with every queue paused, nothing is begun before somebody says so', async () => {
    const file = await backupFile()
    const path = join(temporaryFolder(), 'redress.db')
    await restore(file, path, { isPaused: true })
    const app = new App({ store: `sqlite:${path}` })
    onTestFinished(() => app.stop())
    const { queues } = await app.perform('queues.list', {})
    expect(queues.map(({ paused }) => paused === null)).not.toContain(true)
    // One was paused before, by somebody else: that stays so.
    expect(queues.find(({ queue }) => queue === 'post')?.paused).toMatchObject({ by: 'ann' })
    expect(queues.find(({ queue }) => queue === 'default')?.paused).toMatchObject({ by: 'rita' })
  })

  test('a job that ran when the backup was made is not lost: its lease is over, and its policy says what becomes of it', async () => {
    const path = join(temporaryFolder(), 'redress.db')
    const file = join(temporaryFolder(), 'copy.db')
    const policy = { orphan: 'requeue', lease: { ttl: '1s' }, timeout: { attempt: null } } as const
    const first = new App({ store: `sqlite:${path}` })
    first.job('long', { policy, run: () => new Promise(() => undefined) })
    const { id } = await first.submit('long', {})
    const worker = await first.makeWorker()
    await worker.tick()
    await backUp(`sqlite:${path}`, file)
    worker.crash()
    await first.stop()

    const restored = join(temporaryFolder(), 'redress.db')
    await restore(file, restored)
    let nowMs = systemClock.nowMs() + 60_000
    const clock = { ...systemClock, nowMs: () => nowMs }
    const second = new App({ store: `sqlite:${restored}`, clock })
    onTestFinished(() => second.stop())
    second.job('long', { policy, run: (_: unknown, attempt) => attempt.number })
    const successor = await second.makeWorker()
    await successor.maintain()
    nowMs += 1_000
    await successor.tick()
    expect(await second.jobs.find(id)).toMatchObject({ status: 'complete', result: 2 })
  })

  test('refuses a place that is taken; forced, it moves aside what is there, with its log', async () => {
    const file = await backupFile()
    const path = filledFile()
    const before = countOf(path, 'jobs')
    const submitter = new App({ store: `sqlite:${path}` })
    submitter.job('later', { run: () => undefined })
    await submitter.submit('later', {})
    // Another program that reads keeps the log from being emptied, as a crash does.
    const reader = openRaw(path)
    reader.exec('BEGIN; SELECT count(*) FROM jobs')
    await submitter.stop()
    expect(existsSync(`${path}-wal`)).toBe(true)
    expect(await refusal(restore(file, path))).toMatchObject({ code: 'STORE_NOT_EMPTY' })
    const { aside } = await restore(file, path, { isForced: true })
    reader.close()
    expect(aside).toMatch(/redress\.db\.before-\d{8}T\d{6}Z$/)
    expect(countOf(String(aside), 'jobs')).toBe(before + 1)
    expect(countOf(path, 'jobs')).toBe(before)
  })

  test('a log without its store is in the way, too: it would be played back into the new one', async () => {
    const file = await backupFile()
    const path = join(temporaryFolder(), 'redress.db')
    writeFileSync(`${path}-wal`, 'what a crash has left')
    expect(await refusal(restore(file, path))).toMatchObject({ code: 'STORE_NOT_EMPTY' })
    const { aside } = await restore(file, path, { isForced: true })
    expect(readFileSync(`${aside}-wal`, 'utf8')).toBe('what a crash has left')
    expect(countOf(path, 'jobs')).toBe(countOf(file, 'jobs'))
  })

  test('a store whose lock file cannot be opened is neither opened nor replaced, and doctor says why', async () => {
    const path = filledFile()
    const file = join(dirname(path), 'backup.db')
    await backUp(`sqlite:${path}`, file)
    rmSync(`${path}.lock`, { force: true })
    mkdirSync(`${path}.lock`)
    const refused = { code: 'STORE_FAILED', message: expect.stringContaining(`${path}.lock cannot be opened`) }
    expect(() => openSqlite({ path, nowMs: systemClock.nowMs })).toThrow(expect.objectContaining(refused))
    await expect(restore(file, path, { isForced: true })).rejects.toMatchObject(refused)
    const { base } = await openSqliteDoctor({ path, nowMs: systemClock.nowMs }).facts({ isDeep: false })
    expect(base).toMatchObject({ mayLock: false })
  })

  test('every user with access to a store can read its lock file, whatever the umask of its creator', async () => {
    const path = join(temporaryFolder(), 'redress.db')
    const before = process.umask(0o077)
    onTestFinished(() => void process.umask(before))
    await openSqlite({ path, nowMs: systemClock.nowMs }).stop()
    expect(statSync(`${path}.lock`).mode & 0o777).toBe(0o644)
    expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  test('is refused, even by force, where workers are at work', async () => {
    const file = await backupFile()
    const path = filledFile()
    const app = new App({ store: `sqlite:${path}` })
    onTestFinished(() => app.stop())
    app.job('any', { run: () => undefined })
    const worker = await app.makeWorker({ id: 'busy-worker' })
    await worker.tick()
    const refused = await refusal(restore(file, path, { isForced: true }))
    expect(refused).toMatchObject({ code: 'STORE_IN_USE' })
    expect(refused.message).toContain(`${process.pid} (worker worker-1, busy-worker)`)
  })

  const spoiled: [string, string, (path: string) => void][] = [
    ['cut off in the middle', 'BACKUP_DAMAGED', (path) => truncateSync(path, 40_960)],
    ['cut off inside a page', 'BACKUP_DAMAGED', (path) => truncateSync(path, 50_000)],
    ['cut off in its first bytes', 'STORE_NOT_REDRESS', (path) => truncateSync(path, 60)],
    ['empty', 'STORE_NOT_REDRESS', (path) => truncateSync(path, 0)],
    ['no database at all', 'STORE_NOT_REDRESS', (path) => writeFileSync(path, 'x'.repeat(10_000))],
    ['written over in the middle', 'BACKUP_DAMAGED', scribble],
    ['of another program', 'STORE_NOT_REDRESS', (path) => change(path, 'PRAGMA application_id = 1')],
    ['of a newer Redress', 'STORE_TOO_NEW', (path) => change(path, 'PRAGMA user_version = 99')],
  ]
  test.each(spoiled)('a file that is %s is refused with %s, and nothing is made', async (_what, code, spoil) => {
    const file = await backupFile()
    spoil(file)
    const path = join(temporaryFolder(), 'redress.db')
    expect(await refusal(restore(file, path))).toMatchObject({ code })
    expect(readdirSync(dirname(path))).toEqual([])
    // Nor is anything lost where it was to replace something.
    const there = filledFile()
    expect(await refusal(restore(file, there, { isForced: true }))).toMatchObject({ code })
    expect(countOf(there, 'jobs')).toBe(countOf(prepared, 'jobs'))
    expect(readdirSync(dirname(there)).filter((name) => /partial|before/.test(name))).toEqual([])
  })
})

describe('a store in PostgreSQL', () => {
  let server: TestPostgres
  beforeAll(async () => {
    server = await startPostgres()
  })
  afterAll(() => server.stop())

  test('is backed up into a file of the embedded kind while it is worked on, and restored from it', async () => {
    const url = await ownDatabase(server.url)
    const app = new App({ store: url })
    onTestFinished(() => app.stop())
    app.job('any', { run: () => 'done' })
    const worker = await app.work()
    const before = await app.submitMany('any', Array(50).fill({}))
    const made = await backUp(url, join(temporaryFolder(), 'copy.db'))
    await worker.stop()
    const path = join(temporaryFolder(), 'redress.db')
    await restore(made.file, path)
    const store = openSqlite({ path, nowMs: systemClock.nowMs })
    onTestFinished(() => store.stop())
    for (const { id } of before) {
      const job = await store.job({ id })
      if (job === null) throw new Error(`job ${id} is not in the backup`)
      checkJob(job, await store.events({ id }))
    }
    expect(await refusal(restoreStore({ ...TO_POSTGRES, file: made.file, to: url }))).toMatchObject({
      code: 'OPTION_INVALID',
    })
  })
})

const TO_POSTGRES = { isForced: false, isPaused: false, by: BY, clock: systemClock, onPages: () => undefined }

/** Bytes in the middle of the largest table. */
function scribble(path: string): void {
  const bytes = readFileSync(path)
  bytes.fill(0xa5, Math.floor(bytes.length / 2), Math.floor(bytes.length / 2) + 8_192)
  writeFileSync(path, bytes)
}

function change(path: string, sql: string): void {
  const database = new DatabaseSync(path)
  database.exec(sql)
  database.close()
}
