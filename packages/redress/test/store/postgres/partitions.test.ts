import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { rawPostgres } from '../../../../../test/support/stores/databases.ts'
import { newJob } from '../../../../../test/support/stores/new-job.ts'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { policy } from '../../../src/core/policy/policy.ts'
import { DAY_MS } from '../../../src/core/text/duration.ts'
import { complete, failed } from '../../../src/store/conformance/bench/changes.ts'
import type { PartitionFacts, PostgresFacts } from '../../../src/store/contract/doctor.ts'
import type { NewJob, PruneRule, Store } from '../../../src/store/contract/store.ts'
import { inPassing } from '../../../src/store/postgres/connection/locks.ts'
import { openPostgresDoctor } from '../../../src/store/postgres/doctor.ts'
import { KNOWN_VERSION } from '../../../src/store/postgres/schema/migrate.ts'
import { openContext, openPostgres } from '../../../src/store/postgres/store.ts'

/** E10: history is append-only. On PostgreSQL it lies in a table for each day, which is dropped and not deleted from. */

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

const RULE: PruneRule = { type: 'plain', completeMs: 10 * DAY_MS, failedMs: null, cancelledMs: 10 * DAY_MS }
const HISTORY = ['events', 'failures'] as const

const job = (id: string): NewJob => newJob({ id, type: 'plain' })

/** A store whose clock we turn, and the same tables for us to look into. */
async function scene(schema: string) {
  let nowMs = Date.UTC(2026, 0, 1)
  const store = await openPostgres({ url: server.url, schema, nowMs: () => nowMs })
  const sql = rawPostgres(server.url, schema)
  onTestFinished(() => store.stop())
  await store.register({ types: [{ name: 'plain', queue: 'default', policy: policy({}) }] })
  const worker = await store.enlist({ id: 'w', host: 'h', pid: 1, types: ['plain'] })
  const run = async (id: string, isFine: boolean): Promise<void> => {
    await store.submit({ jobs: [job(id)] })
    const { leases } = await store.claim({ worker, lanes: [{ type: 'plain', ttlMs: 1000 }], max: 1 })
    const closes = leases.map(({ key, attempt, spent }) => ({
      ...{ key, attempt, ranMs: 1 },
      change: isFine ? complete() : failed({ spent }),
    }))
    expect(await store.close({ worker, closes })).toEqual(['closed'])
  }
  /** What was written until now, was written so many days ago. */
  const age = async (days: number): Promise<void> => {
    nowMs += days * DAY_MS
    for (const table of HISTORY) {
      const name = `${table}_${await dayAgo(days)}`
      await sql.unsafe(
        `CREATE TABLE ${name} PARTITION OF ${table} FOR VALUES IN ('${(await dayAgo(days)).replaceAll('_', '-')}')`,
      )
      await sql.unsafe(`UPDATE ${table} SET day = current_date - ${days} WHERE day = current_date`)
    }
  }
  const dayAgo = async (days: number): Promise<string> => {
    const [row] = await sql`SELECT to_char(current_date - ${days}::int, 'YYYY_MM_DD') AS day`
    return row?.day
  }
  const rowsIn = async (table: string): Promise<number> =>
    (await sql`SELECT count(*)::int AS n FROM ${sql(table)}`)[0]?.n
  const hasTable = async (name: string): Promise<boolean> =>
    (await sql`SELECT to_regclass(${name}) IS NOT NULL AS there`)[0]?.there
  const prune = () => store.prune({ rules: [RULE], after: 0, limit: 1000 })
  return { store, sql, run, age, dayAgo, rowsIn, hasTable, prune }
}

const kindsOf = async (store: Store, id: string) => (await store.events({ id })).map(({ kind }) => kind)

test('what happens lies in the table of its day, and the next days have theirs already', async () => {
  const { run, rowsIn, dayAgo } = await scene('today')
  await run('one', false)
  expect(await rowsIn(`events_${await dayAgo(0)}`)).toBe(2)
  expect(await rowsIn(`failures_${await dayAgo(0)}`)).toBe(1)
  for (const ahead of [1, 2, 3]) {
    for (const table of HISTORY) expect(await rowsIn(`${table}_${await dayAgo(-ahead)}`)).toBe(0)
  }
})

test('removing jobs deletes none of their history, and yet nobody is shown it any more', async () => {
  const { store, run, age, dayAgo, rowsIn, prune } = await scene('removing')
  for (let n = 0; n < 20; n++) await run(`fine-${n}`, true)
  // Past the retention; but what was begun on that day may have ended on the next.
  await age(11)
  expect(await prune()).toMatchObject({ removed: 20 })
  expect(await rowsIn(`events_${await dayAgo(11)}`)).toBe(40)
  expect(await kindsOf(store, 'fine-1')).toEqual([])
  expect(await store.feed({ afterSeq: 0, limit: 100 })).toMatchObject({ events: [], removedToSeq: 80 })
})

