import { afterEach, beforeEach, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import type { Store } from '../../../src/store/contract/store.ts'
import { Prefetch } from '../../../src/worker/claim/intake.ts'
import type { Worker } from '../../../src/worker/worker.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

const never = () => new Promise<never>(() => undefined)

async function learnToClaimAhead(worker: Worker): Promise<void> {
  for (let i = 0; i < 3; i++) {
    await scene.app.submitMany('quick', Array(50).fill({}))
    await scene.clock.advance(1)
    await worker.tick()
  }
}

test('a worker that knows nothing about its jobs claims no more than it can begin', async () => {
  scene.app.job('slow', { run: never })
  const worker = await scene.worker({ concurrency: 3 })
  await scene.app.submitMany('slow', Array(100).fill({}))
  await worker.tick()
  await worker.tick()
  expect(worker.held).toBe(3)
})

test('a worker of quick jobs claims ahead, up to its bound', async () => {
  scene.app.job('quick', { policy: { orphan: 'requeue' }, run: () => undefined })
  scene.app.job('slow', { policy: { orphan: 'requeue' }, run: never })
  const worker = await scene.worker({ concurrency: 1, prefetchMax: 20 })
  await learnToClaimAhead(worker)
  await scene.app.submitMany('slow', Array(100).fill({}))
  await worker.tick()
  expect(worker.held).toBeGreaterThan(1)
  expect(worker.held).toBeLessThanOrEqual(21)
})

test('a job claimed ahead that gets no slot within a second is given back for others, and costs it nothing', async () => {
  scene.app.job('quick', { policy: { orphan: 'requeue' }, run: () => undefined })
  scene.app.job('slow', { policy: { orphan: 'requeue' }, run: never })
  const worker = await scene.worker({ concurrency: 1 })
  await learnToClaimAhead(worker)
  const jobs = await scene.app.submitMany('slow', Array(5).fill({}))
  await worker.tick()
  expect(worker.held).toBe(5)
  await scene.pass(1_100)
  expect(worker.held).toBe(1)
  for (const { id } of jobs.slice(1)) expect(await scene.job(id)).toMatchObject({ status: 'queued', failure: null })
  const other = await scene.worker({ concurrency: 10 })
  await other.tick()
  expect(other.held).toBe(4)
})

test('jobs that a person must decide about after a lost worker are never claimed ahead of slots', async () => {
  scene.app.job('quick', { run: () => undefined })
  scene.app.job('slow', { run: never })
  const worker = await scene.worker({ concurrency: 2 })
  await learnToClaimAhead(worker)
  await scene.app.submitMany('slow', Array(10).fill({}))
  await worker.tick()
  expect(worker.held).toBe(2)
})

test('jobs that cannot be given back are never claimed before there is a slot', async () => {
  scene.app.job('quick', { policy: { orphan: 'requeue' }, run: () => undefined })
  scene.app.job('slow', { policy: { orphan: 'requeue' }, run: never })
  scene.app.job('once', { policy: { forwardOnly: true }, run: never })
  const worker = await scene.worker({ concurrency: 2 })
  await learnToClaimAhead(worker)
  await scene.app.submitMany('slow', Array(10).fill({}))
  const jobs = await scene.app.submitMany('once', Array(10).fill({}))
  await worker.tick()
  await scene.pass(1_500)
  const rows = await Promise.all(jobs.map(({ id }) => scene.job(id)))
  // Either begun or untouched: a claim that waits could only end as a failure.
  for (const row of rows)
    expect([`processing ${true}`, `queued ${false}`]).toContain(`${row.status} ${row.attempt > 0}`)
  expect(rows.filter((row) => row.status === 'failed')).toEqual([])
})

test('with one slot and two kinds of policy, a job that may not be given back waits unclaimed', async () => {
  scene.app.job('slow', { run: never })
  scene.app.job('once', { policy: { shutdown: 'fail' }, run: never })
  const worker = await scene.worker({ concurrency: 1 })
  await scene.app.submit('slow', {})
  const { id } = await scene.app.submit('once', {})
  await worker.tick()
  await scene.pass(2_000)
  expect(await scene.job(id)).toMatchObject({ status: 'queued', attempt: 0 })
})

test('the two kinds of policy share the slots by priority', async () => {
  const begun: string[] = []
  const note = (name: string) => () => {
    begun.push(name)
    return never()
  }
  scene.app.job('given', { run: note('given') })
  scene.app.job('kept', { policy: { shutdown: 'fail' }, run: note('kept') })
  await scene.app.submit('given', {}, { priority: 1 })
  await scene.app.submit('kept', {}, { priority: 2 })
  await scene.app.submit('given', {}, { priority: 3 })
  await (await scene.worker({ concurrency: 2 })).tick()
  expect(begun).toEqual(['given', 'kept'])
})

test('if one of two claims fails, the jobs of the other run', async () => {
  let isAhead = false
  const store: Store = {
    ...scene.store,
    claim: (params) => {
      const fails = isAhead && !params.lanes.some(({ type }) => type === 'once')
      return fails ? Promise.reject(new Error('busy')) : scene.store.claim(params)
    },
  }
  const app = scene.newApp({ store })
  app.job('quick', { run: () => undefined })
  app.job('once', { policy: { forwardOnly: true }, run: () => 'done' })
  const worker = await scene.worker({ concurrency: 1 }, app)
  for (let i = 0; i < 3; i++) {
    await app.submitMany('quick', Array(50).fill({}))
    await scene.clock.advance(1)
    await worker.tick()
  }
  isAhead = true
  const { id } = await app.submit('once', {})
  await worker.tick()
  expect(await scene.status(id)).toBe('complete')
})

test('a worker whose slots are full does not ask the store again and again', async () => {
  let claims = 0
  const store: Store = {
    ...scene.store,
    claim: (params) => {
      claims++
      return scene.store.claim(params)
    },
  }
  const app = scene.newApp({ store })
  app.job('quick', { policy: { shutdown: 'fail' }, run: () => undefined })
  app.job('slow', { policy: { shutdown: 'fail' }, run: never })
  const worker = await scene.worker({ concurrency: 1, pollMs: 100 }, app)
  for (let i = 0; i < 3; i++) {
    await app.submitMany('quick', Array(50).fill({}))
    await scene.clock.advance(1)
    await worker.tick()
  }
  await app.submit('slow', {})
  await worker.tick()
  // Due in the past, and nobody has room for it.
  await app.submit('slow', {}, { delay: 1 })
  claims = 0
  await scene.pass(1_000)
  expect(claims).toBeLessThan(30)
})

test('size follows what was done in the last tenth of a second, and grows step by step', () => {
  const prefetch = new Prefetch(500)
  let nowMs = 0
  const round = (done: number, tookMs: number) => {
    for (let i = 0; i < done; i++) prefetch.done()
    nowMs += tookMs
    prefetch.claimed(1, 2, nowMs)
    return prefetch.size
  }
  expect(round(10, 0)).toBe(0)
  expect(round(100, 1)).toBe(8)
  expect(round(100, 1)).toBe(32)
  expect(round(100, 1)).toBe(128)
  expect(round(100, 1)).toBe(500)
  expect(round(1, 1_000)).toBe(0)
})

test('ten thousand jobs for a worker with one slot are done once each, in order', async () => {
  const done: number[] = []
  scene.app.job('count', { run: (n: number) => void done.push(n) })
  const worker = await scene.worker({ concurrency: 1 })
  const numbers = Array.from({ length: 10_000 }, (_, n) => n)
  await scene.app.submitMany('count', numbers)
  for (let i = 0; i < 100 && done.length < numbers.length; i++) await scene.pass(10)
  expect(done).toEqual(numbers)
  expect(await scene.store.counts()).toEqual([expect.objectContaining({ complete: 10_000, queued: 0, processing: 0 })])
  expect(worker.held).toBe(0)
})

test('a job of high priority overtakes everything that is not begun or claimed ahead yet', async () => {
  const order: string[] = []
  scene.app.job('any', { run: (name: string) => void order.push(name) })
  await scene.app.submitMany('any', Array(100).fill('low'))
  await scene.app.submit('any', 'high', { priority: 5 })
  await (await scene.worker({ concurrency: 1 })).tick()
  expect(order[0]).toBe('high')
})

test('jobs with large payloads are claimed ahead by the few, however quick they are', () => {
  const sizeFor = (payloadChars: number): number => {
    const prefetch = new Prefetch(500)
    let nowMs = 0
    for (let claim = 0; claim < 10; claim++) {
      for (let n = 0; n < 100; n++) prefetch.done()
      nowMs += 1
      prefetch.claimed(100, 100 * payloadChars, nowMs)
    }
    return prefetch.size
  }
  expect(sizeFor(10)).toBe(500)
  expect(sizeFor(1024 * 1024)).toBe(16)
})
