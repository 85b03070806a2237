import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { until } from '../../../../../test/support/until.ts'
import type { App } from '../../../src/app/app.ts'
import { unpackSpent } from '../../../src/core/policy/budget.ts'
import type { PolicyInput } from '../../../src/core/policy/policy.ts'
import { MAINTENANCE_MS } from '../../../src/worker/options.ts'
import type { Worker } from '../../../src/worker/worker.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

const LEASE_MS = 10_000

function hanging(policy: PolicyInput, app: App = scene.app): void {
  app.job('hanging', {
    policy: { lease: { ttl: LEASE_MS }, timeout: { attempt: null }, ...policy },
    run: () => new Promise(() => undefined),
  })
}

/** Claims the job, begins it, lets the store know, and dies. */
async function loseWorker(worker: Worker): Promise<void> {
  await worker.tick()
  await scene.clock.advance(100)
  await worker.tick()
  worker.crash()
  scene.clock.block(LEASE_MS)
}

describe('a job whose worker is gone', () => {
  test("under 'report' is reported once and left as it is", async () => {
    hanging({ orphan: 'report' })
    const { id } = await scene.app.submit('hanging', {})
    await loseWorker(await scene.worker())
    const watcher = await scene.worker()
    expect(await watcher.maintain()).toEqual({ requeued: 0, failed: 0, cancelled: 0, reported: 1 })
    expect(await watcher.maintain()).toEqual({ requeued: 0, failed: 0, cancelled: 0, reported: 0 })
    await watcher.tick()
    expect(await scene.job(id)).toMatchObject({ status: 'processing', attempt: 1, orphanedAtMs: scene.clock.nowMs() })
    expect(await scene.store.jobs({ isOrphaned: true, limit: 10 })).toHaveLength(1)
    expect(scene.log.lines.filter((line) => line.level === 'warn' && line.fields.job_id === id)).toHaveLength(1)
    expect(await scene.rebuilt(id)).toEqual(await scene.standing(id))
  })

  test('is noticed by a process that only serves, when no worker is left', async () => {
    hanging({ orphan: 'report' })
    const { id } = await scene.app.submit('hanging', {})
    await scene.app.startMaintenance({ log: scene.log })
    await loseWorker(await scene.worker())
    expect(await scene.job(id)).toMatchObject({ status: 'processing', orphanedAtMs: null })
    await scene.clock.advance(MAINTENANCE_MS)
    await until('it was looked after', async () => (await scene.job(id))?.orphanedAtMs !== null)
    expect(await scene.job(id)).toMatchObject({ status: 'processing', attempt: 1 })
    // It claims nothing.
    const second = await scene.app.submit('hanging', {})
    await scene.clock.advance(MAINTENANCE_MS)
    expect(await scene.job(second.id)).toMatchObject({ status: 'queued' })
  })

  test('that was reported and comes back is no orphan any more, and its outcome counts', async () => {
    let end: (output: string) => void = () => undefined
    scene.app.job('slow', {
      policy: { lease: { ttl: LEASE_MS } },
      run: () => new Promise<string>((resolve) => (end = resolve)),
    })
    const { id } = await scene.app.submit('slow', {})
    const slow = await scene.worker()
    await slow.tick()
    await scene.clock.advance(100)
    await slow.tick()
    scene.clock.block(LEASE_MS)
    const watcher = await scene.worker()
    expect(await watcher.maintain()).toMatchObject({ reported: 1 })
    await slow.tick()
    expect(await scene.job(id)).toMatchObject({ status: 'processing', orphanedAtMs: null })
    end('after all')
    await slow.tick()
    expect(await scene.job(id)).toMatchObject({ status: 'complete', result: '"after all"' })
    expect(await scene.story(id)).toBe('queued processing started orphaned recovered complete')
  })

  test("under 'requeue' goes back for another worker; free, it spends only the reclaim", async () => {
    hanging({ orphan: 'requeue', retry: { max: 2 } })
    const { id } = await scene.app.submit('hanging', {})
    await loseWorker(await scene.worker())
    const watcher = await scene.worker()
    expect(await watcher.maintain()).toMatchObject({ requeued: 1 })
    const job = await scene.job(id)
    expect(job).toMatchObject({ status: 'queued', attempt: 1, lease: null, startedAtMs: null, progress: 0 })
    expect(unpackSpent(job.spent)).toMatchObject({ failures: 0, reclaims: 1 })
    expect(await scene.rebuilt(id)).toEqual(await scene.standing(id))
  })

  test("under 'requeue' that consumes, each lost worker is a failure, and the last one ends the job", async () => {
    hanging({ orphan: { action: 'requeue', budget: 'consume' }, retry: { max: 3 } })
    const { id } = await scene.app.submit('hanging', {})
    for (let attempt = 1; attempt <= 3; attempt++) {
      await loseWorker(await scene.app.makeWorker())
      await (await scene.app.makeWorker()).maintain()
      expect(unpackSpent((await scene.job(id)).spent)).toMatchObject({ failures: attempt })
    }
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 3, latestFailure: { code: 'WORKER_LOST' } })
  })

  test("under 'fail' fails with its own code, owner and what is known of the worker", async () => {
    hanging({ orphan: 'fail' })
    const { id } = await scene.app.submit('hanging', {})
    const worker = await scene.worker({ id: 'the-lost-one' })
    await loseWorker(worker)
    expect(await (await scene.worker()).maintain()).toMatchObject({ failed: 1 })
    const failure = await scene.lastFailure(id)
    expect(failure).toMatchObject({
      code: 'WORKER_LOST',
      phase: 'execution',
      layer: 'worker',
      worker: 'the-lost-one',
      fault: 'system',
    })
    expect(failure.detail).toContain('the-lost-one')
  })

  test('is found only after its lease expired, by any worker, and by two workers at once only once', async () => {
    hanging({ orphan: 'requeue' })
    await scene.app.submit('hanging', {})
    const worker = await scene.worker()
    await worker.tick()
    worker.crash()
    const [one, other] = [await scene.worker(), await scene.worker({}, scene.newApp())]
    scene.clock.block(LEASE_MS - 1)
    expect(await one.maintain()).toMatchObject({ requeued: 0 })
    scene.clock.block(1)
    const [first, second] = await Promise.all([one.maintain(), other.maintain()])
    expect(first.requeued + second.requeued).toBe(1)
  })

  test('is reclaimed also by a program that does not know its type', async () => {
    hanging({ orphan: 'requeue' })
    await scene.app.submit('hanging', {})
    await loseWorker(await scene.worker())
    const stranger = await scene.worker({}, scene.newApp())
    expect(await stranger.maintain()).toMatchObject({ requeued: 1 })
  })

  test('a crash of many is one pass of maintenance', async () => {
    hanging({ orphan: 'requeue' })
    await scene.app.submitMany('hanging', Array(1_200).fill({}))
    await loseWorker(await scene.worker({ concurrency: 1_200 }))
    expect(await (await scene.worker()).maintain()).toMatchObject({ requeued: 1_200 })
  })
})