test('the table of a day is dropped when all that can go has gone', async () => {
  const { store, run, age, dayAgo, hasTable, prune } = await scene('dropping')
  for (let n = 0; n < 20; n++) await run(`fine-${n}`, true)
  await age(13)
  await run('new', true)
  expect(await prune()).toMatchObject({ removed: 20 })
  expect(await hasTable(`events_${await dayAgo(13)}`)).toBe(false)
  expect(await kindsOf(store, 'new')).toEqual(['queued', 'processing', 'complete'])
  expect((await store.feed({ afterSeq: 80, limit: 100 })).events).toHaveLength(3)
})

test('a job that stays keeps its history when its day goes, and takes it along when it goes itself', async () => {
  const { store, sql, run, age, dayAgo, rowsIn, hasTable, prune } = await scene('kept')
  await run('fine', true)
  await run('broken', false)
  const before = { events: await store.events({ id: 'broken' }), failures: await store.failures({ id: 'broken' }) }
  await store.pauseQueue({ name: 'default', by: { actor: 'ann', reason: 'a test' }, forMs: null })
  await age(20)
  const day = await dayAgo(20)
  expect(await prune()).toMatchObject({ removed: 1 })
  expect(await hasTable(`events_${day}`)).toBe(false)
  expect(await hasTable(`failures_${day}`)).toBe(false)
  expect({ events: await store.events({ id: 'broken' }), failures: await store.failures({ id: 'broken' }) }).toEqual(
    before,
  )
  expect(await rowsIn('failures_kept')).toBe(1)
  const told = (await store.feed({ afterSeq: 0, limit: 100 })).events.map(({ subject, kind }) => subject ?? kind)
  expect(told).toEqual(['queued', 'processing', 'failed', 'queue:default'])
  expect(await sql`SELECT 1 FROM cursors WHERE name LIKE 'emptying%'`).toEqual([])
  await store.prune({ rules: [{ ...RULE, failedMs: DAY_MS }], after: 0, limit: 1000 })
  // That the queue was paused is no job's.
  expect([await rowsIn('events_kept'), await rowsIn('failures_kept')]).toEqual([1, 0])
})

test('where everything is kept for ever no day is ever looked at', async () => {
  const { store, run, age, dayAgo, hasTable } = await scene('for_ever')
  await run('fine', true)
  await age(4000)
  const rule = { type: 'plain', completeMs: null, failedMs: null, cancelledMs: null }
  await store.prune({ rules: [rule], after: 0, limit: 10 })
  expect(await hasTable(`events_${await dayAgo(4000)}`)).toBe(true)
})

test('a day without a table loses nothing: the doctor says so, and the next days get theirs', async () => {
  const { store, sql, run, dayAgo, rowsIn, hasTable, prune } = await scene('late')
  for (const table of HISTORY) {
    for (const ahead of [0, 1, 2, 3]) await sql.unsafe(`DROP TABLE ${table}_${await dayAgo(-ahead)}`)
  }
  await run('one', false)
  expect(await rowsIn('events_rest')).toBe(2)
  const doctor = openPostgresDoctor({ url: server.url, schema: 'late', nowMs: Date.now })
  const { base } = await doctor.facts({ isDeep: false })
  await doctor.stop()
  expect(base).toMatchObject({ partitions: { filledRests: ['events_rest', 'failures_rest'] } })
  expect((base as unknown as { partitions: { missing: string[] } }).partitions.missing).toHaveLength(4)
  await prune()
  expect(await hasTable(`events_${await dayAgo(0)}`)).toBe(false)
  expect(await hasTable(`events_${await dayAgo(-1)}`)).toBe(true)
  expect(await kindsOf(store, 'one')).toEqual(['queued', 'processing', 'failed'])
  await store.prune({ rules: [{ ...RULE, failedMs: 0 }], after: 0, limit: 10 })
  expect([await rowsIn('events_rest'), await rowsIn('failures_rest')]).toEqual([0, 0])
})

