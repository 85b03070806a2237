import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import {
  FAULTS,
  Faulty,
  holdOneRun,
  METHODS,
  only,
  openRuns,
  type Run,
} from '../../../../../test/support/stores/faulty-store.ts'
import { turns } from '../../../../../test/support/until.ts'
import type { App } from '../../../src/app/app.ts'
import { AttemptStuck, AttemptTimeout } from '../../../src/core/failure/attempt-failed.ts'
import type { PolicyInput } from '../../../src/core/policy/policy.ts'
import { LeaseLost, ShuttingDown } from '../../../src/worker/attempt/attempt.ts'
import type { Worker } from '../../../src/worker/worker.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

const pass = (ms: number) => scene.clock.advance(ms, () => turns(3))
const open = (app: App, name: string, ttlMs: number, policy: PolicyInput = {}) =>
  openRuns(scene.clock, app, name, ttlMs, policy)

describe('the signal of a handler fires within a second of the end of its lease', () => {
  test.each(FAULTS.flatMap((form) => [1_000, 3_000, 30_000, 120_000].map((ttlMs) => [form, ttlMs] as const)))(
    'when renewals are %s, on a lease of %i ms',
    async (form, ttlMs) => {
      const { faulty, runs, id } = await holdOneRun(scene, ttlMs, { lateMs: 3 * ttlMs })
      // Renewed a few times first: trust that is counted wrongly would grow with each.
      await pass(3 * ttlMs)
      const untilMs = ((await scene.job(id)).lease?.untilMs ?? 0) - scene.clock.nowMs() + scene.clock.monoMs()
      faulty.set(form, 'renew')
      await pass(2 * ttlMs + 1_000)
      const { stoppedMs, reason } = only(runs.slice(0, 1))
      expect(reason).toBeInstanceOf(LeaseLost)
      expect(stoppedMs).toBeGreaterThanOrEqual(untilMs - 1)
      expect(stoppedMs).toBeLessThanOrEqual(untilMs + 1_000)
    },
  )

  test('when no call is answered: renew, claim, start, close, cancellations', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const short = open(app, 'short', 3_000)
    const long = open(app, 'long', 60_000)
    const timed = open(app, 'timed', 60_000, { timeout: { attempt: '5s' } })
    for (const type of ['short', 'short', 'long', 'timed']) await app.submit(type, {})
    const worker = await scene.worker({ concurrency: 20 }, app)
    await worker.tick()
    const claimedMs = scene.clock.monoMs()
    faulty.set('silent', ...METHODS)
    await pass(70_000)
    const stopsOf = (runs: readonly Run[]) => runs.map(({ stoppedMs }) => (stoppedMs ?? Number.NaN) - claimedMs)
    expect(stopsOf(short)).toEqual([3_000, 3_000])
    expect(stopsOf(timed)).toEqual([5_000])
    expect(only(timed).reason).toBeInstanceOf(AttemptTimeout)
    expect(stopsOf(long)).toEqual([60_000])
  })

  test('or of the time after which it counts as stuck', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const stuck = open(app, 'stuck', 60_000, {
      orphan: { action: 'requeue', budget: 'free', maxReclaims: 5, stuckAfter: '7s' },
    })
    await app.submit('stuck', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    const claimedMs = scene.clock.monoMs()
    faulty.set('silent', ...METHODS)
    await pass(8_000)
    expect(only(stuck)).toMatchObject({ stoppedMs: claimedMs + 7_000, reason: expect.any(AttemptStuck) })
  })

  test('of a handler that begins while nothing is answered', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 3_000)
    const worker = await scene.worker({ concurrency: 2 }, app)
    await worker.tick()
    faulty.set('silent', ...METHODS.filter((method) => method !== 'claim'))
    await app.submitMany('open', [{}, {}])
    await pass(4_000)
    expect(runs.map(({ stoppedMs }) => stoppedMs)).toEqual([3_100, 3_100])
  })

  test('when the wall clock jumps while renewals are silent', async () => {
    const { faulty, runs } = await holdOneRun(scene, 30_000)
    faulty.set('silent', 'renew')
    scene.clock.jump(-3_600_000)
    await pass(31_000)
    expect(only(runs).stoppedMs).toBe(30_000)
  })

  test('after the process stood still and nothing is answered, half a second after it goes on', async () => {
    const { faulty, runs } = await holdOneRun(scene, 30_000)
    faulty.set('silent', 'renew')
    scene.clock.block(40_000)
    await pass(30_000)
    expect(only(runs).stoppedMs).toBeLessThanOrEqual(70_500)
    expect(only(runs).reason).toBeInstanceOf(LeaseLost)
  })
})

describe('a job claimed ahead', () => {
  test('is dropped at the end of its lease and never begun by this worker', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const begun: string[] = []
    app.job('quick', { policy: { orphan: 'requeue', lease: { ttl: '30s' } }, run: () => void begun.push('quick') })
    const runs = open(app, 'open', 30_000)
    const worker = await scene.worker({ concurrency: 1 }, app)
    for (let i = 0; i < 3; i++) {
      await app.submitMany('quick', Array(50).fill({}))
      await scene.clock.advance(1)
      await worker.tick()
    }
    begun.length = 0
    await app.submit('open', {})
    await app.submitMany('quick', Array(5).fill({}))
    await worker.tick()
    expect(worker.held).toBeGreaterThan(1)
    faulty.set('silent', ...METHODS)
    await pass(31_000)
    only(runs).end()
    await pass(1_000)
    expect(begun).toEqual([])
    expect(only(runs).stoppedMs).not.toBeNull()
  })
})

