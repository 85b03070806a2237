import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { turns } from '../../../../../test/support/until.ts'
import { failureCodes } from '../../../src/core/failure/taxonomy.ts'
import type { Store } from '../../../src/store/contract/store.ts'
import type { Attempt } from '../../../src/worker/attempt/attempt.ts'
import type { Worker } from '../../../src/worker/worker.ts'

const codes = failureCodes({ NO_ROOM: { fault: 'operator', retry: 'never', message: 'There is no room.' } })

let scene: Scene
let worker: Worker
let order: string[]
let acquire: (attempt: Attempt) => (() => unknown) | Promise<() => unknown>
let run: () => unknown
let verify: () => unknown

const release = () => void order.push('release')

beforeEach(async () => {
  scene = new Scene()
  order = []
  acquire = () => release
  run = () => void order.push('run')
  verify = () => void order.push('verify')
  scene.app.job('held', {
    codes,
    policy: { forwardOnly: true, lease: { ttl: '30s', startTimeout: '1m' }, timeout: { attempt: '20s' } },
    acquire: (_input: object, attempt) => {
      order.push('acquire')
      return acquire(attempt as Attempt)
    },
    run: () => run(),
    verify: () => verify(),
  })
  worker = await scene.worker({ id: 'node-1', onOutcome: ({ change }) => void order.push(change.to) })
})
afterEach(() => scene.end())

const submitted = async (): Promise<string> => (await scene.app.submit('held', {})).id

test('a resource acquired before an attempt is released after it, before its outcome is reported', async () => {
  const id = await submitted()
  await worker.tick()
  expect(order).toEqual(['acquire', 'run', 'verify', 'release', 'complete'])
  expect((await scene.job(id)).startedAtMs).not.toBeNull()
})

test.each([
  ['run', () => (run = () => Promise.reject(new Error('no'))), 'execution'],
  ['verify', () => (verify = () => Promise.reject(new Error('no'))), 'verification'],
])('it is let go when %s fails, too', async (_what, prepare, phase) => {
  prepare()
  const id = await submitted()
  await worker.tick()
  expect(order.slice(-2)).toEqual(['release', 'failed'])
  expect(await scene.lastFailure(id)).toMatchObject({ phase, layer: 'worker' })
})

test('a throw is a dispatch failure of a job that never started, with the code that it names', async () => {
  acquire = (attempt) => attempt.fail('NO_ROOM', { detail: 'three bytes are free' })
  const id = await submitted()
  await worker.tick()
  expect(order).toEqual(['acquire', 'failed'])
  expect(await scene.job(id)).toMatchObject({ status: 'failed', startedAtMs: null })
  expect(await scene.lastFailure(id)).toMatchObject({ phase: 'dispatch', layer: 'coordination', code: 'NO_ROOM' })
})

test('a failed release fails a successful attempt, and is only noted beside a failure', async () => {
  acquire = () => () => Promise.reject(new Error('it is stuck'))
  const good = await submitted()
  await worker.tick()
  expect(await scene.lastFailure(good)).toMatchObject({
    phase: 'execution',
    detail: expect.stringContaining('it is stuck'),
  })
  run = () => Promise.reject(new Error('the real trouble'))
  const bad = await submitted()
  await worker.tick()
  expect(await scene.lastFailure(bad)).toMatchObject({
    detail: expect.stringContaining('the real trouble'),
    context: { notReleased: expect.stringContaining('it is stuck') },
  })
})

describe('while something is being acquired', () => {
  let got: (value: () => unknown) => void

  beforeEach(() => {
    acquire = () => new Promise((resolve) => (got = resolve))
  })

  test('the worker’s end is a dispatch failure, and a resource that comes too late is released at once', async () => {
    const id = await submitted()
    await worker.tick()
    const stopped = worker.stop({ graceMs: 1_000 })
    await scene.clock.advance(2_000, () => turns(10))
    await stopped
    expect(await scene.lastFailure(id)).toMatchObject({ phase: 'dispatch', code: 'SHUTDOWN' })
    got(release)
    await turns()
    expect(order).toEqual(['acquire', 'failed', 'release'])
  })

  test('a time limit is one of the dispatch', async () => {
    const id = await submitted()
    await worker.tick()
    await scene.pass(20_000)
    expect(await scene.lastFailure(id)).toMatchObject({ phase: 'dispatch', code: 'TIMEOUT' })
    got(release)
    await turns()
    expect(order.at(-1)).toBe('release')
    expect(order).not.toContain('run')
  })
})

test('a lost attempt keeps what it acquired until its handler ends, also when the store answers its close later', async () => {
  let isBroken = true
  const close: Store['close'] = (params) =>
    isBroken ? Promise.reject(new Error('the disk is full')) : scene.store.close(params)
  const app = scene.newApp({ store: { ...scene.store, close } })
  let end: () => void = () => undefined
  app.job('hanging', {
    policy: { lease: { ttl: '30s' }, timeout: { attempt: '20s' } },
    acquire: () => release,
    run: () => new Promise<void>((resolve) => (end = resolve)),
  })
  const lost: string[] = []
  const worker = await scene.worker(
    { onLeaseLost: ({ jobId }) => void lost.push(jobId), onOutcome: ({ answer }) => void order.push(answer) },
    app,
  )
  const { id } = await app.submit('hanging', {})
  void worker.tick()
  await turns()
  await scene.clock.advance(21_000, () => turns(5))
  await app.jobs.markFailed(id, { actor: 'ann', reason: 'it hangs' })
  await scene.clock.advance(11_000, () => turns(5))
  expect(lost).toEqual([id])
  isBroken = false
  await scene.clock.advance(6_000, () => turns(5))
  expect(order).toEqual(['lost'])
  expect(lost, 'a loss is reported once').toEqual([id])
  end()
  await turns()
  expect(order).toEqual(['lost', 'release'])
})

test('a type says itself whose turn its jobs take, also for an edited retry', async () => {
  const app = scene.newApp()
  app.job('keyed', {
    policy: { concurrency: { perKey: 1 } },
    limitKey: ({ folder }: { folder: string }) => folder,
    run: () => Promise.reject(new Error('no')),
  })
  const { id } = await app.submit('keyed', { folder: 'a' }, { limitKey: 'of the caller' })
  expect((await scene.job(id)).limitKey).toBe('a')
  await (await scene.worker({}, app)).tick()
  const { job } = await app.jobs.retry(id, { actor: 'ann', reason: 'elsewhere', input: { folder: 'b' } })
  expect((await scene.job(job.id)).limitKey).toBe('b')
})
