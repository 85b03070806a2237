import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Scene } from '../../../../test/support/scene.ts'
import { turns } from '../../../../test/support/until.ts'
import { unpackSpent } from '../../src/core/policy/budget.ts'
import type { PolicyInput } from '../../src/core/policy/policy.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { ShuttingDown } from '../../src/worker/attempt/attempt.ts'
import type { Worker } from '../../src/worker/worker.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

const MOMENT_MS = 250

/** Stops while time goes by, as it would by itself. */
async function stopped(worker: Worker, graceMs: number): Promise<void> {
  let isDone = false
  const stopping = worker.stop({ graceMs }).then(() => {
    isDone = true
  })
  await turns()
  for (let passedMs = 0; !isDone && passedMs <= graceMs + 2 * MOMENT_MS; passedMs += 50) {
    await scene.clock.advance(50, () => turns(3))
  }
  await stopping
}

function gated(policy: PolicyInput = {}, app = scene.app) {
  const runs: {
    attempt: number
    signal: AbortSignal
    end: (output: unknown) => void
    fail: (reason: unknown) => void
  }[] = []
  app.job('gated', {
    policy: { timeout: { attempt: null }, ...policy },
    run: (_: unknown, attempt) =>
      new Promise((end, fail) => runs.push({ attempt: attempt.number, signal: attempt.signal, end, fail })),
  })
  return runs
}

/** Quick jobs, so that the worker dares to claim ahead. */
async function learnToClaimAhead(worker: Worker): Promise<void> {
  for (let i = 0; i < 3; i++) {
    await scene.app.submitMany('quick', Array(50).fill({}))
    await scene.clock.advance(1)
    await worker.tick()
  }
}

