import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync, type DatabaseSyncOptions } from 'node:sqlite'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { turns, until } from '../../../../../test/support/until.ts'
import { type App, type PolicyInput, type PreparedJob, RedressError, redress } from '../../../src/index.ts'
import { VirtualClock } from '../../../src/runtime/clock.ts'
import type { SyncExecutor } from '../../../src/store/index.ts'

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'redress-transactions-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

/** An app and a business on one file: `orders` is the business's own table. */
async function shop(policy: PolicyInput = {}) {
  const path = join(folder(), 'shop.db')
  const clock = new VirtualClock()
  const app = redress({ store: `sqlite:${path}`, clock })
  onTestFinished(() => app.stop())
  const ship = app.job('ship', {
    input: z.object({ order: z.number() }),
    policy,
    run: ({ order }) => order,
  })
  await app.store()
  const database = connect(path)
  database.exec('CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY) STRICT')
  const orders = () =>
    database
      .prepare('SELECT id FROM orders ORDER BY id')
      .all()
      .map((row) => row.id)
  return { app, ship, database, orders, path, clock }
}

function connect(path: string, options: DatabaseSyncOptions = {}): DatabaseSync {
  const database = new DatabaseSync(path, options)
  onTestFinished(() => database.close())
  return database
}

const order = (database: DatabaseSync, id: number) => database.prepare('INSERT INTO orders (id) VALUES (?)').run(id)

const statusOf = async (app: App, id: string): Promise<string | null> => (await app.jobs.find(id))?.status ?? null

const errorOf = (act: () => unknown): RedressError => {
  try {
    act()
  } catch (error) {
    if (error instanceof RedressError) return error
    throw error
  }
  throw new Error('it was not refused')
}

