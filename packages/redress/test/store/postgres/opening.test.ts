import postgres from 'postgres'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newJob as plainJob } from '../../../../../test/support/stores/new-job.ts'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { policy } from '../../../src/core/policy/policy.ts'
import { complete, failed } from '../../../src/store/conformance/bench/changes.ts'
import type { Lease, NewJob } from '../../../src/store/contract/store.ts'
import { openPool } from '../../../src/store/postgres/connection/client.ts'
import { openContext, openPostgres } from '../../../src/store/postgres/store.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres({ password: 'hunter2' })
})
afterAll(() => server.stop())

const at = (change: (url: URL) => void): string => {
  const url = new URL(server.url)
  change(url)
  return url.href
}

const refusalOf = (url: string, schema = 'redress') =>
  openContext({ url, schema }).then(
    async (opened) => {
      await opened.stop()
      return 'opened'
    },
    ({ code, message, action }) => ({ code, message, action }),
  )

async function run(...statements: string[]): Promise<void> {
  const sql = postgres(server.url, { onnotice: () => undefined })
  for (const statement of statements) await sql.unsafe(statement)
  await sql.end()
}

test('a wrong password is refused in one sentence that does not name it', async () => {
  const refusal = await refusalOf(at((url) => (url.password = 'wrong-secret')))
  expect(refusal).toMatchObject({ code: 'STORE_DENIED', message: expect.stringContaining('does not let us in') })
  expect(JSON.stringify(refusal)).not.toMatch(/wrong-secret|hunter2/)
})

test('a server that is not there, and a database that is not there, are told apart', async () => {
  expect(await refusalOf('postgres://nobody@127.0.0.1:9/none')).toMatchObject({ code: 'STORE_UNREACHABLE' })
  expect(await refusalOf(at((url) => (url.pathname = '/missing')))).toMatchObject({ code: 'STORE_NOT_FOUND' })
})

test('a user who may not make tables is told what to grant', async () => {
  await run(`CREATE ROLE guest LOGIN PASSWORD 'guest'`)
  const guest = at((url) => Object.assign(url, { username: 'guest', password: 'guest' }))
  expect(await refusalOf(guest)).toMatchObject({ code: 'STORE_DENIED', action: expect.stringContaining('Grant') })
})

test('a server that acknowledges before it has written is refused', async () => {
  await run(`CREATE ROLE hasty SUPERUSER LOGIN PASSWORD 'hasty'`, `ALTER ROLE hasty SET synchronous_commit = off`)
  const hasty = at((url) => Object.assign(url, { username: 'hasty', password: 'hasty' }))
  expect(await refusalOf(hasty)).toMatchObject({ code: 'STORE_NOT_DURABLE' })
})

test('a store of a newer version is left alone', async () => {
  const opened = await openContext({ url: server.url, schema: 'newer' })
  await opened.sql`UPDATE redress_version SET version = 99, oldest = 98`
  await opened.stop()
  expect(await refusalOf(server.url, 'newer')).toMatchObject({
    code: 'STORE_TOO_NEW',
    message: expect.stringContaining('version 99'),
  })
})

test('processes that open a new store at the same moment all find it ready', async () => {
  const opened = await Promise.all(Array.from({ length: 6 }, () => openContext({ url: server.url, schema: 'fresh' })))
  const counts = await Promise.all(opened.map(({ sql }) => sql`SELECT count(*)::int AS n FROM redress_version`))
  expect(counts.map(([row]) => row?.n)).toEqual(Array(6).fill(1))
  for (const one of opened) await one.stop()
})

