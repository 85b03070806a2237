import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { only, openRuns, type Run } from '../../../../../test/support/stores/faulty-store.ts'
import { turns } from '../../../../../test/support/until.ts'
import type { App } from '../../../src/app/app.ts'
import { AttemptStuck } from '../../../src/core/failure/attempt-failed.ts'
import { unpackSpent } from '../../../src/core/policy/budget.ts'
import type { PolicyInput } from '../../../src/core/policy/policy.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

const MINUTE_MS = 60_000
const STUCK: PolicyInput = {
  orphan: { action: 'requeue', budget: 'free', maxReclaims: 5, stuckAfter: '30m' },
  retry: { max: 4, unknown: 'transient' },
}

const hanging = (app: App, policy: PolicyInput = STUCK): Run[] => openRuns(scene.clock, app, 'encode', 30_000, policy)
const pass = (ms: number) => scene.clock.advance(ms, () => turns(3))

/** Another process that runs no job of the type. */
const watcher = () => scene.worker({}, scene.newApp())

describe('a handler that hangs in a live worker', () => {
  test('is told to stop after 30 minutes, and its job is queued again as if it had never begun', async () => {
    const runs = hanging(scene.app)
    const worker = await scene.worker({ concurrency: 1 })
    const { id } = await scene.app.submit('encode', {})
    await worker.tick()
    only(runs).attempt.progress(0.5)
    await pass(30 * MINUTE_MS - 1_000)
    expect(only(runs).stoppedMs).toBeNull()
    const closing = worker.stop({ graceMs: 2_000 })
    await pass(2_500)
    await closing
    expect(only(runs)).toMatchObject({ stoppedMs: 30 * MINUTE_MS, reason: expect.any(AttemptStuck) })
    expect(await scene.job(id)).toMatchObject({
      ...{ status: 'queued', attempt: 1, progress: 0, startedAtMs: null, dueAtMs: null, lease: null, failure: null },
    })
    expect(unpackSpent((await scene.job(id)).spent)).toMatchObject({ failures: 0, reclaims: 1 })
    expect(scene.log.lines).toContainEqual({
      level: 'warn',
      message: 'a stuck attempt was taken back; its handler may still be working',
      fields: { job_id: id, type: 'encode', attempt: 1, count: 1 },
    })
    expect((await scene.store.events({ id })).at(-1)).toMatchObject({
      kind: 'reclaimed',
      data: {
        reason: expect.stringContaining('it still ran after orphan.stuckAfter (30 m); taken back 1 of 5 times'),
      },
    })
  })

  test('cannot close its attempt any more', async () => {
    const runs = hanging(scene.app)
    const worker = await scene.worker()
    const { id } = await scene.app.submit('encode', {})
    await worker.tick()
    await pass(31 * MINUTE_MS)
    expect(runs).toHaveLength(2)
    runs[0]?.end('from the hung one')
    await pass(1_000)
    expect(await scene.job(id)).toMatchObject({ status: 'processing', attempt: 2 })
    runs[1]?.end('the second')
    await pass(1_000)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 2, result: '"the second"' })
  })

  test('is taken back 5 times, and then set aside with the reason', async () => {
    const runs = hanging(scene.app)
    const worker = await scene.worker()
    const { id } = await scene.app.submit('encode', {})
    await worker.tick()
    await pass(4 * 60 * MINUTE_MS)
    expect(runs).toHaveLength(6)
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 6 })
    const failure = await scene.lastFailure(id)
    expect(failure).toMatchObject({ code: 'QUARANTINED' })
    expect(failure.decision.because).toBe(
      'it still ran after orphan.stuckAfter (30 m), and it was already taken back 5 times',
    )
  })

  test('leaves the job all of its retries', async () => {
    const runs = hanging(scene.app)
    const worker = await scene.worker()
    const { id } = await scene.app.submit('encode', {})
    await worker.tick()
    await pass(31 * MINUTE_MS)
    scene.app.job('never', { run: () => undefined })
    for (let i = 1; i <= 4; i++) {
      runs[i]?.end(Promise.reject(new Error('broken')))
      await pass(1_000)
    }
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 5 })
  })

  test('is cancelled instead where its job was to be cancelled', async () => {
    hanging(scene.app)
    const worker = await scene.worker()
    const { id } = await scene.app.submit('encode', {})
    await worker.tick()
    await scene.app.jobs.cancel(id, { actor: 'op', reason: 'not wanted' })
    await pass(31 * MINUTE_MS)
    expect(await scene.status(id)).toBe('cancelled')
  })
})

describe('an attempt whose worker does not look at its own clock', () => {
  /** Claims and starts the job, and renews its lease for this long, as a worker without the rule does. */
  async function renewedFor(ms: number): Promise<() => Promise<readonly number[]>> {
    const worker = await scene.store.enlist({ id: 'old', host: 'there', pid: 1, types: ['encode'] })
    const lanes = [{ type: 'encode', ttlMs: 30_000 }]
    const { leases } = await scene.store.claim({ worker, lanes, max: 1 })
    const held = leases.map(({ key, attempt }) => ({ key, attempt }))
    await scene.store.start({ worker, attempts: held.map((one) => ({ ...one, agoMs: 0 })) })
    const renew = async () => {
      const renewals = held.map((one) => ({ ...one, ttlMs: 30_000 }))
      return (await scene.store.renew({ worker, leases: renewals })).lost
    }
    for (let passedMs = 0; passedMs < ms; passedMs += 10_000) {
      await renew()
      await pass(10_000)
    }
    await renew()
    return renew
  }

  test('is noticed by another process, by its age in the store', async () => {
    hanging(scene.app)
    await scene.app.store()
    const { id } = await scene.app.submit('encode', {})
    const renew = await renewedFor(31 * MINUTE_MS)
    expect(await (await watcher()).maintain()).toMatchObject({ requeued: 1, failed: 0 })
    expect(await scene.job(id)).toMatchObject({ status: 'queued', progress: 0, startedAtMs: null, dueAtMs: null })
    expect(unpackSpent((await scene.job(id)).spent)).toMatchObject({ failures: 0, reclaims: 1 })
    expect(await renew()).toHaveLength(1)
    const warned = scene.log.lines.filter(({ fields }) => 'count' in fields)
    expect(warned).toEqual([
      {
        level: 'warn',
        message: 'stalled jobs were reclaimed or reported',
        fields: expect.objectContaining({ count: 1 }),
      },
    ])
  })

  test.each([
    ['before 30 minutes have passed', STUCK, 29],
    ['where the policy has no such rule', { orphan: 'requeue' } as PolicyInput, 31],
  ])('is left alone %s', async (_when, policy, minutes) => {
    hanging(scene.app, policy)
    await scene.app.store()
    const { id } = await scene.app.submit('encode', {})
    await renewedFor(minutes * MINUTE_MS)
    expect(await (await watcher()).maintain()).toMatchObject({ requeued: 0, failed: 0 })
    expect(await scene.status(id)).toBe('processing')
  })
})