describe('a job in a transaction of the caller', () => {
  test('is there with the business row when it commits, with the store’s time and a whole history', async () => {
    const { app, ship, database, orders, clock } = await shop()
    const pending = await ship.prepare({ order: 1 }, { owner: 'ann', priority: 3, delay: '1m' })
    await clock.advance(5_000)
    database.exec('BEGIN IMMEDIATE')
    order(database, 1)
    expect(app.submitIn(database, pending)).toEqual([{ id: pending.id, isNew: true, status: 'queued' }])
    expect(await statusOf(app, pending.id)).toBeNull()
    database.exec('COMMIT')
    expect(orders()).toEqual([1])
    const queuedAt = new Date(clock.nowMs()).toISOString()
    expect(await app.jobs.find(pending.id)).toMatchObject({
      status: 'queued',
      owner: 'ann',
      priority: 3,
      createdAt: queuedAt,
    })
    expect((await app.jobs.events(pending.id)).events.map(({ kind }) => kind)).toEqual(['queued'])
    const worker = await app.makeWorker()
    await worker.tick()
    expect(await statusOf(app, pending.id)).toBe('queued')
    await clock.advance(60_000)
    await worker.tick()
    expect(await app.jobs.find(pending.id)).toMatchObject({ status: 'complete', result: 1 })
  })

  test('is as absent as the business row when it rolls back, and can be submitted after all', async () => {
    const { app, ship, database, orders } = await shop()
    const pending = await ship.prepare({ order: 1 })
    database.exec('BEGIN IMMEDIATE')
    order(database, 1)
    const [submitted] = app.submitIn(database, pending)
    database.exec('ROLLBACK')
    expect(submitted?.isNew).toBe(true)
    expect([orders(), await statusOf(app, pending.id), (await app.jobs.list()).jobs]).toEqual([[], null, []])
    database.exec('BEGIN')
    expect(app.submitIn(database, pending)).toMatchObject([{ isNew: true }])
    expect(app.submitIn(database, pending)).toMatchObject([{ id: pending.id, isNew: false }])
    database.exec('COMMIT')
    expect((await app.jobs.list()).jobs).toHaveLength(1)
  })

  test('goes with its savepoint', async () => {
    const { app, ship, database, orders } = await shop()
    const [kept, dropped] = [await ship.prepare({ order: 1 }), await ship.prepare({ order: 2 })]
    database.exec('BEGIN IMMEDIATE')
    order(database, 1)
    app.submitIn(database, kept)
    database.exec('SAVEPOINT second')
    order(database, 2)
    app.submitIn(database, dropped)
    database.exec('ROLLBACK TO second; RELEASE second; COMMIT')
    expect([orders(), await statusOf(app, kept.id), await statusOf(app, dropped.id)]).toEqual([[1], 'queued', null])
  })

  test('finds its twin, in the store or in the same transaction', async () => {
    const { app, ship, database } = await shop()
    const before = await ship.submit({ order: 1 }, { dedupe: 'one' })
    const twins = await Promise.all(['one', 'two', 'two'].map((dedupe) => ship.prepare({ order: 1 }, { dedupe })))
    database.exec('BEGIN IMMEDIATE')
    const submitted = app.submitIn(database, twins)
    database.exec('COMMIT')
    expect(submitted).toEqual([
      { id: before.id, isNew: false, status: 'queued' },
      { id: twins[1]?.id, isNew: true, status: 'queued' },
      { id: twins[1]?.id, isNew: false, status: 'queued' },
    ])
  })

  test('goes into a batch, whose counts roll back with it', async () => {
    const { app, ship, database } = await shop()
    const batch = await app.batches.create('day')
    const pending = await ship.prepare({ order: 1 }, { batch: batch.id })
    const totals = async () => (await batch.find())?.counts.total
    for (const [end, total] of [
      ['ROLLBACK', 0],
      ['COMMIT', 1],
    ] as const) {
      database.exec('BEGIN IMMEDIATE')
      app.submitIn(database, pending)
      database.exec(end)
      expect(await totals(), end).toBe(total)
    }
  })

  test('that its type refuses is refused before the transaction begins, or recorded in it', async () => {
    const refusing = await shop()
    await expect(refusing.ship.prepare({ order: 'x' } as never)).rejects.toMatchObject({ code: 'INPUT_INVALID' })
    const { app, ship, database } = await shop({ reject: 'record' })
    const pending = await ship.prepare({ order: 'x' } as never)
    database.exec('BEGIN IMMEDIATE')
    expect(app.submitIn(database, pending)).toMatchObject([{ isNew: true, status: 'failed' }])
    database.exec('COMMIT')
    expect(await app.jobs.find(pending.id)).toMatchObject({ status: 'failed', errorCode: 'INPUT_INVALID' })
  })

  test('wakes the workers of this process just after the commit, or when `wake` is called', async () => {
    const { app, ship, database } = await shop()
    const [quick, slow] = [await ship.prepare({ order: 1 }), await ship.prepare({ order: 2 })]
    const seen: (string | null)[] = []
    const look = async (): Promise<void> => {
      // As a worker would: it finds the job, or it does not.
      seen.push(await statusOf(app, quick.id), await statusOf(app, slow.id))
    }
    const store = await app.store()
    store.onWake(() => void look())
    database.exec('BEGIN IMMEDIATE')
    const [submitted] = app.submitIn(database, quick)
    database.exec('COMMIT')
    await turns()
    expect([submitted?.isNew, seen]).toEqual([true, ['queued', null]])
    database.exec('BEGIN IMMEDIATE')
    expect(app.submitIn(database, slow)).toMatchObject([{ isNew: true }])
    await turns()
    database.exec('COMMIT')
    expect(seen.slice(2)).toEqual(['queued', null])
    app.wake()
    await turns()
    expect(seen.slice(4)).toEqual(['queued', 'queued'])
  })

  test('is done by a worker of the same process that would else sleep for days', async () => {
    const path = join(folder(), 'shop.db')
    const app = redress({ store: `sqlite:${path}` })
    onTestFinished(() => app.stop())
    const ship = app.job('ship', { run: () => 'shipped' })
    await app.work({ pollMs: 2 ** 30 })
    const database = connect(path)
    const pending = await ship.prepare({})
    database.exec('BEGIN IMMEDIATE')
    expect(app.submitIn(database, pending)).toHaveLength(1)
    database.exec('COMMIT')
    await until('it is complete', async () => (await statusOf(app, pending.id)) === 'complete')
  })
})

