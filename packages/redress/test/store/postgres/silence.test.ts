import { randomUUID } from 'node:crypto'
import type { Socket } from 'node:net'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { ownDatabase, rawPostgres } from '../../../../../test/support/stores/databases.ts'
import { newJob as plainJob } from '../../../../../test/support/stores/new-job.ts'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { openRelay, type Relay } from '../../../../../test/support/stores/relay.ts'
import { until } from '../../../../../test/support/until.ts'
import { policy } from '../../../src/core/policy/policy.ts'
import { complete } from '../../../src/store/conformance/bench/changes.ts'
import type { Lease, NewJob, Store } from '../../../src/store/contract/store.ts'
import { openPool } from '../../../src/store/postgres/connection/client.ts'
import { isNothingDone } from '../../../src/store/postgres/connection/errors.ts'
import { statementMsOf } from '../../../src/store/postgres/connection/hosts.ts'
import { openPostgres, type PostgresOptions } from '../../../src/store/postgres/store.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

const newJob = (parts: Partial<NewJob> = {}): NewJob => plainJob({ type: 'work', ...parts })

interface World {
  /** Behind the relay. */
  store: Store
  relay: Relay
  /** Not behind it: sees what became of it. */
  look: Store
  leased: () => Promise<{ worker: number; lease: Lease }>
}

async function world(options: Partial<PostgresOptions> = {}): Promise<World> {
  const url = await ownDatabase(server.url)
  const relay = await openRelay(url)
  const [store, look] = await Promise.all([
    openPostgres({ connectionsMax: 2, patienceMs: 0, ...options, url: `${relay.url}?statement_timeout=1s` }),
    openPostgres({ connectionsMax: 2, url }),
  ])
  onTestFinished(async () => {
    relay.speak()
    await Promise.all([store.stop(), look.stop()])
  })
  await store.register({ types: [{ name: 'work', queue: 'default', policy: policy({ orphan: 'requeue' }) }] })
  const leased = async () => {
    const worker = await store.enlist({ id: randomUUID(), host: 'here', pid: 1, types: ['work'] })
    await store.submit({ jobs: [newJob()] })
    const { leases } = await store.claim({ worker, lanes: [{ type: 'work', ttlMs: 60_000 }], max: 1 })
    return { worker, lease: leases[0] as Lease }
  }
  return { store, relay, look, leased }
}

const UNREACHABLE = { code: 'STORE_UNREACHABLE' }
const isUnknown = /whether it was done is not known/
const isNothing = /nothing was done/

test('a read ends with an error when the server falls silent, and succeeds when it speaks again', async () => {
  const { store, relay } = await world()
  relay.silence()
  const refused = await store.counts().catch((error: unknown) => error)
  expect(refused).toMatchObject({ ...UNREACHABLE, message: expect.stringMatching(isNothing) })
  relay.speak()
  expect(await store.counts()).toBeDefined()
})

test('a write whose answer vanished has an unknown outcome, and is known again when it is repeated', async () => {
  const { store, relay, look, leased } = await world({ connectionsMax: 1 })
  const closeOf = (worker: number, { key, attempt }: Lease) =>
    store.close({ worker, closes: [{ key, attempt, change: complete('1'), ranMs: null }] })
  // A statement that was sent once is known to the server: from then on it is one message and one answer.
  const before = await leased()
  await closeOf(before.worker, before.lease)
  const { worker, lease } = await leased()
  relay.deafen()
  const refused = await closeOf(worker, lease).catch((error: unknown) => error)
  expect(refused).toMatchObject({ ...UNREACHABLE, message: expect.stringMatching(isUnknown) })
  expect((await look.job({ id: lease.id }))?.status).toBe('complete')
  expect(await closeOf(worker, lease)).toEqual(['closed'])
})

test('every call of a worker, a submitter and a reader ends when the server falls silent', async () => {
  const { store, relay, leased } = await world({ connectionsMax: 8 })
  const { worker, lease } = await leased()
  const { key, attempt } = lease
  relay.silence()
  const calls = {
    renew: store.renew({ worker, leases: [{ key, attempt, ttlMs: 3_000 }] }),
    claim: store.claim({ worker, lanes: [{ type: 'work', ttlMs: 60_000 }], max: 1 }),
    start: store.start({ worker, attempts: [{ key, attempt, agoMs: 0 }] }),
    close: store.close({ worker, closes: [{ key, attempt, change: complete('1'), ranMs: null }] }),
    submit: store.submit({ jobs: [newJob()] }),
    enlist: store.enlist({ id: 'late', host: 'here', pid: 2, types: ['work'] }),
    register: store.register({ types: [] }),
    events: store.events({ id: lease.id }),
    failureGroups: store.failureGroups({ filter: {}, sort: 'count', after: null, limit: 5 }),
    prune: store.prune({ rules: [], after: 0, limit: 10 }),
    nowMs: store.nowMs(),
  }
  const codes = await Promise.all(
    Object.entries(calls).map(async ([name, call]) => [
      name,
      await (call as Promise<unknown>).then(
        () => 'answered',
        (error: { code: string }) => error.code,
      ),
    ]),
  )
  expect(Object.fromEntries(codes)).toEqual(
    Object.fromEntries(Object.keys(calls).map((name) => [name, 'STORE_UNREACHABLE'])),
  )
})