/** Two long readers: a forgotten transaction, and one like pg_dump, which locks every table of the schema. */
async function longReaders(schema: string): Promise<{ pids: number[]; leave(): Promise<void> }> {
  const sql = rawPostgres(server.url, schema)
  const [forgotten, dump] = [await sql.reserve(), await sql.reserve()]
  await forgotten`BEGIN`
  await forgotten`SELECT count(*) FROM events`
  const tables = await dump<{ name: string }[]>`
    SELECT oid::regclass::text AS name FROM pg_class WHERE relnamespace = ${schema}::regnamespace AND relkind IN ('r', 'p')`
  await dump`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`
  await dump.unsafe(`SET application_name = 'pg_dump'`)
  await dump.unsafe(`LOCK TABLE ${tables.map(({ name }) => name).join(', ')} IN ACCESS SHARE MODE`)
  const pids = [forgotten, dump].map(async (one) => (await one`SELECT pg_backend_pid() AS pid`)[0]?.pid as number)
  let isThere = true
  const leave = async (): Promise<void> => {
    if (!isThere) return
    isThere = false
    for (const one of [forgotten, dump]) {
      await one`ROLLBACK`
      one.release()
    }
  }
  onTestFinished(leave)
  return { pids: await Promise.all(pids), leave }
}

test('work goes on behind long readers at midnight; the tables are made when they have left', async () => {
  const { store, sql, run, dayAgo, rowsIn, hasTable, prune } = await scene('midnight')
  for (const table of HISTORY) {
    for (const ahead of [0, 1, 2, 3]) await sql.unsafe(`DROP TABLE ${table}_${await dayAgo(-ahead)}`)
  }
  const { pids, leave } = await longReaders('midnight')
  // A process that starts finds no table of today, and cannot make one.
  const started = await openPostgres({ url: server.url, schema: 'midnight', nowMs: () => Date.UTC(2026, 0, 1) })
  const maintenance = Promise.all([prune(), prune()])
  for (let n = 0; n < 20; n++) await run(`during-${n}`, n % 2 === 0)
  const worker = await started.enlist({ id: 'new', host: 'h', pid: 2, types: ['plain'] })
  await started.submit({ jobs: [job('held')] })
  const { leases } = await started.claim({ worker, lanes: [{ type: 'plain', ttlMs: 1000 }], max: 1 })
  const renewal = leases.map(({ key, attempt }) => ({ key, attempt, ttlMs: 1000 }))
  expect(await started.renew({ worker, leases: renewal })).toMatchObject({ lost: [] })
  await maintenance
  expect(await hasTable(`events_${await dayAgo(-1)}`)).toBe(false)
  expect(await rowsIn('events_rest')).toBeGreaterThan(40)

  const doctor = openPostgresDoctor({ url: server.url, schema: 'midnight', nowMs: Date.now })
  const { base } = await doctor.facts({ isDeep: false })
  await doctor.stop()
  const { readers, missing } = (base as PostgresFacts).partitions as PartitionFacts
  expect(missing).toHaveLength(4)
  expect(readers.map(({ pid }) => pid)).toEqual(expect.arrayContaining(pids))
  expect(readers.find(({ pid }) => pid === pids[1])).toMatchObject({
    what: expect.stringMatching(/^pg_dump of postgres.*idle in transaction$/),
    forMs: expect.any(Number),
    query: expect.stringContaining('SELECT pg_backend_pid()'),
  })

  await leave()
  await prune()
  for (const table of HISTORY) expect(await hasTable(`${table}_${await dayAgo(-1)}`)).toBe(true)
  // What was begun without a table is finished without one.
  expect(await hasTable(`events_${await dayAgo(0)}`)).toBe(false)
  expect(await kindsOf(store, 'during-0')).toEqual(['queued', 'processing', 'complete'])
  await started.stop()
})

test('a transaction that has written to the history and stays open does not keep tables from being made', async () => {
  const { sql, dayAgo, hasTable, prune } = await scene('open_writer')
  for (const table of HISTORY) await sql.unsafe(`DROP TABLE ${table}_${await dayAgo(-3)}`)
  const writer = await sql.reserve()
  await writer`BEGIN`
  await writer`INSERT INTO events (job, at, kind, attempt) VALUES (0, 1, 'queued', 0)`
  await prune()
  const isMade = await hasTable(`events_${await dayAgo(-3)}`)
  await writer`ROLLBACK`
  writer.release()
  expect(isMade).toBe(true)
})

test('maintenance of daily tables waits 100 ms for a lock, once', async () => {
  const { sql } = await scene('passing')
  const context = await openContext({ url: server.url, schema: 'passing' })
  onTestFinished(() => context.stop())
  const reader = await sql.reserve()
  await reader`BEGIN`
  await reader`LOCK TABLE events IN ACCESS SHARE MODE`
  const waits: string[] = []
  const isDone = await inPassing(
    (run) => context.write('locking the history', run),
    async (tx) => {
      const [row] = await tx<{ ms: string }[]>`SELECT current_setting('lock_timeout') AS ms`
      waits.push(row?.ms ?? '')
      await tx`LOCK TABLE events IN ACCESS EXCLUSIVE MODE`
    },
  )
  await reader`ROLLBACK`
  reader.release()
  expect({ isDone, waits }).toEqual({ isDone: false, waits: ['100ms'] })
})

