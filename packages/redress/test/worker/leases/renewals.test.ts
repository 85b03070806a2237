import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { Faulty, holdOneRun, only, openRuns } from '../../../../../test/support/stores/faulty-store.ts'
import { turns } from '../../../../../test/support/until.ts'
import type { App } from '../../../src/app/app.ts'
import type { PolicyInput } from '../../../src/core/policy/policy.ts'
import { Alarm } from '../../../src/runtime/clock.ts'
import type { Lease, Store } from '../../../src/store/contract/store.ts'
import { LeaseLost } from '../../../src/worker/attempt/attempt.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

const pass = (ms: number) => scene.clock.advance(ms, () => turns(3))
const open = (app: App, name: string, ttlMs: number, policy: PolicyInput = {}) =>
  openRuns(scene.clock, app, name, ttlMs, policy)

describe('a renewal', () => {
  test('keeps a job whose process stood still longer than its lease, if no other worker took it', async () => {
    const runs = open(scene.app, 'open', 30_000)
    const { id } = await scene.app.submit('open', {})
    const worker = await scene.worker()
    await worker.tick()
    scene.clock.block(40_000)
    await pass(30_000)
    expect(only(runs).stoppedMs).toBeNull()
    only(runs).end('kept')
    await pass(100)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 1, result: '"kept"' })
  })

  test('that fails does not make a worker reclaim its own job, whose outcome it keeps', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const runs = open(app, 'open', 1_000)
    const { id } = await app.submit('open', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('refused', 'renew', 'close')
    only(runs).end('kept')
    await pass(5_000)
    // The store takes writes again after it refused the renewal.
    await worker.maintain()
    expect(await scene.status(id)).toBe('processing')
    faulty.set('well', 'renew', 'close')
    await pass(60_000)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 1, result: '"kept"' })
  })

  test('that is never answered is asked again, so that the lease is kept when the store answers again', async () => {
    const { faulty, runs, id } = await holdOneRun(scene, 30_000)
    faulty.set('silent', 'renew')
    await pass(15_000)
    faulty.set('well', 'renew')
    await pass(60_000)
    expect(only(runs).stoppedMs).toBeNull()
    only(runs).end('kept')
    await pass(100)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 1, result: '"kept"' })
  })

  test('that is never answered is not repeated more often than every third of the lease', async () => {
    const { faulty } = await holdOneRun(scene, 30_000)
    faulty.set('silent', 'renew')
    const before = faulty.timesOf('renew').length
    await pass(29_000)
    expect(faulty.timesOf('renew').length - before).toBe(2)
  })

  test('is trusted from when it was asked, not from its answer', async () => {
    const { faulty, runs } = await holdOneRun(scene, 30_000, { lateMs: 9_000 })
    faulty.set('late', 'renew')
    await pass(12_000)
    const askedMs = faulty.timesOf('renew').at(-1) as number
    faulty.set('silent', 'renew')
    await pass(60_000)
    expect(only(runs).stoppedMs).toBe(askedMs + 30_000)
  })

  test('whose answer comes after its round was given up still counts, from when it was asked', async () => {
    const { faulty, runs } = await holdOneRun(scene, 30_000, { lateMs: 15_000 })
    faulty.set('late', 'renew')
    await pass(10_100)
    const askedMs = faulty.timesOf('renew').at(-1) as number
    faulty.set('silent', 'renew')
    await pass(60_000)
    expect(only(runs).stoppedMs).toBe(askedMs + 30_000)
  })

  test('whose late answer says that the job is lost stops the handler', async () => {
    const { faulty, runs, id } = await holdOneRun(scene, 60_000, { lateMs: 15_000 })
    await scene.app.jobs.markFailed(id, { actor: 'op', reason: 'wrong input' })
    faulty.set('late', 'renew')
    await pass(34_000)
    expect(only(runs).stoppedMs).toBeNull()
    faulty.set('silent', 'renew')
    await pass(2_000)
    expect(only(runs).reason).toBeInstanceOf(LeaseLost)
  })

  test('is asked for at a third of each lease, for leases of different length together', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const short = open(app, 'short', 3_000)
    const long = open(app, 'long', 30_000)
    await app.submit('short', {})
    await app.submit('long', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    // Two of three renewals fail, in both lengths.
    for (let i = 0; i < 30; i++) {
      faulty.set(i % 3 === 2 ? 'well' : 'refused', 'renew')
      await pass(900)
    }
    expect([only(short).stoppedMs, only(long).stoppedMs]).toEqual([null, null])
  })

  test('is asked for three times in a lease, and not more', async () => {
    const { faulty, runs } = await holdOneRun(scene, 30_000)
    const before = faulty.timesOf('renew').length
    await pass(300_000)
    expect(faulty.timesOf('renew').length - before).toBeGreaterThanOrEqual(27)
    expect(faulty.timesOf('renew').length - before).toBeLessThanOrEqual(30)
    expect(only(runs).stoppedMs).toBeNull()
  })

  test('is sent by a worker without jobs, so that it is not taken for dead', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    open(app, 'open', 30_000)
    const worker = await scene.worker({}, app)
    await worker.tick()
    const before = faulty.timesOf('renew').length
    await pass(60_000)
    const sent = faulty.timesOf('renew').length - before
    expect(sent).toBeGreaterThanOrEqual(5)
    expect(sent).toBeLessThanOrEqual(6)
  })

  test('that is never answered does not delay the renewal of a shorter lease', async () => {
    const faulty = new Faulty(scene)
    const app = scene.newApp({ store: faulty.store })
    const long = open(app, 'long', 60_000)
    const short = open(app, 'short', 3_000)
    await app.submit('long', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    faulty.set('silent', 'renew', 'cancellations')
    await pass(20_100)
    faulty.set('well', 'renew')
    await app.submit('short', {})
    await pass(60_000)
    expect([only(long).stoppedMs, only(short).stoppedMs]).toEqual([null, null])
  })
})