describe('a job that was claimed and never started', () => {
  const crashAtStart = { probe: (step: string) => (step === 'start' ? ('crash' as const) : undefined) }

  // Where starts are not on disk before the handler runs, it may have killed its worker in the moment between.
  test("under 'report' a claimed job is reported, because it may have run", async () => {
    hanging({ orphan: 'report' })
    const { id } = await scene.app.submit('hanging', {})
    await (await scene.worker(crashAtStart)).tick()
    scene.clock.block(LEASE_MS)
    expect(await (await scene.worker()).maintain()).toMatchObject({ failed: 0, reported: 1 })
    expect(await scene.job(id)).toMatchObject({ status: 'processing', orphanedAtMs: expect.any(Number) })
  })

  test("under 'fail' its worker counts as lost, because it may have run", async () => {
    hanging({ orphan: 'fail' })
    const { id } = await scene.app.submit('hanging', {})
    await (await scene.worker(crashAtStart)).tick()
    scene.clock.block(LEASE_MS)
    expect(await (await scene.worker()).maintain()).toMatchObject({ failed: 1 })
    expect(await scene.lastFailure(id)).toMatchObject({ code: 'WORKER_LOST', phase: 'execution', layer: 'worker' })
  })

  test("under 'requeue' goes back at no cost at all", async () => {
    hanging({ orphan: { action: 'requeue', budget: 'consume' }, retry: { max: 2 } })
    const { id } = await scene.app.submit('hanging', {})
    await (await scene.worker(crashAtStart)).tick()
    scene.clock.block(LEASE_MS)
    expect(await (await scene.worker()).maintain()).toMatchObject({ requeued: 1 })
    expect(unpackSpent((await scene.job(id)).spent)).toMatchObject({ failures: 0, reclaims: 0, releases: 1 })
  })

  test('is taken from a worker that keeps its lease and does not begin, after the start timeout', async () => {
    hanging({ orphan: 'requeue', lease: { ttl: LEASE_MS, startTimeout: '1m' } })
    const { id } = await scene.app.submit('hanging', {})
    const store = await scene.app.store()
    const worker = await store.enlist({ id: 'lazy', host: 'here', pid: 1, types: [] })
    const { leases } = await store.claim({ worker, lanes: [{ type: 'hanging', ttlMs: LEASE_MS }], max: 1 })
    const watcher = await scene.worker({}, scene.newApp())
    for (let i = 0; i < 12; i++) {
      expect(await watcher.maintain()).toMatchObject({ requeued: 0 })
      scene.clock.block(5_000)
      await store.renew({
        worker,
        leases: leases.map(({ key, attempt }) => ({ key, attempt, ttlMs: LEASE_MS })),
      })
    }
    expect(await watcher.maintain()).toMatchObject({ requeued: 1 })
    expect(await scene.status(id)).toBe('queued')
  })

  test('of a type that waits longer for its start is not reported as late', async () => {
    hanging({ orphan: 'requeue', lease: { ttl: '1h', startTimeout: '1m' } })
    scene.app.job('patient', { policy: { orphan: 'requeue', lease: { ttl: '1h', startTimeout: '10m' } }, run: () => 1 })
    const store = await scene.app.store()
    const worker = await store.enlist({ id: 'lazy', host: 'here', pid: 1, types: [] })
    const { id } = await scene.app.submit('patient', {})
    await store.claim({ worker, lanes: [{ type: 'patient', ttlMs: 3_600_000 }], max: 1 })
    scene.clock.block(120_000)
    expect(await (await scene.worker()).maintain()).toMatchObject({ requeued: 0 })
    expect(scene.log.lines.filter((line) => line.fields.job_id === id)).toEqual([])
  })
})

