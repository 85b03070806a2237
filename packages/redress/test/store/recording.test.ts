import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openRaw, temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import { turns } from '../../../../test/support/until.ts'
import { App } from '../../src/app/app.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'

/** What is not in the history did not happen (P66, P67). */

async function scene() {
  const file = join(temporaryFolder(), 'store.db')
  const clock = new VirtualClock()
  const store = openSqlite({ path: file, nowMs: () => clock.nowMs() })
  const app = new App({ store, clock, chance: () => 0 })
  onTestFinished(() => store.stop())
  const runs: number[] = []
  const job = app.job('fragile', {
    policy: { retry: { max: 3, unknown: 'transient' }, orphan: 'requeue' },
    run(input: { fails?: boolean }, attempt) {
      runs.push(attempt.number)
      if (input.fails) throw new Error('broken')
      return 'done'
    },
  })
  await app.store()
  const worker = await app.makeWorker()
  const raw = openRaw(file)
  const breakHistory = (kind: string) =>
    raw.exec(`CREATE TRIGGER broken BEFORE INSERT ON events WHEN NEW.kind = '${kind}'
      BEGIN SELECT raise(ABORT, 'the history cannot be written'); END`)
  const mendHistory = () => raw.exec('DROP TRIGGER broken')
  const status = async (id: string) => (await store.job({ id }))?.status
  /** Lets time go by, as the worker's own timers see it. */
  const wait = (ms: number) => clock.advance(ms, () => turns(5))
  return { wait, store, app, job, worker, runs, breakHistory, mendHistory, status }
}

test('a job whose completion cannot be written to its history is not complete, until it can', async () => {
  const { wait, store, job, worker, runs, breakHistory, mendHistory, status } = await scene()
  const { id } = await job.submit({})
  breakHistory('complete')
  await worker.tick()
  // The worker keeps its outcome and its lease for as long as it takes.
  for (let i = 0; i < 10; i++) {
    expect(await status(id)).toBe('processing')
    await wait(10_000)
    await worker.maintain()
  }
  mendHistory()
  await wait(5_000)
  expect(await status(id)).toBe('complete')
  expect(runs).toEqual([1])
  expect((await store.events({ id })).map(({ kind }) => kind)).toEqual(['queued', 'processing', 'started', 'complete'])
})

test('a failure that cannot be written to the history is not a failure yet', async () => {
  const { wait, store, job, worker, breakHistory, mendHistory, status } = await scene()
  const { id } = await job.submit({ fails: true })
  breakHistory('retry')
  await worker.tick()
  expect(await status(id)).toBe('processing')
  expect(await store.failures({ id })).toEqual([])
  mendHistory()
  await wait(5_000)
  expect(await store.failures({ id })).toHaveLength(3)
  expect(await status(id)).toBe('failed')
})

test('nothing is queued without its event', async () => {
  const { store, job, breakHistory } = await scene()
  breakHistory('queued')
  await expect(job.submit({})).rejects.toMatchObject({ code: 'STORE_FAILED' })
  expect(await store.jobs({ limit: 10 })).toEqual([])
})

test('a job with a ttl does not begin before its claim and its start are in the history', async () => {
  const { wait, store, app, worker, runs, breakHistory, mendHistory, status } = await scene()
  const once = app.job('once', {
    policy: { orphan: 'requeue' },
    run: (_: object, attempt) => void runs.push(attempt.number),
  })
  const { id } = await once.submit({}, { ttl: '1h' })
  breakHistory('started')
  await worker.tick()
  expect(runs).toEqual([])
  expect(await status(id)).toBe('processing')
  mendHistory()
  // Nothing ran, so the job goes back to the queue when its lease has expired.
  await wait(60_000)
  await worker.maintain()
  await wait(60_000)
  expect(runs).toEqual([2])
  const kinds = (await store.events({ id })).map(({ kind }) => kind)
  expect(kinds).toEqual(['queued', 'processing', 'reclaimed', 'processing', 'started', 'complete'])
})