describe('a job that this worker claims again while its earlier attempt still runs here', () => {
  test('stops the earlier handler at once', async () => {
    const runs = open(scene.app, 'open', 30_000, { manualRetry: 'in-place' })
    const { id } = await scene.app.submit('open', {})
    const worker = await scene.worker()
    await worker.tick()
    await scene.app.jobs.markFailed(id, { actor: 'op', reason: 'wrong machine' })
    await scene.app.jobs.retry(id, { actor: 'op', reason: 'again' })
    await pass(200)
    expect(runs.map(({ attempt, reason }) => [attempt.number, reason])).toEqual([
      [1, expect.any(LeaseLost)],
      [2, null],
    ])
    runs[0]?.end('from a zombie')
    runs[1]?.end('the second')
    await pass(200)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 2, result: '"the second"' })
  })

  test('is not stopped by a late answer about the earlier attempt', async () => {
    const { faulty, runs, id } = await holdOneRun(scene, 30_000, {
      lateMs: 8_000,
      policy: { manualRetry: 'in-place' },
      worker: { concurrency: 1 },
    })
    await scene.app.jobs.markFailed(id, { actor: 'op', reason: 'wrong machine' })
    faulty.set('late', 'renew')
    await pass(10_100)
    runs[0]?.end('refused')
    faulty.set('well', 'renew')
    await scene.app.jobs.retry(id, { actor: 'op', reason: 'again' })
    await pass(20_000)
    expect(runs.map(({ attempt, reason }) => [attempt.number, reason])).toEqual([
      [1, null],
      [2, null],
    ])
  })
})

describe('leases whose claim was never answered', () => {
  /** As with PostgreSQL: leases that were claimed before come with a later claim of the same worker, whatever its lanes. */
  const bringing = (isBrought: (asked: Parameters<Store['claim']>[0]) => boolean) => {
    let waiting: Lease[] = []
    const claimed: Lease[] = []
    const store: Store = {
      ...scene.store,
      async claim(asked) {
        const answer = await scene.store.claim(asked)
        claimed.push(...answer.leases)
        if (waiting.length === 0 || !isBrought(asked)) return answer
        return { ...answer, leases: [...answer.leases, ...waiting.splice(0)] }
      },
    }
    const bring = (leases: readonly Lease[]): void => {
      waiting = [...leases]
    }
    return { store, claimed, bring }
  }

  test('run in slots of their own type when the claim of another type brings them', async () => {
    const { store, bring } = bringing(({ lanes }) => lanes.every(({ type }) => type !== 'open'))
    const app = scene.newApp({ store })
    const runs = open(app, 'open', 30_000)
    app.channel('ops', { kind: 'none', deliver: async () => ({ to: [], answer: '' }) })
    const worker = await scene.worker({ concurrency: 1 }, app)
    await worker.tick()
    const { id } = await app.submit('open', {})
    const key = await scene.store.enlist({ id: worker.id, host: 'here', pid: process.pid, types: ['open'] })
    const { leases } = await scene.store.claim({ worker: key, lanes: [{ type: 'open', ttlMs: 30_000 }], max: 1 })
    bring(leases)
    await pass(1_000)
    only(runs).end('found')
    await pass(1_000)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 1, result: '"found"' })
    const { id: next } = await app.submit('open', {})
    await pass(1_000)
    expect(runs).toHaveLength(2)
    runs[1]?.end('next')
    await pass(1_000)
    expect(await scene.job(next)).toMatchObject({ status: 'complete', result: '"next"' })
  })

  test('are not begun a second time when the worker holds them already', async () => {
    const { store, claimed, bring } = bringing(() => true)
    const app = scene.newApp({ store })
    const runs = open(app, 'open', 30_000)
    const { id } = await app.submit('open', {})
    const worker = await scene.worker({}, app)
    await worker.tick()
    bring(claimed)
    await pass(1_000)
    expect(only(runs).reason).toBe(null)
    only(runs).end('once')
    await pass(1_000)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 1, result: '"once"' })
  })
})

describe('an alarm', () => {
  test('that is set later than it is already rings at the earlier time, and once', async () => {
    const rang: number[] = []
    const alarm = new Alarm(scene.clock, () => rang.push(scene.clock.monoMs()))
    alarm.setWithin(3_000)
    alarm.setWithin(60_000)
    await pass(70_000)
    expect(rang).toEqual([3_000])
  })

  test('that is set earlier than it is rings at the earlier time, and says how late it is', async () => {
    const late: number[] = []
    const alarm = new Alarm(scene.clock, (lateMs) => late.push(lateMs))
    alarm.setWithin(60_000)
    alarm.setWithin(3_000)
    scene.clock.block(500)
    await pass(70_000)
    expect(late).toEqual([500])
  })
})