describe('stop', () => {
  test('lets a handler finish within the grace, and records it', async () => {
    const runs = gated()
    const worker = await scene.worker()
    const { id } = await scene.app.submit('gated', {})
    await worker.tick()
    const stopping = worker.stop({ graceMs: 10_000 })
    await scene.clock.advance(9_000, () => turns(3))
    expect(runs[0]?.signal.aborted).toBe(false)
    runs[0]?.end('just in time')
    await stopping
    expect(await scene.job(id)).toMatchObject({ status: 'complete', result: '"just in time"' })
  })

  test('returns as soon as nothing is left, without waiting for the grace', async () => {
    gated()
    const worker = await scene.worker()
    await worker.tick()
    await worker.stop({ graceMs: 3_600_000 })
    expect(await scene.store.workers()).toEqual([expect.objectContaining({ stoppedAtMs: scene.clock.nowMs() })])
  })

  test("gives back unfinished jobs: 'requeue' spends nothing, and a later worker runs them", async () => {
    const runs = gated({ retry: { max: 2 } })
    const worker = await scene.worker()
    const { id } = await scene.app.submit('gated', {})
    await worker.tick()
    await stopped(worker, 1_000)
    expect(runs[0]?.signal.reason).toBeInstanceOf(ShuttingDown)
    const job = await scene.job(id)
    expect(job).toMatchObject({ status: 'queued', dueAtMs: null })
    expect(unpackSpent(job.spent)).toMatchObject({ failures: 0, releases: 1 })
    runs[0]?.end('too late to count')
    const next = await scene.worker()
    await next.tick()
    runs[1]?.end('by the next')
    await next.tick()
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 2, result: '"by the next"' })
    expect(await scene.rebuilt(id)).toEqual(await scene.standing(id))
  })

  test("fails unfinished jobs where the policy says 'fail', as an execution failure with its own code", async () => {
    gated({ shutdown: 'fail' })
    const worker = await scene.worker()
    const { id } = await scene.app.submit('gated', {})
    await worker.tick()
    await stopped(worker, 1_000)
    expect(await scene.job(id)).toMatchObject({ status: 'failed' })
    expect(await scene.lastFailure(id)).toMatchObject({
      code: 'SHUTDOWN',
      phase: 'execution',
      layer: 'worker',
      from: 'processing',
    })
  })

  test('gives a handler that listens to its signal a moment to end, and records its outcome', async () => {
    const runs = gated()
    const worker = await scene.worker()
    const { id } = await scene.app.submit('gated', {})
    await worker.tick()
    runs[0]?.signal.addEventListener('abort', () => runs[0]?.end('wrapped up'))
    await stopped(worker, 1_000)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', result: '"wrapped up"' })
  })

  test('keeps the leases of running jobs during a long grace period', async () => {
    const runs = gated({ lease: { ttl: '1s' }, orphan: 'requeue' })
    const worker = await scene.worker()
    const { id } = await scene.app.submit('gated', {})
    await worker.tick()
    const stopping = worker.stop({ graceMs: 60_000 })
    const other = await scene.worker({}, scene.newApp())
    for (let i = 0; i < 10; i++) {
      await scene.clock.advance(1_000, () => turns(5))
      expect(await other.maintain()).toMatchObject({ requeued: 0, failed: 0 })
    }
    runs[0]?.end('long but ours')
    await stopping
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 1 })
  })

  test('gives back jobs that were claimed ahead, unharmed and at once', async () => {
    scene.app.job('quick', { policy: { orphan: 'requeue' }, run: () => undefined })
    const runs = gated({ orphan: 'requeue' })
    const worker = await scene.worker({ concurrency: 1 })
    await learnToClaimAhead(worker)
    const jobs = await scene.app.submitMany('gated', Array(5).fill({}))
    await worker.tick()
    expect(worker.held).toBe(5)
    const stopping = worker.stop({ graceMs: 10_000 })
    await turns()
    const statuses = await Promise.all(jobs.map(({ id }) => scene.status(id)))
    expect(statuses).toEqual(['processing', 'queued', 'queued', 'queued', 'queued'])
    runs[0]?.end('done')
    await stopping
    for (const { id } of jobs.slice(1)) {
      expect(unpackSpent((await scene.job(id)).spent)).toMatchObject({ failures: 0, reclaims: 0, releases: 1 })
    }
  })

  test('during a claim gives back the jobs that it brings', async () => {
    const answer = Promise.withResolvers<void>()
    const store: Store = {
      ...scene.store,
      async claim(params) {
        const claimed = await scene.store.claim(params)
        await answer.promise
        return claimed
      },
    }
    const app = scene.newApp({ store })
    let runs = 0
    app.job('any', { run: () => runs++ })
    const worker = await scene.worker({}, app)
    const { id } = await app.submit('any', {})
    const ticking = worker.tick()
    await turns()
    expect(await scene.status(id)).toBe('processing')
    const stopping = worker.stop({ graceMs: 10_000 })
    await turns()
    answer.resolve()
    await Promise.all([ticking, stopping])
    expect(runs).toBe(0)
    expect(await scene.job(id)).toMatchObject({ status: 'queued' })
    expect(worker.held).toBe(0)
  })

  test('twice is fine, and the second call may shorten the grace', async () => {
    gated()
    const worker = await scene.worker()
    const { id } = await scene.app.submit('gated', {})
    await worker.tick()
    const patient = worker.stop({ graceMs: 3_600_000 })
    await stopped(worker, 0)
    await patient
    expect(await scene.status(id)).toBe('queued')
    expect((await scene.story(id)).match(/released/g)).toHaveLength(1)
    await worker.stop()
  })

  test('before it ever started is fine too', async () => {
    const worker = await scene.worker()
    await worker.stop()
    await worker.tick()
    expect(await scene.store.workers()).toEqual([])
  })

  test('from inside a handler does not give back the job that asked for it, nor run it twice', async () => {
    const runs: string[] = []
    let worker: Worker
    scene.app.job('last', {
      run: ({ stops }: { stops: boolean }, attempt) => {
        runs.push(attempt.jobId)
        if (stops) void worker.stop({ graceMs: 10_000 })
        return 'done'
      },
    })
    worker = await scene.worker({ concurrency: 10 })
    const jobs = await scene.app.submitMany('last', [{ stops: false }, { stops: true }, { stops: false }])
    await worker.tick()
    await turns()
    const stories = await Promise.all(jobs.map(({ id }) => scene.story(id)))
    expect(stories).toEqual(['queued processing complete', 'queued processing complete', 'queued processing released'])
    expect(runs).toEqual([jobs[0]?.id, jobs[1]?.id])
  })

  test('awaited from inside a handler ends at the grace, and the job goes back', async () => {
    let worker: Worker
    scene.app.job('selfish', { run: () => worker.stop({ graceMs: 1_000 }) })
    worker = await scene.worker()
    const { id } = await scene.app.submit('selfish', {})
    await worker.tick()
    await scene.clock.advance(2_000, () => turns(5))
    expect(await scene.status(id)).toBe('queued')
    expect(worker.held).toBe(0)
  })
})

