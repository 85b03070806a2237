import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { redress } from '../../../../packages/redress/src/index.ts'
import { openPool, type Pool } from '../../../../packages/redress/src/store/postgres/connection/client.ts'
import { startPostgres, type TestPostgres } from '../../../../test/support/stores/postgres.ts'
import { startCluster } from '../../../../test/support/stores/postgres-cluster.ts'
import { openRaw, temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import { until } from '../../../../test/support/until.ts'
import { copyRows } from '../../src/rows/copy.ts'
import { openRows, type Rows, type Tables } from '../../src/rows/rows.ts'

const TABLES: Tables = {
  name: 'shop',
  copyOrder: ['sh_stock', 'sh_orders'],
  versions: [
    'CREATE TABLE sh_stock (id text PRIMARY KEY, pieces bigint NOT NULL CHECK (pieces >= 0))',
    'CREATE TABLE sh_orders (id text PRIMARY KEY, stock text NOT NULL REFERENCES sh_stock (id)); CREATE INDEX sh_by ON sh_orders (stock)',
  ],
}

let server: TestPostgres
let sql: Pool
let database: string
beforeAll(async () => {
  server = await startPostgres()
  const name = `rows_${process.pid}`
  const first = openPool({ url: server.url, schema: 'public', connectionsMax: 1 })
  await first.unsafe(`CREATE DATABASE ${name}`)
  await first.end()
  database = Object.assign(new URL(server.url), { pathname: `/${name}` }).href
  sql = openPool({ url: database, schema: 'public', connectionsMax: 1 })
})
afterAll(async () => {
  await sql.end()
  await server.stop()
})

/** One database for all: making one takes longer than everything that is tried in it. */
async function emptied(): Promise<string> {
  await sql.unsafe('DROP SCHEMA IF EXISTS redress_apps CASCADE')
  return database
}

const PLACES: [name: string, place: () => Promise<string>][] = [
  ['SQLite', async () => `sqlite:${join(temporaryFolder(), 'redress.db')}`],
  ['PostgreSQL', emptied],
]

const nothingToOpen = async () => null

describe.each(PLACES)('on %s', (_name, place) => {
  const opened = (location: string, tables = TABLES): Rows => {
    const rows = openRows({ location, tables, storeOpened: nothingToOpen })
    onTestFinished(() => rows.close())
    return rows
  }

  test('a statement reads the rows of another, with numbers as numbers', async () => {
    const rows = opened(await place())
    const atMs = Date.UTC(2100, 0, 1)
    expect(await rows.run('INSERT INTO sh_stock (id, pieces) VALUES ($1, $2), ($3, $2)', 'a', atMs, 'b')).toBe(2)
    expect(await rows.all('SELECT id, pieces FROM sh_stock ORDER BY id')).toEqual([
      { id: 'a', pieces: atMs },
      { id: 'b', pieces: atMs },
    ])
    expect(await rows.first('SELECT id FROM sh_stock WHERE id = $2 OR id = $1', 'x', 'b')).toEqual({ id: 'b' })
    expect(await rows.first('SELECT id FROM sh_stock WHERE id = $1', 'nobody')).toBeNull()
    expect(await rows.run('UPDATE sh_stock SET pieces = 1 WHERE id = $1 RETURNING id', 'a')).toBe(1)
  })

  test('a step that fails undoes all steps', async () => {
    const rows = opened(await place())
    await rows.run('INSERT INTO sh_stock VALUES ($1, $2)', 'tea', 1)
    const order = (id: string) =>
      rows.atomically([
        { sql: 'INSERT INTO sh_orders VALUES ($1, $2)', params: [id, 'tea'] },
        { sql: 'UPDATE sh_stock SET pieces = pieces - 1 WHERE id = $1 RETURNING pieces', params: ['tea'] },
      ])
    expect(await order('first')).toEqual([[], [{ pieces: 0 }]])
    await expect(order('second')).rejects.toMatchObject({ code: 'STORE_FAILED' })
    await expect(order('first')).rejects.toMatchObject({ code: 'STORE_FAILED' })
    await expect(rows.run('INSERT INTO sh_orders VALUES ($1, $2)', 'x', 'nothing')).rejects.toMatchObject({
      code: 'STORE_FAILED',
    })
    expect(await rows.all('SELECT id FROM sh_orders')).toEqual([{ id: 'first' }])
  })

  test('of a hundred at once that take the last five, five succeed', async () => {
    const rows = opened(await place())
    await rows.run('INSERT INTO sh_stock VALUES ($1, $2)', 'tea', 5)
    const taken = await Promise.all(
      Array.from({ length: 100 }, () =>
        rows.run('UPDATE sh_stock SET pieces = pieces - 1 WHERE id = $1 AND pieces > 0', 'tea'),
      ),
    )
    expect(taken.filter((count) => count === 1)).toHaveLength(5)
  })

  test('tables are made once, though several programs start at once, and later versions are added to earlier ones', async () => {
    const location = await place()
    const first = opened(location, { ...TABLES, versions: TABLES.versions.slice(0, 1) })
    await first.run('INSERT INTO sh_stock VALUES ($1, $2)', 'tea', 1)
    const many = Array.from({ length: 4 }, () => opened(location))
    const counts = await Promise.all(many.map((rows) => rows.all('SELECT id FROM sh_stock')))
    expect(counts).toEqual(Array.from({ length: 4 }, () => [{ id: 'tea' }]))
    await expect(first.run('INSERT INTO sh_orders VALUES ($1, $2)', 'one', 'tea')).resolves.toBe(1)
  })

  test('a program that knows fewer versions than were made is refused', async () => {
    const location = await place()
    await opened(location).all('SELECT id FROM sh_stock')
    const older = opened(location, { ...TABLES, versions: TABLES.versions.slice(0, 1) })
    await expect(older.all('SELECT id FROM sh_stock')).rejects.toMatchObject({ code: 'STORE_TOO_NEW' })
  })

  test('rows and jobs are written side by side in one process, and neither waits for the other in vain', async () => {
    const location = await place()
    const app = redress({ store: location })
    const greet = app.job('greet', { run: () => null })
    const rows = openRows({ location, tables: TABLES, storeOpened: () => app.store() })
    onTestFinished(async () => {
      await rows.close()
      await app.stop()
    })
    await Promise.all(
      Array.from({ length: 20 }, async (_, i) => {
        await rows.atomically([{ sql: 'INSERT INTO sh_stock VALUES ($1, $2)', params: [`${i}`, i] }])
        await greet.submit({})
      }),
    )
    expect(await rows.first('SELECT count(*) AS many FROM sh_stock')).toEqual({ many: 20 })
    expect((await app.jobs.list({ limit: 100 })).jobs).toHaveLength(20)
  })
})

test('a locked database file is waited for without blocking the event loop', async () => {
  const path = join(temporaryFolder(), 'redress.db')
  const app = redress({ store: `sqlite:${path}` })
  const rows = openRows({ location: app.location, tables: TABLES, storeOpened: () => app.store() })
  onTestFinished(async () => {
    await rows.close()
    await app.stop()
  })
  await rows.all('SELECT id FROM sh_stock')
  const other = openRaw(path)
  other.exec('BEGIN IMMEDIATE')
  const writing = rows.run('INSERT INTO sh_stock VALUES ($1, $2)', 'tea', 1)
  setTimeout(() => other.exec('COMMIT'), 0)
  expect(await writing).toBe(1)
})

test('a store in memory has rows in memory, and a store without a location is refused with an action', async () => {
  const app = redress({ store: 'sqlite::memory:' })
  onTestFinished(() => app.stop())
  const rows = openRows({ location: app.location, tables: TABLES, storeOpened: () => app.store() })
  expect(await rows.run('INSERT INTO sh_stock VALUES ($1, $2)', 'tea', 1)).toBe(1)
  await rows.close()
  await expect(rows.all('SELECT 1')).rejects.toMatchObject({ code: 'STORE_STOPPED' })
  expect(() => openRows({ location: null, tables: TABLES, storeOpened: nothingToOpen })).toThrow(
    expect.objectContaining({ code: 'OPTION_INVALID', action: expect.stringContaining('sqlite:FILE') }),
  )
})

test('an unreachable server is reported and asked again later', async () => {
  let isBack = false
  const storeOpened = async () => {
    if (!isBack) throw new Error('away')
  }
  const rows = openRows({ location: await emptied(), tables: TABLES, storeOpened })
  onTestFinished(() => rows.close())
  await expect(rows.all('SELECT 1')).rejects.toThrow('away')
  isBack = true
  expect(await rows.all('SELECT id FROM sh_stock')).toEqual([])
  const nobody = openRows({
    location: 'postgres://nobody@127.0.0.1:1/none',
    tables: TABLES,
    storeOpened: nothingToOpen,
  })
  await expect(nobody.all('SELECT 1')).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
  await nobody.close()
})

test('a connection that is cut off in the middle of a transaction undoes it, and it is done again, once', async () => {
  const rows = openRows({ location: await emptied(), tables: TABLES, storeOpened: nothingToOpen })
  onTestFinished(() => rows.close())
  await rows.run('INSERT INTO sh_stock VALUES ($1, $2), ($3, $4)', 'tea', 1, 'nap', 0)
  for (let round = 1; round <= 6; round++) {
    await rows.run('UPDATE sh_stock SET pieces = 12 WHERE id = $1', 'nap')
    const cut = rows.atomically([
      { sql: 'UPDATE sh_stock SET pieces = pieces + 1 WHERE id = $1', params: ['tea'] },
      { sql: 'SELECT pg_sleep(pieces) FROM sh_stock WHERE id = $1', params: ['nap'] },
      { sql: 'UPDATE sh_stock SET pieces = pieces + 1 WHERE id = $1', params: ['tea'] },
    ])
    const asleep = `FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT pg_sleep%' AND state = 'active'`
    await until('it is under way', async () => (await sql.unsafe(`SELECT 1 ${asleep}`)).length > 0)
    await sql.unsafe(`UPDATE redress_apps.sh_stock SET pieces = 0 WHERE id = 'nap'`)
    await sql.unsafe(`SELECT pg_terminate_backend(pid) ${asleep}`)
    await cut
    expect(await rows.first('SELECT pieces FROM sh_stock WHERE id = $1', 'tea')).toEqual({ pieces: 1 + 2 * round })
  }
})

describe('rows are brought to another store', () => {
  const WAYS = [
    ['from SQLite to PostgreSQL', PLACES[0], PLACES[1]],
    ['from PostgreSQL to SQLite', PLACES[1], PLACES[0]],
  ] as const

  test.each(WAYS)('%s: rows are copied with their references, and copying is idempotent', async (_, a, b) => {
    const [from, to] = [await a?.[1](), await b?.[1]()] as [string, string]
    const [source, target] = [from, to].map((location) =>
      openRows({ location, tables: TABLES, storeOpened: nothingToOpen }),
    )
    onTestFinished(async () => void (await Promise.all([source?.close(), target?.close()])))
    // More than are read at once, and keys that do not sort as numbers do.
    await source?.atomically(
      Array.from({ length: 1_203 }, (_, i) => ({ sql: 'INSERT INTO sh_stock VALUES ($1, $2)', params: [`s${i}`, i] })),
    )
    await source?.run(`INSERT INTO sh_orders VALUES ('o1', 's7')`)
    const counts = [
      { table: 'sh_stock', source: 1_203, target: null },
      { table: 'sh_orders', source: 1, target: null },
    ]
    expect(await copyRows(TABLES, from, null)).toEqual(counts)
    const copied = counts.map((count) => ({ ...count, target: count.source }))
    expect(await copyRows(TABLES, from, to)).toEqual(copied)
    expect(await copyRows(TABLES, from, to)).toEqual(copied)
    const sum = 'SELECT sum(pieces) AS sum FROM sh_stock'
    expect(Number((await target?.first<{ sum: number }>(sum))?.sum)).toBe((1_202 * 1_203) / 2)
  })

  test('a store whose app never kept a row is left without its tables', async () => {
    const from = (await PLACES[0]?.[1]()) as string
    expect(await copyRows(TABLES, from, null)).toEqual([])
  })

  test('tables of another version are not copied, and the refusal has an action', async () => {
    const from = (await PLACES[0]?.[1]()) as string
    const older = openRows({
      location: from,
      tables: { ...TABLES, versions: TABLES.versions.slice(0, 1) },
      storeOpened: nothingToOpen,
    })
    await older.run(`INSERT INTO sh_stock VALUES ('a', 1)`)
    await older.close()
    await expect(copyRows(TABLES, from, await emptied())).rejects.toThrow(
      /are of version 1, and this program has version 2/,
    )
  })
})

/** The hosts of an address in the other order. */
const reversed = (url: string): string =>
  url.replace(/@([^/]+)/, (_, hosts: string) => `@${hosts.split(',').reverse().join(',')}`)

test('rows are written on the primary when the standby is listed first, and follow a promotion', async () => {
  const cluster = await startCluster()
  onTestFinished(() => cluster.stop())
  const rows = openRows({ location: reversed(cluster.url), tables: TABLES, storeOpened: nothingToOpen })
  onTestFinished(() => rows.close())
  await rows.run('INSERT INTO sh_stock (id, pieces) VALUES ($1, 1)', 'before')
  await cluster.promote()
  // The old primary is alive and does not know that it was demoted.
  await until('rows are written on the new primary', async () => {
    try {
      await rows.run('INSERT INTO sh_stock (id, pieces) VALUES ($1, 1) ON CONFLICT DO NOTHING', 'after')
      return true
    } catch (error) {
      expect(error).toMatchObject({ code: 'STORE_UNREACHABLE' })
      return false
    }
  })
  const promoted = openPool({ url: cluster.standby.url, schema: 'redress_apps', connectionsMax: 1 })
  onTestFinished(() => promoted.end({ timeout: 1 }))
  expect(await promoted.unsafe('SELECT id FROM sh_stock ORDER BY id')).toMatchObject([
    { id: 'after' },
    { id: 'before' },
  ])
})
