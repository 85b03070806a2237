import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Act, act, type Setup, scratchFile } from '../../../../test/support/processes/processes.ts'
import { keepingLog } from '../../../../test/support/scene.ts'
import { ownDatabase } from '../../../../test/support/stores/databases.ts'
import { startOwnPostgres, startPostgres, type TestPostgres } from '../../../../test/support/stores/postgres.ts'
import { openRelay } from '../../../../test/support/stores/relay.ts'
import { until } from '../../../../test/support/until.ts'
import { type App, jobType, redress, typed } from '../../src/index.ts'

const acting = jobType('act', {
  input: typed<Act>(),
  output: typed<string>(),
  policy: { orphan: 'requeue', lease: { ttl: '1s' } },
})

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

const WORKER = { pollMs: 50, maintenanceMs: 100 }
const types = { act: { orphan: 'requeue', lease: { ttl: '1s' } } } as const

/** A producer in this process, and how workers of the same store are set up. */
function producer(setup: Setup, log = keepingLog()) {
  const app = redress({ store: setup.store ?? `sqlite:${setup.file}`, log })
  onTestFinished(() => app.stop())
  return { app, bound: app.job(acting), log }
}

const isWaiting = (app: App) => until('it waits', () => app.hub.subscribers === 1)

const STORES: [string, () => Promise<Setup>][] = [
  ['SQLite', async () => ({ file: scratchFile(), types })],
  ['PostgreSQL', async () => ({ file: scratchFile(), types, store: await ownDatabase(server.url) })],
]

describe.each(STORES)('on %s', (_name, make) => {
  test('a producer gets the result of a job that another process completes', async () => {
    const setup = await make()
    const { app, bound } = producer(setup)
    const waiting = bound.submitAndWait({ do: 'return', value: 'seven' }, { timeout: '30s' })
    await isWaiting(app)
    act({ ...setup, worker: WORKER })
    expect(await waiting).toBe('seven')
  })

  test('a wait outlives the worker: another one takes the job back and completes it', async () => {
    const setup = await make()
    const { app, bound } = producer(setup)
    const first = act({ ...setup, worker: WORKER })
    await first.says({ said: 'ready' })
    const { id } = await bound.submit({ do: 'wait', ms: 60_000, times: 1 })
    const waiting = bound.result(id, { timeout: '60s' })
    await isWaiting(app)
    await first.says({ said: 'begun' })
    first.kill('SIGKILL')
    await first.ended
    act({ ...setup, worker: WORKER })
    expect(await waiting).toMatchObject({ kind: 'complete', jobId: id })
    expect((await app.jobs.events(id)).events.map(({ kind }) => kind)).toContain('reclaimed')
  })
})

test('a wait outlives a crash and a restart of PostgreSQL', async () => {
  const own = await startOwnPostgres()
  onTestFinished(() => own.stop())
  const setup: Setup = { file: scratchFile(), types, store: own.url }
  const { app, bound, log } = producer(setup)
  const { id } = await bound.submit({ do: 'return', value: 'seven' })
  const waiting = bound.result(id, { timeout: '120s' })
  await isWaiting(app)
  await own.crash()
  // The program tries to connect again before it gives up a read.
  await until('the loss is noticed', () => log.lines.some(({ message }) => message.includes('cannot be read')), {
    withinMs: 90_000,
  })
  await own.start()
  act({ ...setup, worker: WORKER })
  expect(await waiting).toEqual({ kind: 'complete', jobId: id, output: 'seven' })
}, 120_000)

test.each(['cut', 'silenced'] as const)('a wait outlives a connection that is %s while the job ends', async (fault) => {
  const url = await ownDatabase(server.url)
  const relay = await openRelay(url)
  const worker: Setup = { file: scratchFile(), types, store: url }
  const { app, bound } = producer({ ...worker, store: relay.url })
  const { id } = await bound.submit({ do: 'return', value: 'seven' })
  const waiting = bound.result(id, { timeout: '120s' })
  await isWaiting(app)
  if (fault === 'cut') relay.cut()
  else relay.silence()
  const done = act({ ...worker, worker: WORKER })
  await done.says({ said: 'begun' })
  const direct = redress({ store: url, log: keepingLog() })
  onTestFinished(() => direct.stop())
  await until('the job has ended', async () => (await direct.jobs.find(id))?.status === 'complete')
  if (fault === 'silenced') relay.speak()
  expect(await waiting).toEqual({ kind: 'complete', jobId: id, output: 'seven' })
})