describe('an outcome', () => {
  test.each(['unknown', 'late', 'silent', 'refused'] as const)(
    'whose close is %s is not lost, and the job ends once',
    async (form) => {
      const faulty = new Faulty(scene)
      faulty.lateMs = 25_000
      const told: string[] = []
      const app = scene.newApp({ store: faulty.store })
      const runs = open(app, 'open', 30_000)
      const { id } = await app.submit('open', {})
      const worker = await scene.worker({ onOutcome: ({ answer }) => told.push(answer) }, app)
      await worker.tick()
      faulty.set(form, 'close')
      only(runs).end('done')
      await pass(14_000)
      faulty.set('well', 'close')
      await pass(60_000)
      expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 1, result: '"done"' })
      expect(told).toHaveLength(1)
      expect(worker.held).toBe(0)
    },
  )

  test('whose close is never answered does not keep later outcomes from being recorded', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 30_000)
    const jobs = await app.submitMany('open', [{}, {}])
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('silent', 'close')
    runs[0]?.end('first')
    await pass(100)
    faulty.set('well', 'close')
    runs[1]?.end('second')
    await pass(15_000)
    for (const { id } of jobs) expect(await scene.status(id)).toBe('complete')
  })
})

describe('the start of an attempt', () => {
  test('is sent again if it is never answered, so that a running job does not look unstarted', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 30_000)
    const { id } = await app.submit('open', {})
    const worker = await scene.worker({}, app)
    faulty.set('silent', 'start')
    await worker.tick()
    await pass(1_000)
    faulty.set('well', 'start')
    await pass(15_000)
    expect((await scene.job(id)).startedAtMs).not.toBeNull()
    expect(only(runs).stoppedMs).toBeNull()
  })

  test('that must be recorded first and is never answered begins nothing, and frees the slot', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 5_000)
    const { id } = await app.submit('open', {})
    const first = await scene.worker({}, app)
    await first.tick()
    const stopping = first.stop({ graceMs: 0 })
    await pass(1_000)
    await stopping
    // It was given back once, so its next start is recorded before it begins.
    const worker = await scene.worker({ concurrency: 1 }, app)
    faulty.set('silent', 'start')
    void worker.tick()
    await turns()
    expect(await scene.job(id)).toMatchObject({ status: 'processing', attempt: 2 })
    faulty.set('silent', 'renew')
    const { id: next } = await app.submit('open', {})
    await pass(6_000)
    expect(runs.map(({ attempt }) => attempt.jobId)).toEqual([id, next])
  })
})

describe('a claim', () => {
  test('that is never answered is asked again, and the jobs of a late answer are run', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 60_000)
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('silent', 'claim')
    await pass(200)
    const { id } = await app.submit('open', {})
    faulty.lateMs = 20_000
    faulty.set('late', 'claim')
    await pass(10_500)
    expect(runs).toHaveLength(0)
    faulty.set('well', 'claim')
    await pass(25_000)
    only(runs).end('late but ours')
    await pass(100)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 1, result: '"late but ours"' })
  })
})

describe('stop', () => {
  const ended = async (worker: Worker, graceMs: number, withinMs: number) => {
    let isDone = false
    const stopping = worker.stop({ graceMs }).then(() => {
      isDone = true
    })
    for (let passedMs = 0; !isDone && passedMs < withinMs; passedMs += 100) await pass(100)
    expect(isDone).toBe(true)
    await stopping
  }

  test.each([
    ['in the middle of a handler', 1_000],
    ['without a limit for handlers', Number.POSITIVE_INFINITY],
  ])('ends on a store that never answers, %s', async (_when, graceMs) => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 30_000)
    const timed = open(app, 'timed', 30_000)
    await app.submit('open', {})
    await app.submit('timed', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('silent', ...METHODS)
    only(timed).end('never recorded')
    await pass(1_000)
    await ended(worker, graceMs, 80_000)
    expect(only(runs).reason).toBeInstanceOf(graceMs === 1_000 ? ShuttingDown : LeaseLost)
  })

  test('ends on a store that never answers a claim', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    open(app, 'open', 30_000)
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('silent', ...METHODS)
    await pass(1_000)
    await ended(worker, 30_000, 80_000)
  })
})

test('a periodic task that never ends is logged, and started again after ten minutes', async () => {
  let begun = 0
  const run = () => {
    begun++
    return begun === 1 ? new Promise<void>(() => undefined) : Promise.resolve()
  }
  const worker = await scene.worker({ duties: [{ name: 'sweeping', everyMs: 1_000, run, nextAtMs: async () => null }] })
  await worker.start()
  await pass(9 * 60_000)
  expect(begun).toBe(1)
  await pass(2 * 60_000)
  expect(begun).toBeGreaterThan(2)
  expect(scene.log.lines).toContainEqual(
    expect.objectContaining({ message: 'sweeping did not end within 10 m; will begin again' }),
  )
  await worker.stop()
})

test('an app stops although its store never does, and says so', async () => {
  const store = { ...scene.store, stop: () => new Promise<void>(() => undefined) }
  const app = scene.newApp({ store })
  await app.store()
  let isStopped = false
  const stopping = app.stop().then(() => {
    isStopped = true
  })
  await turns(10)
  await pass(59_000)
  expect(isStopped).toBe(false)
  await pass(2_000)
  await stopping
  expect(scene.log.lines.map(({ message }) => message)).toContain(
    'the store did not stop in time; the app goes on without it',
  )
})
