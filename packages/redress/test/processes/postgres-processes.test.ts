import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Act, type Actor, act, type Setup, scratchFile } from '../../../../test/support/processes/processes.ts'
import { ownDatabase, rawPostgres } from '../../../../test/support/stores/databases.ts'
import { startPostgres, type TestPostgres } from '../../../../test/support/stores/postgres.ts'
import { until } from '../../../../test/support/until.ts'
import type { PolicyInput } from '../../src/core/policy/policy.ts'
import type { JobRow, Store } from '../../src/store/contract/store.ts'
import { openPostgres } from '../../src/store/postgres/store.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

async function scene(): Promise<{ url: string; file: string; store: Store }> {
  const url = await ownDatabase(server.url)
  const store = await openPostgres({ url })
  onTestFinished(() => store.stop())
  return { url, file: scratchFile(), store }
}

const ended = (store: Store, id: string): Promise<JobRow> =>
  until(`job ${id} has ended`, async () => {
    const job = await store.job({ id })
    return job !== null && job.finishedAtMs !== null && job
  })

async function submitted(setup: Setup, ...inputs: Act[]): Promise<string[]> {
  const submitter = act({ ...setup, submits: inputs.map((input) => ({ type: 'act', input })) })
  await submitter.ended
  return submitter.said.filter(({ said }) => said === 'acknowledged').map(({ jobId }) => String(jobId))
}

describe('words that get lost', () => {
  const POLL_MS = 5_000
  const types = { act: {} }

  test('a worker whose listening connection is ended takes up what another process submits, within one poll', async () => {
    const { url, file, store } = await scene()
    const setup: Setup = { file, store: url, types }
    const worker = act({ ...setup, worker: { pollMs: POLL_MS } })
    await worker.says({ said: 'ready' })
    const sql = rawPostgres(url)
    const listeners = () =>
      sql`SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen %'`
    const waitedMs = async (): Promise<number> => {
      const [id = ''] = await submitted(setup, { do: 'return' })
      const { claimedAtMs, queuedAtMs } = await ended(store, id)
      return Number(claimedAtMs) - queuedAtMs
    }
    await until('it listens', async () => (await listeners()).length === 1)
    for (let i = 0; i < 3; i++) {
      const [{ pid } = { pid: 0 }] = await listeners()
      await sql`SELECT pg_terminate_backend(${pid})`
      expect(await waitedMs()).toBeLessThan(POLL_MS + 1_000)
      await until('it listens again', async () => (await listeners()).some((one) => one.pid !== pid))
      // Not the poll: it was told.
      expect(await waitedMs()).toBeLessThan(POLL_MS / 2)
    }
  })
})

describe('a clock that is an hour off', () => {
  const types: Record<string, PolicyInput> = { act: { orphan: 'requeue', lease: { ttl: '1s' } } }
  const clock = pathToFileURL(join(import.meta.dirname, 'fixtures/skewed-clock.ts')).href
  const off = (setup: Setup, hours: number): Actor => act(setup, ['--import', `${clock}?hours=${hours}`])

  test.each([1, -1])('changes nothing: neither leases nor delays nor what is written down (%i h)', async (hours) => {
    const { url, file, store } = await scene()
    const setup: Setup = { file, store: url, types, worker: { pollMs: 20, maintenanceMs: 100, concurrency: 4 } }
    const startedMs = await store.nowMs()
    const wrong = off(setup, hours)
    await wrong.says({ said: 'ready' })
    const right: Setup = { file, store: url, types }

    // It renews its lease for as long as the handler needs it.
    const [long = ''] = await submitted(right, { do: 'wait', ms: 2_500 })
    expect(await ended(store, long)).toMatchObject({ status: 'complete', attempt: 1 })

    // It does not begin what is not due yet, nor let it wait for an hour.
    const delayed = off({ ...right, submits: [{ type: 'act', input: { do: 'return' }, delayMs: 1_500 }] }, hours)
    const { jobId = '' } = await delayed.says({ said: 'acknowledged' })
    const late = await ended(store, jobId)
    expect(Number(late.claimedAtMs) - late.createdAtMs).toBeGreaterThanOrEqual(1_500)
    expect(Number(late.claimedAtMs) - late.createdAtMs).toBeLessThan(10_000)

    // What it held when it was killed is taken over when its lease is over, by one whose clock is wrong the other way.
    const [held = ''] = await submitted(right, { do: 'wait', ms: 60_000, times: 1 })
    await wrong.says({ said: 'begun', jobId: held })
    wrong.kill('SIGKILL')
    await wrong.ended
    const killedMs = await store.nowMs()
    const other = off(setup, -hours)
    await other.says({ said: 'begun', jobId: held, attempt: 2 })
    expect(await ended(store, held)).toMatchObject({ status: 'complete', attempt: 2 })
    const events = await store.events({ id: held })
    const reclaimed = events.find(({ kind }) => kind === 'reclaimed')
    expect(Number(reclaimed?.atMs) - killedMs).toBeLessThan(15_000)

    const endedMs = await store.nowMs()
    for (const id of [long, jobId, held]) {
      const row = (await store.job({ id })) as JobRow
      const times = [row.createdAtMs, row.claimedAtMs, row.startedAtMs, row.finishedAtMs]
      for (const time of [...times, ...(await store.events({ id })).map(({ atMs }) => atMs)]) {
        expect(time).toBeGreaterThanOrEqual(startedMs)
        expect(time).toBeLessThanOrEqual(endedMs)
      }
    }
  })
})
