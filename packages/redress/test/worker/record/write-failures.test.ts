import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { turns } from '../../../../../test/support/until.ts'
import { RedressError } from '../../../src/core/errors.ts'
import type { Store } from '../../../src/store/contract/store.ts'
import type { Worker } from '../../../src/worker/worker.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

const full = () => new RedressError('STORE_FULL', 'The disk is full: nothing was written.')

/** A store of which the named calls fail while `isBroken`. */
function breaking(...names: (keyof Store)[]) {
  const state = { isBroken: false, refused: 0 }
  const broken = names.map((name) => [
    name,
    (params: never) => {
      if (!state.isBroken) return (scene.store[name] as (params: never) => unknown)(params)
      state.refused++
      return Promise.reject(full())
    },
  ])
  return { state, store: { ...scene.store, ...Object.fromEntries(broken) } as Store }
}

/** Time goes by without waiting for the worker to come to rest: it cannot, while its outcome is unrecorded. */
async function goesBy(ms: number): Promise<void> {
  await scene.clock.advance(ms, () => turns(5))
}

async function begin(worker: Worker): Promise<void> {
  await worker.enlist()
  void worker.tick()
  await turns()
}

describe('while outcomes cannot be recorded', () => {
  test('no job is complete and none is reported; afterwards each is recorded once', async () => {
    const { state, store } = breaking('close')
    const app = scene.newApp({ store })
    let runs = 0
    app.job('any', { run: () => ++runs })
    const told: string[] = []
    const worker = await scene.worker({ onOutcome: ({ jobId }) => told.push(jobId) }, app)
    const jobs = await app.submitMany('any', Array(20).fill({}))
    state.isBroken = true
    await begin(worker)
    await goesBy(2_000)
    expect(runs).toBe(20)
    expect(told).toEqual([])
    for (const { id } of jobs) expect(await scene.status(id)).toBe('processing')
    expect(scene.log.lines).toContainEqual(
      expect.objectContaining({ level: 'error', message: 'outcomes could not be recorded; will try again' }),
    )
    state.isBroken = false
    await goesBy(6_000)
    expect(told.toSorted()).toEqual(jobs.map(({ id }) => id).toSorted())
    for (const { id } of jobs) expect(await scene.story(id)).toMatch(/complete$/)
    expect(runs).toBe(20)
  })

  test('a failure waits to be recorded just as a success does, with its decision as it was made', async () => {
    const { state, store } = breaking('close')
    const app = scene.newApp({ store })
    app.job('flaky', {
      policy: { retry: { max: 2, backoff: { table: ['1m'] }, unknown: 'transient' } },
      run: () => {
        throw new Error('once')
      },
    })
    const worker = await scene.worker({}, app)
    const { id } = await app.submit('flaky', {})
    state.isBroken = true
    await begin(worker)
    await goesBy(3_000)
    expect(await scene.failures(id)).toEqual([])
    state.isBroken = false
    await goesBy(6_000)
    expect(await scene.job(id)).toMatchObject({ status: 'queued', attempt: 1 })
    expect(await scene.failures(id)).toHaveLength(1)
  })

  test('leases are kept, so that no other worker does the work a second time', async () => {
    const { state, store } = breaking('close')
    const app = scene.newApp({ store })
    let runs = 0
    app.job('any', { policy: { orphan: 'requeue', lease: { ttl: '1s' } }, run: () => ++runs })
    const worker = await scene.worker({}, app)
    const other = await scene.worker({}, scene.newApp())
    const { id } = await app.submit('any', {})
    state.isBroken = true
    await begin(worker)
    for (let i = 0; i < 10; i++) {
      await goesBy(1_000)
      expect(await other.maintain()).toMatchObject({ requeued: 0 })
    }
    state.isBroken = false
    await goesBy(6_000)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 1 })
    expect(runs).toBe(1)
  })

  test('an outcome outlives its lease: nothing is written for long, and then it counts', async () => {
    const { state, store } = breaking('close', 'renew', 'reclaim')
    const app = scene.newApp({ store })
    let runs = 0
    app.job('any', { policy: { orphan: 'requeue', lease: { ttl: '1s' } }, run: () => ++runs })
    const worker = await scene.worker({}, app)
    const { id } = await app.submit('any', {})
    state.isBroken = true
    await begin(worker)
    await goesBy(20_000)
    expect(await scene.status(id)).toBe('processing')
    state.isBroken = false
    await worker.maintain()
    await goesBy(6_000)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 1 })
    expect(runs).toBe(1)
  })

  test('the store is asked less and less often, but at least every few seconds', async () => {
    const { state, store } = breaking('close')
    const app = scene.newApp({ store })
    app.job('any', { run: () => 1 })
    const worker = await scene.worker({}, app)
    await app.submit('any', {})
    state.isBroken = true
    await begin(worker)
    await goesBy(60_000)
    expect(state.refused).toBeGreaterThan(10)
    expect(state.refused).toBeLessThan(30)
  })

  test('a turn of the loop ends: waiting for the store is not being busy', async () => {
    const { state, store } = breaking('close')
    const app = scene.newApp({ store })
    app.job('any', { run: () => 1 })
    const worker = await scene.worker({}, app)
    const { id } = await app.submit('any', {})
    state.isBroken = true
    await worker.tick()
    expect(await scene.status(id)).toBe('processing')
    state.isBroken = false
    await scene.pass(1_000)
    expect(await scene.status(id)).toBe('complete')
  })

  test('a worker that must stop gives up after its grace instead of hanging, and says what was left', async () => {
    const { state, store } = breaking('close')
    const app = scene.newApp({ store })
    app.job('any', { policy: { orphan: 'requeue' }, run: () => 1 })
    const worker = await scene.worker({}, app)
    const { id } = await app.submit('any', {})
    state.isBroken = true
    await begin(worker)
    let isStopped = false
    const stopping = worker.stop({ graceMs: 10_000 }).then(() => {
      isStopped = true
    })
    await goesBy(60_000)
    expect(isStopped).toBe(true)
    await stopping
    expect(await scene.status(id)).toBe('processing')
    expect(scene.log.lines).toContainEqual(
      expect.objectContaining({ level: 'error', message: expect.stringContaining('not recorded') }),
    )
  })

  test('a worker that falls dead does not write its outcomes from the grave', async () => {
    const { state, store } = breaking('close')
    const app = scene.newApp({ store })
    app.job('any', { run: () => 1 })
    const worker = await scene.worker({}, app)
    const { id } = await app.submit('any', {})
    state.isBroken = true
    await begin(worker)
    worker.crash()
    state.isBroken = false
    await goesBy(60_000)
    expect(await scene.status(id)).toBe('processing')
  })
})