describe('after a stop', () => {
  test('the store is closed only after the last write, and later calls are refused', async () => {
    const runs = gated()
    const writes: string[] = []
    const store: Store = {
      ...scene.store,
      close: async (params) => {
        const answers = await scene.store.close(params)
        writes.push('close')
        return answers
      },
      dismiss: async (params) => {
        await scene.store.dismiss(params)
        writes.push('dismiss')
      },
      stop: async () => {
        writes.push('stop')
      },
    }
    const app = scene.newApp({ store })
    const gatedRuns = gated({}, app)
    const worker = await app.makeWorker()
    await app.submit('gated', {})
    await worker.tick()
    const stopping = app.stop({ graceMs: 10_000 })
    await turns()
    gatedRuns[0]?.end('the last one')
    await stopping
    expect(writes).toEqual(['close', 'dismiss', 'stop'])
    expect(runs).toEqual([])
  })

  test('a handler that comes back later is not heard and harms nothing', async () => {
    const runs = gated()
    const worker = await scene.worker()
    const { id } = await scene.app.submit('gated', {})
    await worker.tick()
    await stopped(worker, 0)
    runs[0]?.fail(new Error('long after'))
    await turns()
    expect(await scene.story(id)).toMatch(/released$/)
    expect(await scene.failures(id)).toEqual([])
  })

  test('submitting is refused with a code that says so, and so is reading', async () => {
    const app = scene.newApp({ store: 'sqlite::memory:' })
    app.job('any', { run: () => 1 })
    await app.submit('any', {})
    const store = await app.store()
    await app.stop()
    await app.stop()
    await expect(app.submit('any', {})).rejects.toMatchObject({ code: 'STORE_STOPPED' })
    await expect(store.jobs({ limit: 1 })).rejects.toMatchObject({ code: 'STORE_STOPPED' })
    await expect(app.work()).rejects.toMatchObject({ code: 'STORE_STOPPED' })
  })

  test('a submission that was made before is kept, one made during is kept or refused, none is half', async () => {
    const app = scene.newApp({ store: 'sqlite::memory:' })
    app.job('any', { run: () => 1 })
    await app.store()
    const submitting = Array.from({ length: 20 }, () =>
      app.submit('any', {}).then(
        () => 'kept',
        (error: { code: string }) => error.code,
      ),
    )
    const stopping = app.stop()
    const answers = new Set(await Promise.all(submitting))
    await stopping
    answers.delete('kept')
    answers.delete('STORE_STOPPED')
    expect([...answers]).toEqual([])
  })
})

test('a worker that falls dead while it stops writes nothing more', async () => {
  const writes: string[] = []
  const watched = (name: 'close' | 'dismiss') =>
    ({
      [name]: (params: never) => {
        writes.push(name)
        return scene.store[name](params)
      },
    }) as Partial<Store>
  const app = scene.newApp({ store: { ...scene.store, ...watched('close'), ...watched('dismiss') } })
  gated({}, app)
  const worker = await scene.worker({}, app)
  const { id } = await app.submit('gated', {})
  await worker.tick()
  const stopping = worker.stop({ graceMs: 10_000 })
  await turns()
  worker.crash()
  await stopping
  expect(writes).toEqual([])
  expect(await scene.status(id)).toBe('processing')
  await worker.stop()
})
