import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { DatabaseSync } from 'node:sqlite'
import { expect, onTestFinished, test } from 'vitest'
import { act, look, type Setup, scratchFile } from '../../../../test/support/processes/processes.ts'
import { ownDatabase, rawPostgres } from '../../../../test/support/stores/databases.ts'
import { newJob as plainJob } from '../../../../test/support/stores/new-job.ts'
import { startPostgres } from '../../../../test/support/stores/postgres.ts'
import { until } from '../../../../test/support/until.ts'
import { App } from '../../src/app/app.ts'
import { policy } from '../../src/core/policy/policy.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { complete } from '../../src/store/conformance/bench/changes.ts'
import type { Lease, NewJob, Store } from '../../src/store/contract/store.ts'
import { openPostgres } from '../../src/store/postgres/store.ts'

const VISIT_MS = 10
const KEYS = ['a', 'b', 'c', 'd', 'e']

/** What the jobs share: a server that knows how many visit it at once, in all and per key. */
async function popularServer() {
  const inside = new Map<string, number>()
  const most = new Map<string, number>()
  const count = (path: string, by: number) => {
    for (const key of [path.slice(1), 'all']) {
      inside.set(key, (inside.get(key) ?? 0) + by)
      most.set(key, Math.max(most.get(key) ?? 0, inside.get(key) ?? 0))
    }
  }
  const server = createServer((request, response) => {
    const path = request.url ?? '/'
    let isInside = true
    const leave = () => {
      if (isInside) count(path, -1)
      isInside = false
    }
    count(path, 1)
    // Also when the visitor was killed.
    response.once('close', leave)
    systemClock.setTimer(VISIT_MS, () => {
      leave()
      response.end('seen')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { port: (server.address() as AddressInfo).port, most: (key: string) => most.get(key) ?? 0 }
}

test('two processes never exceed the limit of a type or of a key [E1 E24]', async () => {
  const file = scratchFile()
  const store = look(file)
  const { port, most } = await popularServer()
  const policy = { orphan: 'requeue', lease: { ttl: '5s' }, concurrency: { max: 3, perKey: 1 } } as const
  // Neither could use up the limit alone; together they would pass it.
  const setup: Setup = { file, types: { visit: policy }, worker: { concurrency: 2, pollMs: 20, maintenanceMs: 100 } }
  const app = new App({ store: `sqlite:${file}` })
  const visit = app.job('visit', { policy, run: (_: { do: 'visit'; port: number; key: string }) => undefined })
  const [first, second] = [act(setup), act(setup)]
  for (const actor of [first, second]) await actor.says({ said: 'ready' })

  const inputs = Array.from({ length: 120 }, (_, i) => ({ do: 'visit' as const, port, key: KEYS[i % 5] ?? 'a' }))
  const submitted = await visit.submitMany(inputs, { limitKey: ({ key }) => key })
  await app.stop()
  const told = (actor: typeof first) => actor.said.filter(({ said }) => said === 'told').length
  await until('both have done a part', () => told(first) >= 10 && told(second) >= 10)
  // What a killed process had in hand counts until it is taken back: its visits may still be going on.
  first.kill('SIGKILL')
  for (const { id } of submitted) expect(await store.ended(id)).toMatchObject({ status: 'complete' })

  // Reached, so that it was really the limit that held, and never passed.
  expect(most('all')).toBe(3)
  for (const key of KEYS) expect(most(key)).toBe(1)
})

test('two processes together dispatch no more per time than the rate allows', async () => {
  const file = scratchFile()
  const store = look(file)
  const policy = { orphan: 'requeue', rate: { max: 20, per: '1s', burst: 5 } } as const
  const setup: Setup = { file, types: { act: policy }, worker: { concurrency: 10, pollMs: 20 } }
  const actors = [act(setup), act(setup)]
  for (const actor of actors) await actor.says({ said: 'ready' })
  const app = new App({ store: `sqlite:${file}` })
  const job = app.job('act', { policy, run: (_: { do: 'return' }) => undefined })
  const submitted = await job.submitMany(Array.from({ length: 40 }, () => ({ do: 'return' as const })))
  await app.stop()
  const claimedMs: number[] = []
  for (const { id } of submitted) claimedMs.push(Number((await store.ended(id)).claimedAtMs))
  claimedMs.sort((a, b) => a - b)
  // By the store's own times: one in fifty milliseconds, and the burst before them.
  for (const [i, atMs] of claimedMs.entries()) {
    const [firstMs = 0] = claimedMs
    expect(i + 1).toBeLessThanOrEqual(5 + Math.floor((atMs - firstMs) / 50))
  }
})

/** A store with a backlog of a type that nothing limits yet, and the same rows for us to look into. */
interface Crowded {
  file: string
  /** For a process. */
  store?: string
  open: Store
  /** How far the jobs have their keys; null if all have one, or if no process has begun. */
  filledTo(): Promise<number | null>
  withoutKey(): Promise<number>
}

const BACKLOG = 60_000
const UNLIMITED = { name: 'act', queue: 'default', policy: policy({}) }
const LANES = [{ type: 'act', ttlMs: 60_000 }]
const COUNT_SQL = 'SELECT count(*) AS n FROM jobs WHERE limit_key IS NULL AND finished_at IS NULL'
const FILLED_SQL = `SELECT position FROM cursors WHERE name LIKE 'limiting %'`
const newJob = (id: string): NewJob => plainJob({ id, type: 'act' })

const CROWDED: Record<string, () => Promise<Crowded>> = {
  async SQLite() {
    const file = scratchFile()
    const open = look(file)
    await open.register({ types: [UNLIMITED] })
    const database = new DatabaseSync(file)
    onTestFinished(() => database.close())
    database.exec(`
      INSERT INTO job_specs (id, type, payload, created_at)
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${BACKLOG})
      SELECT 'old-' || i, (SELECT key FROM job_types WHERE name = 'act'), '{}', 0 FROM n;
      INSERT INTO jobs (key, type, status, priority, queued_at, ready, forward_only)
      SELECT key, type, 'queued', 0, 0, 1, 0 FROM job_specs;`)
    return {
      ...{ file, open },
      filledTo: async () => (database.prepare(FILLED_SQL).get()?.position as number | undefined) ?? null,
      withoutKey: async () => Number(database.prepare(COUNT_SQL).get()?.n),
    }
  },
  async PostgreSQL() {
    const server = await startPostgres()
    onTestFinished(() => server.stop())
    const store = await ownDatabase(server.url)
    const open = await openPostgres({ url: store })
    onTestFinished(() => open.stop())
    await open.register({ types: [UNLIMITED] })
    const sql = rawPostgres(store)
    await sql.unsafe(`
      INSERT INTO job_specs (id, type, payload, created_at)
      SELECT 'old-' || i, (SELECT key FROM job_types WHERE name = 'act'), '{}', 0 FROM generate_series(1, ${BACKLOG}) AS i;
      INSERT INTO jobs (key, type, status, priority, queued_at, ready, forward_only)
      SELECT key, type, 'queued', 0, 0, 1, 0 FROM job_specs`)
    return {
      ...{ file: scratchFile(), store, open },
      filledTo: async () => (await sql.unsafe(FILLED_SQL))[0]?.position ?? null,
      withoutKey: async () => (await sql.unsafe(COUNT_SQL))[0]?.n,
    }
  },
}

test.each(Object.entries(CROWDED))(
  'a limit on a large backlog is declared while others submit and claim, and after a kill by the next process: %s',
  async (_kind, crowd) => {
    const { file, store, open, filledTo, withoutKey } = await crowd()
    const worker = await open.enlist({ id: 'w', host: 'h', pid: 1, types: ['act'] })
    const claim = async (max: number) => (await open.claim({ worker, lanes: LANES, max })).leases
    const [first, second, third] = (await claim(3)) as [Lease, Lease, Lease]
    const close = ({ key, attempt }: Lease) =>
      open.close({ worker, closes: [{ key, attempt, change: complete(), ranMs: 1 }] })
    const limited: Setup = { file, types: { act: { concurrency: 2 } }, ...(store !== undefined && { store }) }

    const killed = act(limited)
    await until('some of the jobs have got their keys', async () => (await filledTo()) !== null, { everyMs: 1 })
    killed.kill('SIGKILL')
    await killed.ended
    expect(await withoutKey()).toBeGreaterThan(0)

    // The limit holds for jobs with and without a key, and what is submitted now has one.
    expect(await claim(10)).toEqual([])
    await close(first)
    expect(await claim(10)).toEqual([])
    await close(second)
    const [fourth, ...others] = await claim(10)
    expect(others).toEqual([])
    expect(await claim(10)).toEqual([])

    act(limited)
    let submitted = 0
    await until('all jobs have their keys', async () => {
      await open.submit({ jobs: [newJob(`new-${submitted++}`)] })
      return (await filledTo()) === null
    })
    expect(await withoutKey()).toBe(0)
    expect(await claim(10)).toEqual([])
    for (const lease of [third, fourth as Lease]) await close(lease)
    expect(await claim(10)).toHaveLength(2)
    const counts = (await open.counts()).find(({ type }) => type === 'act')
    expect(counts).toMatchObject({ queued: BACKLOG + submitted - 6, processing: 2, complete: 4 })
  },
)
