import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { ownDatabase, rawPostgres } from '../../../../../test/support/stores/databases.ts'
import { newJob as plainJob } from '../../../../../test/support/stores/new-job.ts'
import { startOwnPostgres, startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { openRelay, type Relay } from '../../../../../test/support/stores/relay.ts'
import { until } from '../../../../../test/support/until.ts'
import { policy } from '../../../src/core/policy/policy.ts'
import { complete, failed, requeued } from '../../../src/store/conformance/bench/changes.ts'
import type { Close, Lease, NewJob, Store } from '../../../src/store/contract/store.ts'
import { openPostgres, type PostgresOptions } from '../../../src/store/postgres/store.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

const newJob = (parts: Partial<NewJob> = {}): NewJob => plainJob({ type: 'work', ...parts })

async function opened(options: Partial<PostgresOptions> & { url: string }): Promise<Store> {
  const store = await openPostgres({ connectionsMax: 1, ...options })
  onTestFinished(() => store.stop())
  return store
}

/** A store behind a relay, with one connection, and another one that sees what became of it. */
async function behindRelay(): Promise<{ store: Store; look: Store; relay: Relay; url: string }> {
  const url = await ownDatabase(server.url)
  const relay = await openRelay(url)
  const store = await opened({ url: relay.url })
  await store.register({ types: [{ name: 'work', queue: 'default', policy: policy({ orphan: 'requeue' }) }] })
  const look = await opened({ url })
  // Statements that were sent once are known to the server: from then on each is one message and one answer.
  await store.submit({ jobs: [newJob()] })
  return { store, look, relay, url }
}

/** Its commit happens, and the answer is lost with the connection. */
async function unanswered<T>(
  store: Store,
  relay: Relay,
  call: () => Promise<T>,
  isDone: () => Promise<boolean>,
): Promise<T> {
  // What was sent before is answered by then.
  await store.nowMs()
  relay.deafen()
  const answer = call()
  answer.catch(() => undefined)
  await until('it was committed', isDone)
  relay.cut()
  return answer
}

/** The whole statement: a new connection of the store also asks for the setting `synchronous_commit`. */
const COMMIT = 'commit\0'

/** For what takes several statements: nobody hears the answer to this one. The connection is new, and so is its text. */
async function unheard<T>(store: Store, relay: Relay, at: string, call: () => Promise<T>): Promise<T> {
  relay.cut()
  await store.counts()
  relay.deafenAt(at)
  return call()
}

const kindsOf = async (store: Store, id: string) => (await store.events({ id })).map(({ kind }) => kind)

test('a submission whose commit was never answered is answered as what it was, and made once', async () => {
  const { store, look, relay } = await behindRelay()
  const job = newJob()
  const submitted = unanswered(
    store,
    relay,
    () => store.submit({ jobs: [job] }),
    async () => (await look.job({ id: job.id })) !== null,
  )
  expect(await submitted).toEqual([{ id: job.id, isNew: true, status: 'queued' }])
  expect(await kindsOf(look, job.id)).toEqual(['queued'])
})

test('the same in a transaction of several statements, with a dedupe key', async () => {
  const { store, look, relay } = await behindRelay()
  const job = newJob({ dedupe: { key: 'one', scope: 'live' } })
  const submitted = unheard(store, relay, COMMIT, () => store.submit({ jobs: [job] }))
  await until('it was committed', async () => (await look.job({ id: job.id })) !== null)
  relay.cut()
  expect(await submitted).toEqual([{ id: job.id, isNew: true, status: 'queued' }])
  expect(await kindsOf(look, job.id)).toEqual(['queued'])
  expect(await store.submit({ jobs: [newJob({ dedupe: { key: 'one', scope: 'live' } })] })).toEqual([
    { id: job.id, isNew: false, status: 'queued' },
  ])
})

test('a job that somebody had submitted long before is not taken for one of the call whose answer was lost', async () => {
  const { store, look, relay, url } = await behindRelay()
  const [old, job] = [newJob(), newJob()]
  await store.submit({ jobs: [old] })
  const sql = rawPostgres(url)
  await sql`UPDATE job_specs SET created_at = created_at - 3600000 WHERE id = ${old.id}`
  const submitted = unheard(store, relay, COMMIT, () => store.submit({ jobs: [old, job] }))
  await until('it was committed', async () => (await look.job({ id: job.id })) !== null)
  relay.cut()
  expect(await submitted).toMatchObject([
    { id: old.id, isNew: false },
    { id: job.id, isNew: true },
  ])
})

test.each([
  ['complete', () => complete('1')],
  ['failed', (lease: Lease) => failed(lease)],
  ['retry', (lease: Lease) => requeued('retry', lease)],
  ['released', (lease: Lease) => requeued('released', lease)],
] as const)(
  'a close as %s whose commit was never answered is known again, and nothing is refused',
  async (kind, change) => {
    const { store, look, relay } = await behindRelay()
    const worker = await store.enlist({ id: 'ann', host: 'here', pid: 1, types: ['work'] })
    await store.submit({ jobs: [newJob(), newJob()] })
    const { leases } = await store.claim({ worker, lanes: [{ type: 'work', ttlMs: 60_000 }], max: 3 })
    const [lease, ...others] = leases as [Lease, ...Lease[]]
    const closeOf = (one: Lease): Close => ({ key: one.key, attempt: one.attempt, change: change(one), ranMs: 5 })
    const close = () => store.close({ worker, closes: [closeOf(lease)] })
    const isDone = async () => (await kindsOf(look, lease.id)).includes(kind)
    await store.close({ worker, closes: others.map(closeOf) })
    await expect(unanswered(store, relay, close, isDone)).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
    const renewal = { key: lease.key, attempt: lease.attempt, ttlMs: 60_000 }
    expect(await store.renew({ worker, leases: [renewal] })).toMatchObject({ lost: [] })
    expect(await close()).toEqual(['closed'])
    expect(await kindsOf(look, lease.id)).toEqual(['queued', 'processing', kind])
    // Now it was answered: whoever closes once more comes too late.
    expect(await close()).toEqual(['lost'])
  },
)

test('a close that was never committed is made when it is sent again', async () => {
  const { store, look, relay } = await behindRelay()
  const worker = await store.enlist({ id: 'ann', host: 'here', pid: 1, types: ['work'] })
  const { leases } = await store.claim({ worker, lanes: [{ type: 'work', ttlMs: 60_000 }], max: 1 })
  const [lease] = leases as [Lease]
  const close = () =>
    store.close({ worker, closes: [{ key: lease.key, attempt: 1, change: failed(lease), ranMs: null }] })
  const closed = unheard(store, relay, 'redress_now', close)
  await until('nobody hears the server', relay.isDeaf)
  relay.cut()
  await expect(closed).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
  expect(await close()).toEqual(['closed'])
  expect(await kindsOf(look, lease.id)).toEqual(['queued', 'processing', 'failed'])
})

test('what a claim has leased comes with the next one when its answer is lost, as the same attempt', async () => {
  const { store, look, relay } = await behindRelay()
  const worker = await store.enlist({ id: 'ann', host: 'here', pid: 1, types: ['work'] })
  const claim = () => store.claim({ worker, lanes: [{ type: 'work', ttlMs: 60_000 }], max: 2 })
  const [before] = (await claim()).leases
  const jobs = [newJob(), newJob()]
  await store.submit({ jobs })
  const claimed = unanswered(store, relay, claim, async () => (await look.counts())[0]?.processing === 3)
  await expect(claimed).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
  const { leases } = await claim()
  expect(leases.map(({ id, attempt }) => ({ id, attempt }))).toEqual(jobs.map(({ id }) => ({ id, attempt: 1 })))
  for (const { id } of jobs) expect(await kindsOf(look, id)).toEqual(['queued', 'processing'])
  // Found once; and what the worker knows of was never lost.
  expect((await claim()).leases).toEqual([])
  expect(await kindsOf(look, before?.id ?? '')).toEqual(['queued', 'processing'])
})

test('what may not be done twice is not: its caller is told that nobody knows', async () => {
  const { store, look, relay } = await behindRelay()
  const job = newJob()
  await store.submit({ jobs: [job] })
  const expected = { status: 'queued', attempt: 0 } as const
  const cancelled = unheard(store, relay, COMMIT, () =>
    store.intervene({ id: job.id, actor: 'ann', reason: 'wrong', expect: expected, act: { kind: 'cancel' } }),
  )
  await until('it was committed', async () => (await look.job({ id: job.id }))?.status === 'cancelled')
  relay.cut()
  await expect(cancelled).rejects.toMatchObject({
    code: 'STORE_UNREACHABLE',
    message: expect.stringContaining('whether it was done is not known'),
  })
})

test('what was certainly not done is done when there is a connection again', async () => {
  const { store, look, relay } = await behindRelay()
  const job = newJob()
  await store.submit({ jobs: [job] })
  const expected = { status: 'queued', attempt: 0 } as const
  const cancelled = unheard(store, relay, 'redress_now', () =>
    store.intervene({ id: job.id, actor: 'ann', reason: 'wrong', expect: expected, act: { kind: 'cancel' } }),
  )
  await until('nobody hears the server', relay.isDeaf)
  relay.cut()
  expect(await cancelled).toBe('done')
  expect(await kindsOf(look, job.id)).toEqual(['queued', 'cancelled'])
})

test('a transaction that loses its connection sends nothing more, and does no harm to those after it', async () => {
  const sql = rawPostgres(server.url)
  const admin = rawPostgres(server.url)
  for (let i = 0; i < 5; i++) {
    const lost = sql.begin(async (tx) => {
      const [row] = await tx`SELECT pg_backend_pid() AS pid`
      const waiting = tx`SELECT pg_sleep(60)`
      waiting.catch(() => undefined)
      await admin`SELECT pg_terminate_backend(${row?.pid})`
      await waiting.catch(() => undefined)
      await tx`CREATE TABLE must_not_be_there (x int)`
    })
    await expect(lost).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
    sql.renew(sql.generation)
    expect(await sql`SELECT to_regclass('must_not_be_there') AS found`).toMatchObject([{ found: null }])
  }
})

test('a server that is away for seconds is waited for; one that stays away is told of in a sentence', async () => {
  const own = await startOwnPostgres()
  onTestFinished(() => own.stop())
  const [patient, hasty] = [await opened({ url: own.url }), await opened({ url: own.url, patienceMs: 300 })]
  await patient.register({ types: [{ name: 'work', queue: 'default', policy: policy() }] })
  // Whichever is answered first, the count and the job: there is one to be counted.
  await patient.submit({ jobs: [newJob()] })
  await own.crash()
  const job = newJob()
  const [waiting, reading] = [patient.submit({ jobs: [job] }), patient.counts()]
  await expect(hasty.submit({ jobs: [newJob()] })).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
  await expect(hasty.counts()).rejects.toMatchObject({
    code: 'STORE_UNREACHABLE',
    message: expect.stringContaining('could not be reached'),
  })
  await own.start()
  expect(await waiting).toEqual([{ id: job.id, isNew: true, status: 'queued' }])
  expect(await reading).toHaveLength(1)
  expect(await kindsOf(patient, job.id)).toEqual(['queued'])
})

test('a server that takes no writes any more is left and asked again, until one is there that does', async () => {
  const { store, relay, url } = await behindRelay()
  const admin = rawPostgres(server.url)
  const name = new URL(url).pathname.slice(1)
  await admin.unsafe(`ALTER DATABASE ${name} SET default_transaction_read_only = on`)
  relay.cut()
  const before = relay.connections()
  const submitted = store.submit({ jobs: [newJob()] })
  await until('it has left more than one', () => relay.connections() > before + 2)
  await admin.unsafe(`ALTER DATABASE ${name} RESET default_transaction_read_only`)
  expect(await submitted).toMatchObject([{ isNew: true }])
})