test('the table of an old day is dropped when long readers have left, and work goes on until then', async () => {
  const { store, run, age, dayAgo, hasTable, prune } = await scene('old_day')
  for (let n = 0; n < 5; n++) await run(`fine-${n}`, true)
  await run('broken', false)
  await age(13)
  const { leave } = await longReaders('old_day')
  const [pruned] = await Promise.all([prune(), run('during', true)])
  expect(pruned).toMatchObject({ removed: 5 })
  expect(await hasTable(`events_${await dayAgo(13)}`)).toBe(true)
  await leave()
  await prune()
  expect(await hasTable(`events_${await dayAgo(13)}`)).toBe(false)
  expect(await kindsOf(store, 'broken')).toEqual(['queued', 'processing', 'failed'])
  expect(await kindsOf(store, 'during')).toEqual(['queued', 'processing', 'complete'])
})

test('a process that starts while today has its tables creates none, and waits for no lock', async () => {
  const { sql, dayAgo, hasTable, prune } = await scene('ready')
  for (const table of HISTORY) await sql.unsafe(`DROP TABLE ${table}_${await dayAgo(-3)}`)
  // Whoever makes tables of a store takes this lock.
  const other = await sql.reserve()
  await other`BEGIN`
  await other`SELECT pg_advisory_xact_lock(${0x72647273})`
  const started = await openPostgres({ url: server.url, schema: 'ready' })
  await started.stop()
  await other`ROLLBACK`
  other.release()
  expect(await hasTable(`events_${await dayAgo(-3)}`)).toBe(false)
  await prune()
  expect(await hasTable(`events_${await dayAgo(-3)}`)).toBe(true)
})

test('a table that is attached is like one that was made with the history', async () => {
  const { sql, dayAgo } = await scene('alike')
  const of = async (table: string) => {
    const columns = await sql`
      SELECT attname, format_type(atttypid, atttypmod) AS type, attnotnull FROM pg_attribute
      WHERE attrelid = ${table}::regclass AND attnum > 0 ORDER BY attnum`
    const indexes = await sql`
      SELECT pg_get_indexdef(indexrelid, 1, true) AS first, indisprimary, indnatts,
        (SELECT inhparent::regclass::text FROM pg_inherits WHERE inhrelid = indexrelid) AS parent
      FROM pg_index WHERE indrelid = ${table}::regclass ORDER BY 4`
    const checks = await sql`
      SELECT pg_get_constraintdef(oid) AS says FROM pg_constraint
      WHERE conrelid = ${table}::regclass AND contype = 'c' ORDER BY 1`
    return JSON.stringify([columns, indexes, checks])
  }
  for (const table of HISTORY) expect(await of(`${table}_${await dayAgo(0)}`)).toBe(await of(`${table}_kept`))
})

test('several processes that prune at once drop each day once', async () => {
  const { store, run, age, dayAgo, hasTable } = await scene('together')
  for (let n = 0; n < 10; n++) await run(`${n}`, n % 2 === 0)
  await age(30)
  const others = await Promise.all(
    [1, 2, 3].map(() => openPostgres({ url: server.url, schema: 'together', nowMs: () => Date.UTC(2026, 0, 31) })),
  )
  const pruned = await Promise.all([store, ...others].map((one) => one.prune({ rules: [RULE], after: 0, limit: 100 })))
  expect(pruned.reduce((sum, { removed }) => sum + removed, 0)).toBe(5)
  expect(await hasTable(`events_${await dayAgo(30)}`)).toBe(false)
  expect(await kindsOf(store, '1')).toEqual(['queued', 'processing', 'failed'])
  for (const one of others) await one.stop()
})

test('a program of the version before goes on with a store that was only added to', async () => {
  const opened = await openContext({ url: server.url, schema: 'ahead' })
  await opened.sql`UPDATE redress_version SET version = version + 1`
  const again = await openContext({ url: server.url, schema: 'ahead' })
  expect((await again.sql`SELECT version FROM redress_version`)[0]?.version).toBe(KNOWN_VERSION + 1)
  await opened.sql`UPDATE redress_version SET oldest = version`
  await expect(openContext({ url: server.url, schema: 'ahead' })).rejects.toMatchObject({ code: 'STORE_TOO_NEW' })
  await opened.stop()
  await again.stop()
})

test('a user who may not make schemas uses one that was made for it', async () => {
  const sql = rawPostgres(server.url, 'public')
  await sql.unsafe(`CREATE ROLE tenant LOGIN; CREATE SCHEMA given AUTHORIZATION tenant`)
  const url = new URL(server.url)
  url.username = 'tenant'
  const opened = await openContext({ url: url.href, schema: 'given' })
  expect(await opened.now(opened.sql)).toBeGreaterThan(0)
  await opened.stop()
})
