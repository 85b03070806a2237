import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { fillStore } from '../../../../../test/support/stores/full-store.ts'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { openRaw, temporaryFolder } from '../../../../../test/support/stores/sqlite.ts'
import { policy } from '../../../src/core/policy/policy.ts'
import { COPIED_TABLES, type CopySource, type CopyTarget } from '../../../src/store/contract/copying.ts'
import type { NewJob, Store } from '../../../src/store/contract/store.ts'
import { copyStore, planCopy } from '../../../src/store/copy/copy.ts'
import { openPool, type Pool } from '../../../src/store/postgres/connection/client.ts'
import { openPostgresSource, openPostgresTarget } from '../../../src/store/postgres/copying.ts'
import { openContext, openPostgres } from '../../../src/store/postgres/store.ts'
import { openSqliteSource, openSqliteTarget } from '../../../src/store/sqlite/copying.ts'
import { openSqlite } from '../../../src/store/sqlite/store.ts'
import { refusal as refused } from '../../operations/bench.ts'

const OPTIONS = { isInUseAllowed: false }
/** Long after everything in the store: no worker of it is at work any more. */
const LATER_MS = Date.UTC(2100, 0, 1)

let server: TestPostgres
let schemas = 0
/** A schema of the test's own. */
let schema: string

beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())
beforeEach(() => {
  schema = `copy_${process.pid}_${++schemas}`
})

const refusal = (call: () => Promise<unknown>) => refused(call())
const closing = <T extends { stop(): Promise<unknown> }>(one: T): T => {
  onTestFinished(() => void one.stop())
  return one
}
const fromSqlite = (path: string, nowMs = LATER_MS): CopySource =>
  closing(openSqliteSource({ path, nowMs: () => nowMs }))
const toPostgres = async (name = schema): Promise<CopyTarget> =>
  closing(await openPostgresTarget({ url: server.url, schema: name }))
const fromPostgres = async (): Promise<CopySource> => closing(await openPostgresSource({ url: server.url, schema }))

function rawPostgres(name = schema): Pool {
  const sql = openPool({ url: server.url, schema: name, connectionsMax: 1 })
  onTestFinished(() => sql.end())
  return sql
}

async function filledFile(): Promise<string> {
  const path = join(temporaryFolder(), 'redress.db')
  await fillStore(path)
  return path
}

const newJob = (type: string): NewJob => ({
  ...{ id: 'new', type, payload: '{}', owner: null, priority: 0, delayMs: 0, dedupe: null, retriedFrom: null },
  ...{ rejected: null, batch: null, limitKey: null },
})

const sqliteRows = (database: DatabaseSync, table: string, order: readonly string[]): object[] =>
  database
    .prepare(`SELECT * FROM ${table} ORDER BY ${order.map((column) => `"${column}"`)}`)
    .all()
    .map((row) => ({ ...row }))

const postgresRows = async (sql: Pool, table: string, order: readonly string[]): Promise<object[]> =>
  // By bytes, as SQLite orders texts.
  (await sql.unsafe(`SELECT * FROM ${table} ORDER BY ${order.map((column) => `"${column}"`)}`)).map((row) => ({
    ...row,
  }))

/** Without the columns that only one side has. */
const only = (rows: readonly object[], columns: readonly string[]): object[] =>
  rows.map((row) => Object.fromEntries(Object.entries(row).filter(([name]) => columns.includes(name))))

async function expectSameRows(path: string): Promise<void> {
  const [database, sql] = [openRaw(path), rawPostgres()]
  for (const { name, order } of COPIED_TABLES) {
    const there = sqliteRows(database, name, order)
    expect(there.length, name).toBeGreaterThan(0)
    expect(only(await postgresRows(sql, name, order), Object.keys(there[0] ?? {})), name).toEqual(there)
  }
}