describe('a refusal', () => {
  test('leaves none of the jobs, though the caller commits', async () => {
    const { app, ship, database, orders } = await shop()
    const elsewhere = await app.prepare('nobody.declared.this', {})
    const pending = await ship.prepare({ order: 1 })
    database.exec('BEGIN IMMEDIATE')
    order(database, 1)
    expect(errorOf(() => app.submitIn(database, [pending, elsewhere])).code).toBe('TYPE_UNKNOWN')
    database.exec('COMMIT')
    expect([orders(), (await app.jobs.list()).jobs]).toEqual([[1], []])
  })

  test('in the middle leaves none of the jobs either', async () => {
    const { app, ship, database } = await shop()
    database.exec(`CREATE TRIGGER no_more BEFORE INSERT ON jobs WHEN (SELECT count(*) FROM jobs) >= 1
      BEGIN SELECT raise(ABORT, 'the shop is closed'); END`)
    const pendings = [await ship.prepare({ order: 1 }), await ship.prepare({ order: 2 })]
    database.exec('BEGIN IMMEDIATE')
    const refused = errorOf(() => app.submitIn(database, pendings))
    expect(refused).toMatchObject({ code: 'STORE_FAILED', message: expect.stringContaining('the shop is closed') })
    database.exec('COMMIT')
    const left = database.prepare('SELECT (SELECT count(*) FROM job_specs) + (SELECT count(*) FROM events) AS n').get()
    expect(left).toEqual({ n: 0 })
  })

  test('of what a full backlog has no room for, also after a rollback made room', async () => {
    const { app, ship, database } = await shop({ backlog: { max: 2 } })
    const pendings = await Promise.all([1, 2, 3].map((number) => ship.prepare({ order: number })))
    const [first, second, third] = pendings as [PreparedJob, PreparedJob, PreparedJob]
    for (let round = 0; round < 2; round++) {
      database.exec('BEGIN IMMEDIATE')
      expect(app.submitIn(database, [first, second])).toHaveLength(2)
      expect(errorOf(() => app.submitIn(database, third)).code).toBe('BACKLOG_FULL')
      database.exec('ROLLBACK')
    }
    database.exec('BEGIN IMMEDIATE')
    expect(errorOf(() => app.submitIn(database, pendings)).code).toBe('BACKLOG_FULL')
    expect(app.submitIn(database, [second, third])).toHaveLength(2)
    database.exec('COMMIT')
    expect((await app.jobs.list()).jobs.map(({ id }) => id)).toEqual([third.id, second.id])
  })

  test('without a transaction', async () => {
    const { app, ship, database } = await shop()
    const pending = await ship.prepare({ order: 1 })
    for (const handle of [database, leastHandle(database)]) {
      expect(errorOf(() => app.submitIn(handle, pending))).toMatchObject({
        code: 'TX_REQUIRED',
        action: expect.stringContaining('Begin a transaction'),
      })
    }
    expect((await app.jobs.list()).jobs).toEqual([])
  })

  test('on another database, also one that the store is attached to', async () => {
    const { app, ship, path } = await shop()
    const pending = await ship.prepare({ order: 1 })
    const [memory, other] = [connect(':memory:'), connect(join(folder(), 'other.db'))]
    memory.exec('BEGIN')
    expect(errorOf(() => app.submitIn(memory, pending))).toMatchObject({
      code: 'TX_WRONG_DATABASE',
      message: expect.stringContaining('in memory'),
    })
    other.exec(`ATTACH '${path}' AS store; BEGIN`)
    expect(errorOf(() => app.submitIn(other, pending))).toMatchObject({
      code: 'TX_WRONG_DATABASE',
      message: expect.stringContaining('only attached'),
    })
  })

  test('on a store in memory, on something that is no SQLite handle, and of what was not prepared', async () => {
    const { app, ship, database } = await shop()
    const pending = await ship.prepare({ order: 1 })
    const inMemory = redress({ store: 'sqlite::memory:' })
    onTestFinished(() => inMemory.stop())
    const homeless = await inMemory.job('ship', { run: () => 1 }).prepare({})
    database.exec('BEGIN')
    expect(errorOf(() => inMemory.submitIn(database, homeless)).code).toBe('TX_UNSUPPORTED')
    const client = { query: async () => ({ rows: [] }) }
    expect(errorOf(() => app.submitIn(client, pending)).code).toBe('TX_WRONG_DATABASE')
    expect(errorOf(() => app.submitIn(database, { ...pending })).code).toBe('OPTION_INVALID')
    expect(errorOf(() => app.submitIn(database, homeless)).code).toBe('OPTION_INVALID')
    expect(app.submitIn(database, [])).toEqual([])
    database.exec('ROLLBACK')
  })

  test('of a type whose lines must be on disk first', async () => {
    const { app, ship, database } = await shop({ audit: 'write-ahead' })
    const pending = await ship.prepare({ order: 1 })
    database.exec('BEGIN IMMEDIATE')
    expect(errorOf(() => app.submitIn(database, pending))).toMatchObject({
      code: 'TX_UNSUPPORTED',
      message: expect.stringContaining(`audit 'write-ahead'`),
    })
  })

  test('on a store that a newer Redress has changed meanwhile', async () => {
    const { app, ship, database } = await shop()
    const pending = await ship.prepare({ order: 1 })
    database.exec('PRAGMA user_version = 99; BEGIN IMMEDIATE')
    expect(errorOf(() => app.submitIn(database, pending)).code).toBe('STORE_TOO_NEW')
  })

  test('of a transaction that read before another one wrote', async () => {
    const { app, ship, database, orders } = await shop()
    const pending = await ship.prepare({ order: 1 })
    database.exec('BEGIN')
    orders()
    await ship.submit({ order: 2 })
    expect(errorOf(() => app.submitIn(database, pending))).toMatchObject({
      code: 'STORE_BUSY',
      action: expect.stringContaining('BEGIN IMMEDIATE'),
    })
    database.exec('ROLLBACK')
  })

  test('after the app was stopped', async () => {
    const { app, ship, database } = await shop()
    const pending = await ship.prepare({ order: 1 })
    await app.stop()
    database.exec('BEGIN')
    expect(errorOf(() => app.submitIn(database, pending)).code).toBe('STORE_STOPPED')
  })
})

