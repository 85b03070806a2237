import { afterEach, beforeEach, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { Cancelled } from '../../../src/worker/attempt/attempt.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

async function cancel(id: string): Promise<string> {
  const { status, attempt } = await scene.job(id)
  const kind = status === 'processing' ? 'request-cancel' : 'cancel'
  return scene.store.intervene({ id, actor: 'ann', reason: 'wrong file', expect: { status, attempt }, act: { kind } })
}

test('a queued job is cancelled at once and never runs', async () => {
  let runs = 0
  scene.app.job('any', { run: () => runs++ })
  const { id } = await scene.app.submit('any', {}, { delay: '1m' })
  expect(await cancel(id)).toBe('done')
  await scene.worker()
  await scene.pass(120_000)
  expect(runs).toBe(0)
  expect(await scene.job(id)).toMatchObject({ status: 'cancelled', attempt: 0 })
  expect(await scene.rebuilt(id)).toEqual(await scene.standing(id))
})

test('a running job is told who cancelled it and why, within one poll', async () => {
  let reason: unknown
  scene.app.job('slow', {
    run: (_: unknown, attempt) =>
      new Promise((_resolve, reject) => {
        attempt.signal.addEventListener('abort', () => {
          reason = attempt.signal.reason
          reject(attempt.signal.reason)
        })
      }),
  })
  await scene.worker()
  const { id } = await scene.app.submit('slow', {})
  await scene.pass(0)
  await cancel(id)
  expect(await scene.status(id)).toBe('processing')
  await scene.pass(100)
  expect(reason).toBeInstanceOf(Cancelled)
  expect(reason).toMatchObject({ actor: 'ann', reason: 'wrong file' })
  expect(await scene.job(id)).toMatchObject({ status: 'cancelled', failure: null })
  expect(await scene.story(id)).toBe('queued processing started cancel-requested cancelled')
  const ended = (await scene.store.events({ id })).at(-1)
  expect(ended?.data.reason, 'the history says why it ended').toContain('wrong file')
})

test('a handler that finished all the same has completed: the work is done and says so', async () => {
  const gate = Promise.withResolvers<string>()
  scene.app.job('slow', { run: () => gate.promise })
  await scene.worker()
  const { id } = await scene.app.submit('slow', {})
  await scene.pass(0)
  await cancel(id)
  await scene.pass(100)
  gate.resolve('done anyway')
  await scene.pass(0)
  expect(await scene.job(id)).toMatchObject({ status: 'complete', result: '"done anyway"' })
})

test('a handler that ignores the cancellation ends cancelled at its limit, whatever attempts are left', async () => {
  scene.app.job('deaf', {
    policy: { timeout: { attempt: '10s' }, retry: { max: 5 } },
    run: () => new Promise(() => undefined),
  })
  await scene.worker()
  const { id } = await scene.app.submit('deaf', {})
  await scene.pass(0)
  await cancel(id)
  await scene.pass(10_000)
  expect(await scene.job(id)).toMatchObject({ status: 'cancelled', attempt: 1 })
})

test('a failure that came before the worker heard of the cancellation does not bring the job back', async () => {
  const gate = Promise.withResolvers<never>()
  scene.app.job('flaky', { policy: { retry: { max: 5, unknown: 'transient' } }, run: () => gate.promise })
  const worker = await scene.worker()
  const { id } = await scene.app.submit('flaky', {})
  await worker.tick()
  gate.reject(new Error('failed by itself'))
  await Promise.all([cancel(id), worker.tick()])
  await scene.pass(0)
  expect(await scene.job(id)).toMatchObject({ status: 'cancelled', attempt: 1 })
  // What really happened is kept, although it decided nothing.
  expect(await scene.failures(id)).toEqual([expect.objectContaining({ code: 'UNKNOWN', to: 'cancelled' })])
  expect(await scene.rebuilt(id)).toEqual(await scene.standing(id))
})

test('a job that was claimed ahead and not begun is cancelled without beginning', async () => {
  const runs: number[] = []
  const gate = Promise.withResolvers<void>()
  scene.app.job('quick', { policy: { orphan: 'requeue' }, run: () => undefined })
  scene.app.job('gated', {
    policy: { orphan: 'requeue' },
    run: (n: number) => {
      runs.push(n)
      return gate.promise
    },
  })
  const worker = await scene.worker({ concurrency: 1 })
  for (let i = 0; i < 3; i++) {
    await scene.app.submitMany('quick', Array(50).fill({}))
    await scene.clock.advance(1)
    await worker.tick()
  }
  const jobs = await scene.app.submitMany('gated', [1, 2])
  await worker.tick()
  const waiting = String(jobs[1]?.id)
  expect(await scene.job(waiting)).toMatchObject({ status: 'processing', startedAtMs: null })
  await cancel(waiting)
  await scene.pass(100)
  expect(await scene.job(waiting)).toMatchObject({ status: 'cancelled', startedAtMs: null })
  gate.resolve()
  await scene.pass(0)
  expect(runs).toEqual([1])
})

test('a cancelled orphan is cancelled when its worker is found to be gone, not begun again', async () => {
  scene.app.job('slow', {
    policy: { orphan: 'requeue', lease: { ttl: '1s' } },
    run: () => new Promise(() => undefined),
  })
  const first = await scene.worker()
  const { id } = await scene.app.submit('slow', {})
  await first.tick()
  await cancel(id)
  first.crash()
  scene.clock.block(2_000)
  const second = await scene.worker()
  expect(await second.maintain()).toMatchObject({ cancelled: 1, requeued: 0 })
  await second.tick()
  expect(await scene.job(id)).toMatchObject({ status: 'cancelled', attempt: 1 })
})

test('cancelling twice says so twice and changes nothing the second time', async () => {
  scene.app.job('slow', { run: () => new Promise(() => undefined) })
  await scene.worker()
  const { id } = await scene.app.submit('slow', {})
  await scene.pass(0)
  expect(await cancel(id)).toBe('done')
  expect(await cancel(id)).toBe('done')
  expect((await scene.story(id)).match(/cancel-requested/g)).toHaveLength(1)
})

test('a finished job cannot be cancelled', async () => {
  scene.app.job('any', { run: () => 1 })
  await scene.worker()
  const { id } = await scene.app.submit('any', {})
  await scene.pass(0)
  const seen = { status: 'processing', attempt: 1 } as const
  const act = { kind: 'request-cancel' } as const
  expect(await scene.store.intervene({ id, actor: 'ann', reason: 'late', expect: seen, act })).toBe('moved-on')
  expect(await scene.status(id)).toBe('complete')
})