test('settings of the role change nothing: a job lives as it would without them', async () => {
  const hostile = {
    default_transaction_isolation: 'serializable',
    default_transaction_deferrable: 'on',
    DateStyle: 'German, DMY',
    TimeZone: 'Pacific/Kiritimati',
    IntervalStyle: 'sql_standard',
    bytea_output: 'escape',
    search_path: 'nowhere',
    statement_timeout: '1ms',
    lock_timeout: '1ms',
    idle_in_transaction_session_timeout: '1ms',
    idle_session_timeout: '1ms',
    extra_float_digits: '-15',
    standard_conforming_strings: 'off',
    array_nulls: 'off',
    transform_null_equals: 'on',
    enable_indexscan: 'off',
    enable_indexonlyscan: 'off',
    enable_nestloop: 'off',
  }
  await run(
    `CREATE ROLE hostile SUPERUSER LOGIN PASSWORD 'hostile'`,
    ...Object.entries(hostile).map(([name, value]) => `ALTER ROLE hostile SET ${name} = '${value}'`),
  )
  const url = at((one) => Object.assign(one, { username: 'hostile', password: 'hostile' }))
  const store = await openPostgres({ url, schema: 'hostile' })
  const progress = 0.123_456_789_012_345
  const type = { name: 'work', queue: 'default', policy: policy({ concurrency: { max: 5 } }) }
  await store.register({ types: [type, { ...type, name: 'plain', policy: policy({}) }] })
  const worker = await store.enlist({ id: 'ann', host: 'here', pid: 1, types: ['work', 'plain'] })
  const newJob = (type: string, payload: string): NewJob => plainJob({ type, payload })
  const jobs = ['work', 'plain'].map((of) => newJob(of, String.raw`{"text":"a \\ back\\slash, 'quotes' and NULL"}`))
  const dedupe = { key: 'once', scope: 'live' } as const
  await store.submit({ jobs: [...jobs, { ...newJob('plain', 'null'), dedupe }] })
  const lanes = ['work', 'plain'].map((of) => ({ type: of, ttlMs: 60_000 }))
  const { leases } = await store.claim({ worker, lanes, max: 3 })
  expect(leases.map(({ payload }) => payload).toSorted()).toEqual(
    [...jobs.map(({ payload }) => payload), 'null'].toSorted(),
  )
  await store.start({ worker, attempts: leases.map(({ key, attempt }) => ({ key, attempt, agoMs: 0 })) })
  const renewed = await store.renew({
    worker,
    leases: leases.map(({ key, attempt }) => ({ key, attempt, ttlMs: 60_000 })),
  })
  const reported = {
    lines: [],
    dropped: 0,
    progress: { fraction: progress, done: null, total: null, note: null, isEvent: true },
  }
  const reports = leases.map(({ key, attempt }) => ({ key, attempt, ...reported }))
  expect(await store.report({ worker, reports })).toEqual({ lost: [] })
  expect(renewed.lost).toEqual([])
  const [first, ...others] = leases as [Lease, ...Lease[]]
  expect((await store.job({ id: first.id }))?.progress).toBe(progress)
  const closes = leases.map((lease) => ({
    ...{ key: lease.key, attempt: lease.attempt, ranMs: 1 },
    change: lease === first ? failed(lease) : complete('{}'),
  }))
  expect(await store.close({ worker, closes })).toEqual(leases.map(() => 'closed'))
  expect(await store.failures({ id: first.id })).toHaveLength(1)
  const statuses = await Promise.all(others.map(async ({ id }) => (await store.job({ id }))?.status))
  expect(statuses).toEqual(['complete', 'complete'])
  expect((await store.events({ id: first.id })).map(({ kind }) => kind)).toContain('failed')
  await store.prune({ rules: [], after: 0, limit: 100 })
  await store.stop()
  // The history lies in the table of the day as it is in UTC.
  const sql = openPool({ url, schema: 'hostile', connectionsMax: 1 })
  const [row] = await sql`SELECT count(*) AS n FROM events WHERE day = (now() AT TIME ZONE 'UTC')::date`
  const [set] = await sql`
    SELECT current_setting('transaction_isolation') AS isolation, current_setting('TimeZone') AS zone,
      current_setting('DateStyle') AS dates`
  await sql.end({ timeout: 1 })
  expect(set).toEqual({ isolation: 'read committed', zone: 'UTC', dates: 'ISO, MDY' })
  expect(row?.n).toBeGreaterThan(8)
})
