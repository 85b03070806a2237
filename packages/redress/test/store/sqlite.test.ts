import { execFile, execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { commitsInLog, openRaw, openWithConnection, temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import { until } from '../../../../test/support/until.ts'
import { Bench } from '../../src/store/conformance/index.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { refuseOldSqlite } from '../../src/store/sqlite/connection/connection.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'

const SOURCES = join(import.meta.dirname, '../../src')
const path = () => join(temporaryFolder(), 'store.db')
const nowMs = () => 0

const benchOn = async (store: Store): Promise<Bench> => Bench.set(() => store, 'here')

describe('opening', () => {
  test('a new store, its log and its folders can be read by their owner alone', () => {
    const folder = join(temporaryFolder(), 'made', 'here')
    const { database } = openWithConnection({ path: join(folder, 'store.db') })
    database.exec('CREATE TABLE something (x)')
    const modeOf = (name: string) => (statSync(join(folder, name)).mode & 0o777).toString(8)
    expect(['.', '..'].map(modeOf)).toEqual(['700', '700'])
    expect(['store.db', 'store.db-wal', 'store.db-shm'].map(modeOf)).toEqual(['600', '600', '600'])
  })

  test('a store that others may read keeps its mode: its owner may have meant it', () => {
    const file = path()
    writeFileSync(file, '', { mode: 0o644 })
    openWithConnection({ path: file })
    expect(statSync(file).mode & 0o777).toBe(0o644)
  })

  test('every commit waits for the disk, and readers do not wait for writers', () => {
    const { database } = openWithConnection({ path: path() })
    expect(database.prepare('PRAGMA synchronous').get()).toEqual({ synchronous: 2 })
    expect(database.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' })
  })

  test.each(['3.51.2', '3.50.4', '2.99.99', '0'])(
    'SQLite %s is refused, because it can corrupt the file',
    (version) => {
      expect(() => refuseOldSqlite(version)).toThrow(expect.objectContaining({ code: 'SQLITE_TOO_OLD' }))
    },
  )

  test.each(['3.51.3', '3.52.0', '3.60', '4.0.0', process.versions.sqlite])('SQLite %s will do', (version) => {
    expect(() => refuseOldSqlite(String(version))).not.toThrow()
  })

  test('the database of another program is refused and left as it is, to the byte', () => {
    const file = path()
    const foreign = openRaw(file)
    foreign.exec('CREATE TABLE invoices (n INTEGER); INSERT INTO invoices VALUES (1)')
    foreign.close()
    const before = readFileSync(file)
    expect(() => openSqlite({ path: file, nowMs })).toThrow(expect.objectContaining({ code: 'STORE_NOT_REDRESS' }))
    expect(readFileSync(file).equals(before)).toBe(true)
  })

  test('a file that is no database is refused and left as it is', () => {
    const file = path()
    writeFileSync(file, 'These are the accounts of the year, and nobody may write over them.'.repeat(20))
    const before = readFileSync(file)
    expect(() => openSqlite({ path: file, nowMs })).toThrow(expect.objectContaining({ code: 'STORE_NOT_REDRESS' }))
    expect(readFileSync(file).equals(before)).toBe(true)
  })

  test('a path that cannot hold a store is refused with a code, and with what to do', () => {
    const file = path()
    writeFileSync(file, 'text')
    const inAFile = join(file, 'folder', 'redress.db')
    expect(() => openSqlite({ path: inAFile, nowMs })).toThrow(
      expect.objectContaining({ code: 'STORE_FAILED', message: expect.stringContaining('ENOTDIR') }),
    )
    expect(() => openSqlite({ path: dirname(file), nowMs })).toThrow(
      expect.objectContaining({ code: 'STORE_FAILED', action: expect.stringContaining('no folder') }),
    )
  })

  test('a store written by a newer Redress is refused', async () => {
    const file = path()
    await openSqlite({ path: file, nowMs }).stop()
    const newer = openRaw(file)
    newer.exec('PRAGMA user_version = 999')
    newer.close()
    expect(() => openSqlite({ path: file, nowMs })).toThrow(expect.objectContaining({ code: 'STORE_TOO_NEW' }))
  })

  test('a folder that is not there is made', async () => {
    await openSqlite({ path: join(temporaryFolder(), 'a/b/store.db'), nowMs }).stop()
  })

  test('processes that open a new file at the same moment all find it ready', async () => {
    const file = path()
    const program = `
      const { openSqlite } = await import(${JSON.stringify(join(SOURCES, 'store/sqlite/store.ts'))})
      const { policy } = await import(${JSON.stringify(join(SOURCES, 'core/policy/policy.ts'))})
      const store = openSqlite({ path: ${JSON.stringify(file)}, nowMs: () => 0 })
      await store.register({ types: [{ name: 'shared', queue: 'default', policy: policy() }] })
      await store.enlist({ id: String(process.pid), host: 'here', pid: process.pid, types: [] })
      await store.stop()`
    const run = promisify(execFile)
    const options = ['--disable-warning=ExperimentalWarning', '--input-type=module', '--eval', program]
    await Promise.all(Array.from({ length: 4 }, () => run(process.execPath, options)))
    const store = openSqlite({ path: file, nowMs })
    onTestFinished(() => store.stop())
    expect(await store.workers()).toHaveLength(4)
    expect((await store.types()).map(({ name }) => name)).toEqual(['shared'])
  })
})

describe('a full disk', () => {
  const big = JSON.stringify('x'.repeat(50_000))

  /** Submits until the disk is full, and checks what the store says and keeps then. */
  async function fill(bench: Bench): Promise<string[]> {
    const taken: string[] = []
    for (let i = 0; i < 1_000; i++) {
      try {
        taken.push(await bench.submit({ payload: big }))
      } catch (error) {
        expect(error).toMatchObject({ code: 'STORE_FULL' })
        expect((await bench.store.jobs({ status: 'queued', limit: 1_000 })).map(({ id }) => id)).toEqual(
          taken.toReversed(),
        )
        await bench.checkAll()
        return taken
      }
    }
    throw new Error('the disk never became full')
  }

  test('refuses what it cannot keep, keeps what it acknowledged, and goes on when there is room', async () => {
    const { store, database } = openWithConnection({ path: path() })
    const bench = await benchOn(store)
    database.exec('PRAGMA max_page_count = 200')
    const taken = await fill(bench)
    expect(taken.length).toBeGreaterThan(2)
    database.exec('PRAGMA max_page_count = 100000')
    const after = await bench.submit({ payload: big })
    expect((await bench.row(after)).status).toBe('queued')
  })

  test('an attempt can be closed after a full disk has refused it once', async () => {
    const { store, database } = openWithConnection({ path: path() })
    const bench = await benchOn(store)
    const { id, lease, worker } = await bench.processing()
    database.exec('PRAGMA max_page_count = 200')
    await fill(bench)
    await expect(worker.close(lease, { to: 'complete', result: big })).rejects.toMatchObject({ code: 'STORE_FULL' })
    expect((await bench.row(id)).status).toBe('processing')
    database.exec('PRAGMA max_page_count = 100000')
    expect(await worker.close(lease, { to: 'complete', result: big })).toBe('closed')
  })

  test('is the same on a file system that is really full', async (context) => {
    const folder = join(temporaryFolder(), 'small')
    mkdirSync(folder)
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', folder], { stdio: 'pipe' })
    } catch (error) {
      context.skip(`this machine lets nobody mount a small file system: ${String(error).split('\n')[0]}`)
    }
    onTestFinished(() => void execFileSync('umount', ['--lazy', folder]))
    const store = openSqlite({ path: join(folder, 'store.db'), nowMs })
    onTestFinished(() => store.stop())
    const bench = await benchOn(store)
    const taken = await fill(bench)
    expect(taken.length).toBeGreaterThan(2)
    execFileSync('mount', ['-o', 'remount,size=20m', folder])
    expect((await bench.row(await bench.submit({ payload: big }))).status).toBe('queued')
  })
})

describe('a file that another process holds', () => {
  test('is waited for, and the event loop goes on meanwhile', async () => {
    const file = path()
    const store = openSqlite({ path: file, nowMs })
    onTestFinished(() => store.stop())
    const bench = await benchOn(store)
    const holder = openRaw(file)
    holder.exec('BEGIN IMMEDIATE')
    let isAnswered = false
    const submitted = bench.submit().finally(() => {
      isAnswered = true
    })
    // The lock is let go by this very event loop: if the store held it up, nobody ever would.
    let turns = 0
    await until('the event loop has turned a few times', () => ++turns > 5, { everyMs: 1 })
    expect(isAnswered).toBe(false)
    expect(await store.jobs({ limit: 10 })).toEqual([])
    holder.exec('COMMIT')
    expect((await bench.row(await submitted)).status).toBe('queued')
  })

  test('is given up after busyMsMax, with nothing written', async () => {
    const file = path()
    const store = openSqlite({ path: file, nowMs, busyMsMax: 30 })
    onTestFinished(() => store.stop())
    const bench = await benchOn(store)
    const holder = openRaw(file)
    holder.exec('BEGIN IMMEDIATE')
    const both = await Promise.allSettled([bench.submit(), bench.submit()])
    expect(both.map((one) => one.status === 'rejected' && one.reason)).toEqual([
      expect.objectContaining({ code: 'STORE_BUSY' }),
      expect.objectContaining({ code: 'STORE_BUSY' }),
    ])
    holder.exec('ROLLBACK')
    expect(await store.jobs({ limit: 10 })).toEqual([])
    expect((await bench.row(await bench.submit())).status).toBe('queued')
  })
})

describe('group commit', () => {
  test('calls made at the same moment share one commit, and calls made one after the other do not', async () => {
    const file = path()
    const store = openSqlite({ path: file, nowMs })
    onTestFinished(() => store.stop())
    const bench = await benchOn(store)
    const commits = () => commitsInLog(readFileSync(`${file}-wal`))
    const before = commits()
    await Promise.all(Array.from({ length: 100 }, () => bench.submit()))
    expect(commits() - before).toBe(1)
    for (let i = 0; i < 3; i++) await bench.submit()
    expect(commits() - before).toBe(4)
  })

  test('a call is answered when it is on disk, and so is everything it shares the commit with', async () => {
    const file = path()
    const store = openSqlite({ path: file, nowMs })
    onTestFinished(() => store.stop())
    const bench = await benchOn(store)
    const other = openRaw(file)
    const count = other.prepare('SELECT count(*) AS n FROM jobs')
    const seen = await Promise.all(
      Array.from({ length: 10 }, () => bench.submit().then(() => (count.get() as { n: number }).n)),
    )
    expect(seen).toEqual(Array(10).fill(10))
  })

  test('a call that fails leaves no trace, and those beside it are still one by one on disk', async () => {
    const file = path()
    const store = openSqlite({ path: file, nowMs })
    onTestFinished(() => store.stop())
    const bench = await benchOn(store)
    const all = await Promise.allSettled([bench.submit(), bench.submit({ type: 'unheard' }), bench.submit()])
    expect(all.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    const other = openRaw(file)
    expect(other.prepare('SELECT count(*) AS n FROM events').get()).toEqual({ n: 2 })
  })
})