describe('a job that kills its worker again and again', () => {
  const PATIENCE = 40

  /** Restarts a worker whenever it dies, as a supervisor does, until nothing is left to do. */
  async function supervised(app: App, isPoison: (jobId: string) => boolean, options: object = {}): Promise<number> {
    let deaths = 0
    for (let round = 0; round < PATIENCE; round++) {
      let isDead = false
      const worker = await scene.worker(
        {
          ...options,
          probe: (step, { jobId }) => {
            if (step !== 'run' || !isPoison(jobId)) return undefined
            isDead = true
            deaths++
            return 'crash'
          },
        },
        app,
      )
      await worker.maintain()
      while (!isDead) {
        await worker.tick()
        if (await isAllDone()) return deaths
        if (!isDead) await scene.clock.advance(500)
      }
      scene.clock.block(LEASE_MS + 1_000)
    }
    throw new Error(`still dying after ${PATIENCE} rounds`)
  }

  async function isAllDone(): Promise<boolean> {
    return (await scene.store.counts()).every(({ queued, processing }) => queued + processing === 0)
  }

  const policy: PolicyInput = { orphan: { action: 'requeue', maxReclaims: 3 }, lease: { ttl: LEASE_MS } }

  test('is quarantined after as many reclaims as its policy has', async () => {
    scene.app.job('any', { policy, run: () => 'done' })
    const { id } = await scene.app.submit('any', {})
    await supervised(scene.app, (jobId) => jobId === id)
    expect(await scene.job(id)).toMatchObject({ status: 'failed', latestFailure: { code: 'QUARANTINED' } })
    expect(unpackSpent((await scene.job(id)).spent).reclaims).toBe(3)
    expect(await scene.rebuilt(id)).toEqual(await scene.standing(id))
  })

  test.each<[string, () => unknown]>([
    ['quick', () => 'done'],
    ['slow', () => new Promise((resolve) => scene.clock.setTimer(1_000, () => resolve('done')))],
  ])('does not take %s innocent neighbours with it', async (_name, run) => {
    scene.app.job('any', { policy, run })
    const jobs = await scene.app.submitMany('any', Array(30).fill({}))
    const poison = new Set([jobs[4]?.id, jobs[17]?.id])
    await supervised(scene.app, (jobId) => poison.has(jobId), { concurrency: 10 })
    for (const { id } of jobs) {
      const job = await scene.job(id)
      const expected = poison.has(id) ? 'failed QUARANTINED' : 'complete undefined'
      expect(`${job.status} ${job.latestFailure?.code}`).toBe(expected)
    }
  })
})