describe('any handle will do', () => {
  test('that can prepare, run, get and all, whatever it makes of numbered places', async () => {
    const { app, ship, database } = await shop()
    const pending = await ship.prepare({ order: 1 }, { dedupe: 'one' })
    const twin = await ship.prepare({ order: 1 }, { dedupe: 'one' })
    const handle = leastHandle(database)
    database.exec('BEGIN')
    expect(app.submitIn(handle, pending)).toMatchObject([{ isNew: true }])
    expect(app.submitIn(handle, twin)).toEqual([{ id: pending.id, isNew: false, status: 'queued' }])
    database.exec('COMMIT')
    expect(await app.jobs.find(pending.id)).toMatchObject({ status: 'queued', input: { order: 1 } })
  })

  test('that reads BigInts and arrays', async () => {
    const { app, ship, path } = await shop()
    const database = connect(path, { readBigInts: true, returnArrays: true })
    const [pending, twin] = [
      await ship.prepare({ order: 1 }, { dedupe: 'one' }),
      await ship.prepare({ order: 1 }, { dedupe: 'one' }),
    ]
    database.exec('BEGIN IMMEDIATE')
    expect(app.submitIn(database, [pending, twin])).toMatchObject([{ isNew: true }, { id: pending.id, isNew: false }])
    database.exec('COMMIT')
    expect(await statusOf(app, pending.id)).toBe('queued')
  })

  test('that came to the file by a symbolic link', async () => {
    const { app, ship, path } = await shop()
    const pending = await ship.prepare({ order: 1 })
    symlinkSync(path, `${path}.link`)
    const database = connect(`${path}.link`)
    database.exec('BEGIN IMMEDIATE')
    expect(app.submitIn(database, pending)).toMatchObject([{ isNew: true }])
    database.exec('COMMIT')
    expect((await app.jobs.list()).jobs).toHaveLength(1)
  })

  test('that was closed and opened again', async () => {
    const { app, ship, database } = await shop()
    for (const number of [1, 2, 3]) {
      const pending = await ship.prepare({ order: number })
      database.exec('BEGIN IMMEDIATE')
      app.submitIn(database, pending)
      database.exec('COMMIT')
      database.close()
      database.open()
    }
    expect((await app.jobs.list()).jobs).toHaveLength(3)
  })

  test('and is asked to prepare its statements once', async () => {
    const { app, ship, database } = await shop()
    let prepared = 0
    const counting: SyncExecutor & { isTransaction: boolean } = {
      isTransaction: true,
      prepare(sql) {
        prepared++
        return database.prepare(sql) as ReturnType<SyncExecutor['prepare']>
      },
    }
    const pendings = await Promise.all(Array.from({ length: 20 }, (_, i) => ship.prepare({ order: i })))
    database.exec('BEGIN IMMEDIATE')
    const [first, ...others] = pendings
    if (first !== undefined) app.submitIn(counting, first)
    const atFirst = prepared
    for (const pending of others) app.submitIn(counting, pending)
    database.exec('COMMIT')
    expect(prepared).toBe(atFirst)
    expect((await app.jobs.list()).jobs).toHaveLength(20)
  })
})

/** No more than is needed: it does not say whether a transaction is open, and it takes `?1` for a name. */
function leastHandle(database: DatabaseSync): SyncExecutor {
  return {
    prepare(sql) {
      if (/\?\d/.test(sql)) throw new Error('I take numbered places for names')
      const statement = database.prepare(sql)
      return {
        run: (...values) => {
          const { changes, lastInsertRowid } = statement.run(...values)
          return { changes: BigInt(changes), lastInsertRowid: BigInt(lastInsertRowid) }
        },
        get: (...values) => statement.get(...values),
        all: (...values) => statement.all(...values),
      }
    },
  }
}