test('an answer that arrives late is not taken for that of a later statement', async () => {
  const { store, relay, look } = await world()
  const [first, second] = [newJob(), newJob()]
  await store.submit({ jobs: [newJob()] })
  relay.silence()
  await expect(store.submit({ jobs: [first] })).rejects.toMatchObject(UNREACHABLE)
  relay.speak()
  expect(await store.submit({ jobs: [second] })).toEqual([{ id: second.id, isNew: true, status: 'queued' }])
  expect(await look.job({ id: second.id })).toMatchObject({ status: 'queued' })
})

test('calls that wait for a connection of a silent pool also end, and were not sent', async () => {
  const { store, relay } = await world({ connectionsMax: 1 })
  await store.counts()
  relay.deafen()
  const refused = await Promise.all(
    Array.from({ length: 5 }, () =>
      store.counts().then(
        () => null,
        (error: unknown) => error,
      ),
    ),
  )
  for (const error of refused)
    expect(error === null || (error as { code: string }).code === 'STORE_UNREACHABLE').toBe(true)
  expect(await store.counts()).toBeDefined()
})

test('a store stops although the server is silent', async () => {
  const { store, relay } = await world()
  store.onWake(() => undefined)
  relay.silence()
  await expect(store.counts()).rejects.toMatchObject(UNREACHABLE)
  await store.stop()
})

test('a statement that the server works on for long is ended by the server, and the connection stays', async () => {
  const relay = await openRelay(server.url)
  const sql = openPool({ url: `${relay.url}?statement_timeout=1s`, schema: 'public', connectionsMax: 1 })
  onTestFinished(() => sql.end({ timeout: 1 }))
  await expect(sql`SELECT pg_sleep(20)`).rejects.toMatchObject({ code: '57014' })
  await sql`SELECT 1`
  expect(relay.connections()).toBe(1)
})

test('a cursor whose next page never comes ends with an error', async () => {
  const relay = await openRelay(server.url)
  const sql = openPool({ url: `${relay.url}?statement_timeout=1s`, schema: 'public', connectionsMax: 1 })
  onTestFinished(() => sql.end({ timeout: 1 }))
  const pages = sql`SELECT n FROM generate_series(1, 100) AS n`.cursor(10)[Symbol.asyncIterator]()
  expect((await pages.next()).value).toHaveLength(10)
  relay.silence()
  await expect(pages.next()).rejects.toMatchObject({ code: 'NO_ANSWER' })
})

test('the connection that listens is made anew after a silence', async () => {
  const { store, relay, look } = await world()
  let woken = 0
  store.onWake(() => void woken++)
  await until('it listens', () => woken > 0)
  relay.silence()
  await expect(store.counts()).rejects.toMatchObject(UNREACHABLE)
  relay.cut()
  relay.speak()
  const before = woken
  await until('it hears of work', async () => {
    await look.submit({ jobs: [newJob()] })
    return woken > before
  })
})

const LOST_ROUTES = ['EHOSTUNREACH', 'ENETUNREACH', 'ENETDOWN', 'EHOSTDOWN', 'ETIMEDOUT', 'ECONNRESET', 'ENOTCONN']

test('an error of the network is an unknown outcome where the statement was sent; else nothing was done', async () => {
  const look = rawPostgres(server.url, 'public')
  const isSleeping = async (): Promise<boolean> => {
    const rows =
      await look`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT pg_sleep%' AND state = 'active'`
    return rows.length > 0
  }
  let socket: Socket | undefined
  let refusal: Error | null = null
  const onSocket = (made: Socket): void => {
    socket = made
    const error = refusal
    if (error !== null) setImmediate(() => made.destroy(error))
  }
  const sql = openPool({ url: server.url, schema: 'public', connectionsMax: 1, onSocket })
  onTestFinished(() => sql.end({ timeout: 1 }))
  for (const code of [...LOST_ROUTES, 'EPIPE']) {
    const broken = () => Object.assign(new Error(`read ${code}`), { code, errno: -1, syscall: 'read' })
    await sql`SELECT 1`
    const asked = sql`SELECT pg_sleep(20)`.catch((error: unknown) => error)
    await until('it is sent', isSleeping)
    socket?.destroy(broken())
    const unknown = await asked
    expect(unknown).toMatchObject({ code })
    expect(isNothingDone(unknown), code).toBe(false)
    await look`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT pg_sleep%'`
    await until('it is gone', async () => !(await isSleeping()))

    refusal = broken()
    const refused = await sql`SELECT 1`.catch((error: unknown) => error)
    refusal = null
    expect(refused).toMatchObject({ code })
    expect(isNothingDone(refused), code).toBe(true)
  }
})

test('statement_timeout in the address is a time between a second and ten minutes', () => {
  const of = (value: string) => statementMsOf(`postgres://a@b/c?x=1&statement_timeout=${value}`)
  expect([of('2000'), of('3s'), of('2min'), of('1500ms')]).toEqual([2_000, 3_000, 120_000, 1_500])
  for (const value of ['0', '999', '11min', 'soon', '-1', '1h', ''])
    expect(() => of(value), value).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
})