test('a store that fails everything for a minute and comes back finds every job done once', async () => {
  const { state, store } = breaking('close', 'claim', 'renew', 'start', 'cancellations')
  const app = scene.newApp({ store })
  let runs = 0
  app.job('any', { policy: { orphan: 'requeue' }, run: () => ++runs })
  const worker = await scene.worker({}, app)
  const first = await app.submitMany('any', Array(10).fill({}))
  await begin(worker)
  state.isBroken = true
  const second = await app.submitMany('any', Array(10).fill({}))
  await goesBy(60_000)
  state.isBroken = false
  for (let i = 0; i < 4; i++) {
    await goesBy(10_000)
    await worker.maintain()
  }
  for (const { id } of [...first, ...second]) {
    expect((await scene.story(id)).match(/complete/g)).toHaveLength(1)
    expect(await scene.rebuilt(id)).toEqual(await scene.standing(id))
  }
  expect(runs).toBe(20)
})

test('a start that must be durable and cannot be recorded does not begin, and the job is not lost', async () => {
  const { state, store } = breaking('start')
  const app = scene.newApp({ store })
  let runs = 0
  app.job('careful', { policy: { orphan: 'requeue' }, run: () => ++runs })
  const first = await scene.worker({}, app)
  const { id } = await app.submit('careful', {})
  // Given back once: from then on its start is told before it begins.
  const gone = await scene.worker({ probe: (step) => (step === 'run' ? 'crash' : undefined) }, app)
  await gone.tick()
  scene.clock.block(31_000)
  await first.maintain()
  state.isBroken = true
  await first.tick()
  expect(runs).toBe(0)
  state.isBroken = false
  scene.clock.block(31_000)
  await first.maintain()
  await scene.pass(0)
  expect(runs).toBe(1)
  expect(await scene.status(id)).toBe('complete')
})

test('one outcome that the store can never take does not keep the others from being recorded', async () => {
  let poisonKey: number | null = null
  const store: Store = {
    ...scene.store,
    async claim(params) {
      const claimed = await scene.store.claim(params)
      for (const lease of claimed.leases) if (lease.payload === '"poison"') poisonKey = lease.key
      return claimed
    },
    close: (params) =>
      params.closes.some(({ key }) => key === poisonKey) ? Promise.reject(full()) : scene.store.close(params),
  }
  const app = scene.newApp({ store })
  app.job('any', { policy: { orphan: 'requeue' }, run: () => 1 })
  const worker = await scene.worker({}, app)
  await app.submit('any', 'poison')
  const honest = await app.submitMany('any', Array(5).fill('honest'))
  await begin(worker)
  await goesBy(30_000)
  for (const { id } of honest) expect(await scene.status(id)).toBe('complete')
})

test('an app whose store could not be opened at first can be used when it can', async () => {
  let isBroken = true
  const store: Store = {
    ...scene.store,
    register: (params) => (isBroken ? Promise.reject(full()) : scene.store.register(params)),
  }
  const app = scene.newApp({ store })
  app.job('any', { run: () => 1 })
  await expect(app.submit('any', {})).rejects.toMatchObject({ code: 'STORE_FULL' })
  isBroken = false
  await expect(app.submit('any', {})).resolves.toMatchObject({ status: 'queued' })
})