describe('the list of tables', () => {
  test('names every table that a SQLite store has', () => {
    const path = join(temporaryFolder(), 'redress.db')
    closing(openSqlite({ path, nowMs: () => 0 }))
    const tables = openRaw(path)
      .prepare(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`)
      .all()
    expect(tables.map(({ name }) => name)).toEqual(COPIED_TABLES.map(({ name }) => name).toSorted())
  })

  test('names every table that a PostgreSQL store has, and every column whose numbers the database gives', async () => {
    closing(await openContext({ url: server.url, schema }))
    const sql = rawPostgres()
    const tables = await sql<{ name: string }[]>`
      SELECT relname::text AS name FROM pg_class
      WHERE relnamespace = ${schema}::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1`
    const others = tables.map(({ name }) => name).filter((table) => !COPIED_TABLES.some(({ name }) => name === table))
    // The traits are made by a trigger; failures that are not counted yet belong to transactions of one server.
    expect(others).toEqual(['letter_traits', 'redress_version', 'uncounted_failures'])
    const numbered = await sql<{ name: string; numbered: string }[]>`
      SELECT attrelid::regclass::text AS name, attname::text AS numbered FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
      WHERE relnamespace = ${schema}::regnamespace AND attidentity <> '' AND NOT relispartition`
    const known = COPIED_TABLES.flatMap(({ name, numbered }) => (numbered === undefined ? [] : [{ name, numbered }]))
    const byName = (a: { name: string }, b: { name: string }) => a.name.localeCompare(b.name)
    expect(numbered.map((row) => ({ ...row })).sort(byName)).toEqual(known.toSorted(byName))
  })
})

describe('a copy from SQLite to PostgreSQL', () => {
  test('has every row of every table, as it was', async () => {
    const path = await filledFile()
    const copied = await copyStore(fromSqlite(path), await toPostgres(), OPTIONS)
    expect(copied).toMatchObject({ isWhole: true, textsChanged: 0, eventsMissed: 0, workers: [] })
    await expectSameRows(path)
  })

  test('is a store like any other: it answers as the file does, and goes on from there', async () => {
    const path = await filledFile()
    await copyStore(fromSqlite(path), await toPostgres(), OPTIONS)
    const nowMs = () => Date.UTC(2026, 0, 3)
    const before = closing(openSqlite({ path, nowMs }))
    const after = closing(await openPostgres({ url: server.url, schema, nowMs }))
    for (const ask of [
      (store: Store) => store.jobs({ limit: 100 }),
      (store: Store) => store.deadLetters({ afterOffset: 0, limit: 100 }),
      (store: Store) => store.feed({ afterSeq: 0, limit: 1000 }),
      async (store: Store) => (await store.counts()).toSorted((a, b) => a.type.localeCompare(b.type)),
      (store: Store) => store.lastSeq(),
    ]) {
      expect(await ask(after)).toEqual(await ask(before))
    }
    const { events } = await after.feed({ afterSeq: 0, limit: 1000 })
    await after.submit({ jobs: [newJob('fine')] })
    const { events: more } = await after.feed({ afterSeq: await before.lastSeq(), limit: 10 })
    expect(more.map(({ seq }) => seq)).toEqual([(events.at(-1)?.seq ?? 0) + 2])
  })

  test('gives no number again, also not one whose row is gone', async () => {
    const path = await filledFile()
    await copyStore(fromSqlite(path), await toPostgres(), OPTIONS)
    const [database, sql] = [openRaw(path), rawPostgres()]
    for (const { name, numbered } of COPIED_TABLES) {
      if (numbered === undefined) continue
      const max = Number(database.prepare(`SELECT max("${numbered}") AS max FROM ${name}`).get()?.max)
      const ever = Number(database.prepare('SELECT seq FROM sqlite_sequence WHERE name = ?').get(name)?.seq ?? 0)
      if (name === 'dead_letters') expect(ever).toBeGreaterThan(max)
      const [next] = await sql`SELECT nextval(pg_get_serial_sequence(${name}, ${numbered})) AS next`
      expect(next?.next, name).toBe(Math.max(max, ever) + 1)
    }
  })

  test('goes on from the number of the newest event that was removed, where that is the highest', async () => {
    const path = await filledFile()
    openRaw(path).exec(`
      UPDATE cursors SET position = 90000 WHERE name = 'failure_groups';
      INSERT INTO cursors VALUES ('removed_events', 100000) ON CONFLICT DO UPDATE SET position = 100000`)
    await copyStore(fromSqlite(path), await toPostgres(), OPTIONS)
    const [next] = await rawPostgres()`
      SELECT nextval(pg_get_serial_sequence('events', 'seq')) AS event,
        nextval(pg_get_serial_sequence('failures', 'seq')) AS failure`
    expect({ ...next }).toEqual({ event: 100_001, failure: 90_001 })
  })

  test('an empty store gives an empty store whose numbers begin at 1', async () => {
    const path = join(temporaryFolder(), 'redress.db')
    await openSqlite({ path, nowMs: () => 0 }).stop()
    const copied = await copyStore(fromSqlite(path), await toPostgres(), OPTIONS)
    expect(copied.tables.every(({ source, target }) => source === 0 && target === 0)).toBe(true)
    const [next] = await rawPostgres()`SELECT nextval(pg_get_serial_sequence('job_specs', 'key')) AS next`
    expect(next?.next).toBe(1)
  })

  test('replaces the one character that PostgreSQL cannot hold, and says how often', async () => {
    const path = await filledFile()
    openRaw(path).exec(`UPDATE failures SET detail = 'a' || char(0) || 'b', context = '{"x":"\\u0000"}' WHERE seq = 1`)
    const copied = await copyStore(fromSqlite(path), await toPostgres(), OPTIONS)
    expect(copied).toMatchObject({ isWhole: true, textsChanged: 1 })
    const [row] = await rawPostgres()`SELECT detail, context FROM failures WHERE seq = 1`
    expect({ ...row }).toEqual({ detail: 'a\ufffdb', context: '{"x":"\\u0000"}' })
  })

  test('tells how far it is', async () => {
    const path = await filledFile()
    const told: string[] = []
    const onProgress = ({ table, rows, total }: { table: string; rows: number; total: number }) =>
      void told.push(`${table} ${rows}/${total}`)
    const { tables } = await copyStore(fromSqlite(path), await toPostgres(), { ...OPTIONS, onProgress })
    const jobs = tables.find(({ table }) => table === 'jobs')?.source
    expect(told).toContain(`jobs 0/${jobs}`)
    expect(told).toContain(`jobs ${jobs}/${jobs}`)
  })
})

describe('other ways', () => {
  test('from PostgreSQL to another PostgreSQL and back into a file, every row and every next number is the same', async () => {
    const path = await filledFile()
    await copyStore(fromSqlite(path), await toPostgres(), OPTIONS)
    const first = await fromPostgres()
    schema = `${schema}_b`
    await copyStore(first, await toPostgres(), OPTIONS)
    await expectSameRows(path)
    const back = join(temporaryFolder(), 'back.db')
    const copied = await copyStore(await fromPostgres(), closing(openSqliteTarget(back)), OPTIONS)
    expect(copied.isWhole).toBe(true)
    const [before, after] = [openRaw(path), openRaw(back)]
    for (const { name, order } of COPIED_TABLES) {
      const rows = sqliteRows(before, name, order)
      expect(only(sqliteRows(after, name, order), Object.keys(rows[0] ?? {})), name).toEqual(rows)
    }
    const numbers = (database: DatabaseSync) => sqliteRows(database, 'sqlite_sequence', ['name'])
    expect(numbers(after)).toEqual(numbers(before))
  })

  test('failures that PostgreSQL has not counted into their groups yet are counted first', async () => {
    const path = await filledFile()
    await copyStore(fromSqlite(path), await toPostgres(), OPTIONS)
    await rawPostgres()`INSERT INTO uncounted_failures VALUES (1, 1, 1)`
    expect(await refusal(fromPostgres)).toMatchObject({
      code: 'STORE_IN_USE',
      action: expect.stringContaining('redress failures list'),
    })
  })

  test('from one file to another', async () => {
    const path = await filledFile()
    const other = join(temporaryFolder(), 'folder/other.db')
    const copied = await copyStore(fromSqlite(path), closing(openSqliteTarget(other)), OPTIONS)
    expect(copied.isWhole).toBe(true)
    expect(sqliteRows(openRaw(other), 'events', ['seq'])).toEqual(sqliteRows(openRaw(path), 'events', ['seq']))
  })
})

describe('what stands in the way', () => {
  test('a target that holds anything is refused and left as it is', async () => {
    const path = await filledFile()
    const target = await toPostgres()
    await copyStore(fromSqlite(path), target, OPTIONS)
    expect(await refusal(() => copyStore(fromSqlite(path), target, OPTIONS))).toMatchObject({
      code: 'STORE_NOT_EMPTY',
      message: expect.stringContaining('is not empty: job_types (6)'),
    })
    expect(await refusal(() => planCopy(fromSqlite(path), target, OPTIONS))).toMatchObject({ code: 'STORE_NOT_EMPTY' })
    await expectSameRows(path)
  })

  test('a worker that was just seen at the source, unless that is allowed', async () => {
    const path = await filledFile()
    const database = openRaw(path)
    const seenAtMs = Number(database.prepare('SELECT max(seen_at) AS at FROM workers').get()?.at)
    const busy = await refusal(async () => copyStore(fromSqlite(path, seenAtMs + 29_000), await toPostgres(), OPTIONS))
    expect(busy).toMatchObject({ code: 'STORE_IN_USE', message: expect.stringContaining('worker-1') })
    expect(await (await toPostgres()).filled()).toEqual([])
    const copied = await copyStore(fromSqlite(path, seenAtMs + 29_000), await toPostgres(), { isInUseAllowed: true })
    expect(copied).toMatchObject({ isWhole: true, workers: ['worker-1'] })
    database.exec('UPDATE workers SET stopped_at = seen_at')
    schema = `${schema}_b`
    await copyStore(fromSqlite(path, seenAtMs), await toPostgres(), OPTIONS)
  })

  test('somebody who writes to the source meanwhile: nothing is copied; or it is said how much is missing', async () => {
    const path = await filledFile()
    const database = openRaw(path)
    const write = ({ table, rows }: { table: string; rows: number }) => {
      if (table === 'jobs' && rows === 0)
        database.exec(`INSERT INTO events (job, at, kind, attempt) VALUES (1, 1, 'x', 0)`)
    }
    const target = await toPostgres()
    const copying = (isInUseAllowed: boolean) =>
      copyStore(fromSqlite(path), target, { isInUseAllowed, onProgress: write })
    expect(await refusal(() => copying(false))).toMatchObject({
      code: 'STORE_IN_USE',
      message: expect.stringContaining('was written to while it was copied (1 new events); nothing was copied'),
    })
    expect(await target.filled()).toEqual([])
    expect(await copying(true)).toMatchObject({ isWhole: true, eventsMissed: 1 })
    const [count] = await rawPostgres()`SELECT count(*) AS count FROM events WHERE kind = 'x'`
    expect(count?.count).toBe(1)
  })

  test('a commit with a lower number than one that is copied is not missed', async () => {
    const [from, to] = [schema, `${schema}_to`]
    const store = closing(await openPostgres({ url: server.url, schema: from }))
    await store.register({ types: [{ name: 'work', queue: 'default', policy: policy() }] })
    await store.submit({ jobs: [newJob('work')] })
    const writer = await rawPostgres(from).reserve()
    const begin = async () => {
      await writer`BEGIN`
      await writer`INSERT INTO events (job, at, kind, attempt, subject) VALUES (0, 1, 'x', 0, 'queue:x')`
    }
    const next = { ...newJob('work'), id: 'next' }
    const copying = async (before: () => Promise<unknown>) => {
      const source = await fromPostgres()
      await before()
      return copyStore(source, await toPostgres(to), OPTIONS)
    }
    await begin()
    await store.submit({ jobs: [next] })
    const inUse = { code: 'STORE_IN_USE', message: expect.stringContaining('was written to while it was copied') }
    expect(await refusal(() => copying(async () => undefined))).toMatchObject(inUse)
    expect(await refusal(() => copying(async () => writer`COMMIT`))).toMatchObject(inUse)
    await begin()
    await store.submit({ jobs: [{ ...next, id: 'third' }] })
    // Numbers of a transaction that was undone never come.
    expect(await copying(async () => writer`ROLLBACK`)).toMatchObject({ isWhole: true, eventsMissed: 0 })
    writer.release()
    const [count] = await rawPostgres(to)`SELECT count(*) AS count FROM events WHERE kind = 'x'`
    expect(count?.count).toBe(1)
  })

  test('counts that differ: it is said where, and the target stays empty', async () => {
    const path = await filledFile()
    const source = fromSqlite(path)
    const target = await toPostgres()
    const short: CopySource = {
      ...source,
      async *chunksOf(table, columns) {
        for await (const chunk of source.chunksOf(table, columns)) yield table.name === 'audit' ? chunk.slice(1) : chunk
      },
    }
    const copied = await copyStore(short, target, OPTIONS)
    const differing = copied.tables.filter(({ source: from, target: to }) => from !== to)
    expect(copied.isWhole).toBe(false)
    expect(differing.map(({ table }) => table)).toEqual(['audit'])
    expect(await target.filled()).toEqual([])
  })

  test('a row that the target refuses: it says which table and why, and the target stays empty', async () => {
    const path = await filledFile()
    openRaw(path).exec('PRAGMA ignore_check_constraints = 1; UPDATE batches SET total = 99')
    const target = await toPostgres()
    expect(await refusal(() => copyStore(fromSqlite(path), target, OPTIONS))).toMatchObject({
      code: 'STORE_FAILED',
      message: expect.stringContaining('the_counts_sum'),
    })
    expect(await target.filled()).toEqual([])
  })

  test('a target that somebody is just writing to is waited for, and then not empty', async () => {
    const path = await filledFile()
    const context = closing(await openContext({ url: server.url, schema }))
    const target = await toPostgres()
    const committing = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    const writing = context.write('testing', async (tx) => {
      await tx`INSERT INTO meters (name, tokens, at) VALUES ('x', 1, 1)`
      begun.resolve()
      await committing.promise
    })
    await begun.promise
    const copying = refusal(() => copyStore(fromSqlite(path), target, OPTIONS))
    await context.sql`SELECT 1`
    committing.resolve()
    await writing
    expect(await copying).toMatchObject({ code: 'STORE_NOT_EMPTY', message: expect.stringContaining('meters (1)') })
  })

  test.each([
    ['older', 1, 'STORE_TOO_OLD'],
    ['newer', 99, 'STORE_TOO_NEW'],
  ])('a source of an %s version', async (_which, version, code) => {
    const path = await filledFile()
    openRaw(path).exec(`PRAGMA user_version = ${version}`)
    expect(await refusal(async () => fromSqlite(path))).toMatchObject({ code })
  })

  test('a source that is not there, or not ours', async () => {
    const path = join(temporaryFolder(), 'none.db')
    expect(await refusal(async () => fromSqlite(path))).toMatchObject({ code: 'STORE_NOT_FOUND' })
    new DatabaseSync(path).exec('CREATE TABLE theirs (x)')
    expect(await refusal(async () => fromSqlite(path))).toMatchObject({ code: 'STORE_NOT_REDRESS' })
    expect(await refusal(() => closing(openSqliteTarget(path)).filled())).toMatchObject({ code: 'STORE_NOT_REDRESS' })
    expect(await refusal(fromPostgres)).toMatchObject({ code: 'STORE_NOT_FOUND' })
  })
})

test('a plan says what would be copied and changes nothing: there is not even a schema', async () => {
  const path = await filledFile()
  const plan = await planCopy(fromSqlite(path), await toPostgres(), OPTIONS)
  expect(plan.tables.find(({ table }) => table === 'dead_letters')).toEqual({
    table: 'dead_letters',
    source: 6,
    target: null,
  })
  const [found] = await rawPostgres()`SELECT to_regnamespace(${schema}) IS NOT NULL AS found`
  expect(found?.found).toBe(false)
})
