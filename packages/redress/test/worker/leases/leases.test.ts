import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { turns } from '../../../../../test/support/until.ts'
import type { App } from '../../../src/app/app.ts'
import type { PolicyInput } from '../../../src/core/policy/policy.ts'
import { checkJob } from '../../../src/store/conformance/bench/checks.ts'
import type { Store } from '../../../src/store/contract/store.ts'
import { type Attempt, LeaseLost } from '../../../src/worker/attempt/attempt.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

interface Running {
  attempt: Attempt
  end: (output?: unknown) => void
}

/** A job type whose runs stay open until the test ends them. */
function open(app: App, policy: PolicyInput = {}): Running[] {
  const running: Running[] = []
  app.job('open', {
    policy: { orphan: 'requeue', lease: { ttl: '30s' }, timeout: { attempt: null }, ...policy },
    run: (_: unknown, attempt) => {
      // Asked for here, as a handler that listens does: otherwise nobody would notice.
      attempt.signal.throwIfAborted()
      return new Promise((resolve) => running.push({ attempt: attempt as Attempt, end: resolve }))
    },
  })
  return running
}

const at = (running: Running[], index: number): Running => {
  const found = running[index]
  if (found === undefined) throw new Error(`run ${index + 1} did not begin`)
  return found
}

describe('a lease', () => {
  test('is renewed for as long as the job runs, so that no other worker takes a long job', async () => {
    const running = open(scene.app)
    await scene.worker()
    const watcher = await scene.worker({}, scene.newApp())
    const { id } = await scene.app.submit('open', {})
    await scene.pass(0)
    for (let i = 0; i < 40; i++) {
      await scene.pass(5_000)
      expect(await watcher.maintain()).toEqual({ requeued: 0, failed: 0, cancelled: 0, reported: 0 })
      const { lease } = await scene.job(id)
      expect((lease?.untilMs ?? 0) - scene.clock.nowMs()).toBeGreaterThan(15_000)
    }
    at(running, 0).end()
    await scene.pass(0)
    expect(await scene.story(id)).toBe('queued processing started complete')
  })

  test('that was lost stops the work: the signal says LeaseLost, the slot is free, the outcome does not count', async () => {
    const running = open(scene.app)
    const first = await scene.worker({ concurrency: 1 })
    const second = await scene.worker({}, stealing(scene))
    const { id } = await scene.app.submit('open', {})
    await first.tick()
    scene.clock.block(31_000)
    await second.maintain()
    await second.tick()
    const { signal } = at(running, 0).attempt
    expect(signal.aborted).toBe(false)
    const { id: next } = await scene.app.submit('open', {})
    await first.tick()
    expect(signal.reason).toBeInstanceOf(LeaseLost)
    expect(await scene.job(next)).toMatchObject({ status: 'processing', lease: { worker: first.id } })
    at(running, 0).end('from a zombie')
    await first.tick()
    expect(await scene.job(id)).toMatchObject({ status: 'complete', result: '"stolen"', attempt: 2 })
    const lost = (await scene.store.events({ id })).filter((event) => event.kind === 'lost')
    expect(lost).toEqual([
      expect.objectContaining({
        attempt: 1,
        worker: first.id,
        data: { write: 'renew', status: 'complete', currentAttempt: 2 },
      }),
    ])
  })

  test('that was lost unnoticed refuses the close, leaves evidence and is reported', async () => {
    const running = open(scene.app)
    const told: unknown[] = []
    const first = await scene.worker({ onOutcome: (outcome) => told.push(outcome) })
    const second = await scene.worker({}, stealing(scene))
    const { id } = await scene.app.submit('open', {})
    await first.tick()
    scene.clock.block(31_000)
    await second.maintain()
    await second.tick()
    at(running, 0).end('from a zombie')
    // The outcome is on its way before the next renewal would have found out.
    await scene.clock.advance(0)
    await first.tick()
    expect((await scene.job(id)).result).toBe('"stolen"')
    const lost = (await scene.store.events({ id })).filter((event) => event.kind === 'lost')
    expect(lost.map((event) => event.data.write)).toContain('close')
    expect(told).toEqual([expect.objectContaining({ jobId: id, attempt: 1, answer: 'lost' })])
  })

  test('is trusted from when it was asked for: a claim that was answered too late begins nothing unasked', async () => {
    const asked: string[] = []
    const slow: Store = {
      ...scene.store,
      async claim(params) {
        const answer = await scene.store.claim(params)
        if (answer.leases.length > 0) scene.clock.block(31_000)
        return answer
      },
      start(params) {
        asked.push('start')
        return scene.store.start(params)
      },
    }
    const app = scene.newApp({ store: slow })
    const begun: string[] = []
    app.job('quick', { policy: { orphan: 'requeue' }, run: () => begun.push(`after ${asked.join()}`) })
    const worker = await scene.worker({}, app)
    await app.submit('quick', {})
    await worker.tick()
    expect(begun).toEqual(['after start'])
  })

  test('under a store that fails for a while is kept by the next renewal', async () => {
    let failures = 0
    const store: Store = {
      ...scene.store,
      renew: (params) => (failures-- > 0 ? Promise.reject(new Error('the disk is away')) : scene.store.renew(params)),
    }
    const app = scene.newApp({ store })
    const running = open(app)
    const worker = await scene.worker({}, app)
    const { id } = await app.submit('open', {})
    await worker.tick()
    failures = 2
    await scene.pass(10_000)
    await scene.pass(5_000)
    await scene.pass(5_000)
    expect(at(running, 0).attempt.signal.aborted).toBe(false)
    await scene.pass(15_000)
    at(running, 0).end('kept')
    await scene.pass(0)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', result: '"kept"' })
  })

  test('under a store that fails for longer than it lasts is given up, and the work is stopped', async () => {
    let isAway = false
    const store: Store = {
      ...scene.store,
      renew: (params) => (isAway ? Promise.reject(new Error('the disk is away')) : scene.store.renew(params)),
    }
    const app = scene.newApp({ store })
    const running = open(app)
    const worker = await scene.worker({ concurrency: 1 }, app)
    const { id } = await app.submit('open', {})
    await worker.tick()
    isAway = true
    for (let i = 0; i < 7; i++) await scene.pass(5_000)
    expect(at(running, 0).attempt.signal.reason).toBeInstanceOf(LeaseLost)
    isAway = false
    // Nobody else was there, so the worker itself takes the job back, and does it again.
    await worker.maintain()
    await scene.pass(0)
    at(running, 1).end('second time')
    await scene.pass(0)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 2 })
    expect(await scene.rebuilt(id)).toEqual(await scene.standing(id))
  })

  test('is not renewed once the outcome is on its way: a finished attempt is no zombie', async () => {
    const answers = Promise.withResolvers<void>()
    const store: Store = {
      ...scene.store,
      async close(params) {
        const answer = await scene.store.close(params)
        // Recorded, but the answer is slow to come back.
        await answers.promise
        return answer
      },
    }
    const app = scene.newApp({ store })
    const running = open(app)
    const worker = await scene.worker({}, app)
    const { id } = await app.submit('open', {})
    await worker.tick()
    at(running, 0).end()
    const ending = worker.tick()
    await turns()
    scene.clock.block(11_000)
    const renewing = worker.tick()
    await turns()
    answers.resolve()
    await Promise.all([ending, renewing])
    expect(await scene.status(id)).toBe('complete')
    expect(await scene.story(id)).not.toContain('lost')
    expect(scene.log.lines.filter((line) => line.message.includes('lease lost'))).toEqual([])
  })
})

describe('the start of an attempt', () => {
  test('is not recorded while its close is with the store: that would look like a write of a lost worker', async () => {
    const answers = Promise.withResolvers<void>()
    const store: Store = {
      ...scene.store,
      async close(params) {
        const answer = await scene.store.close(params)
        await answers.promise
        return answer
      },
    }
    const app = scene.newApp({ store })
    app.job('quick', { run: () => 1 })
    const worker = await scene.worker({}, app)
    const { id } = await app.submit('quick', {})
    const ending = worker.tick()
    await turns()
    const another = worker.tick()
    await turns()
    answers.resolve()
    await Promise.all([ending, another])
    expect(await scene.story(id)).toBe('queued processing complete')
  })

  test('is sent again when it could not be recorded: a running job must not pass for one that never started', async () => {
    let failures = 1
    const store: Store = {
      ...scene.store,
      start: (params) => (failures-- > 0 ? Promise.reject(new Error('busy')) : scene.store.start(params)),
    }
    const app = scene.newApp({ store })
    const running = open(app, { lease: { ttl: '30s', startTimeout: '1m' } })
    const worker = await scene.worker({}, app)
    const { id } = await app.submit('open', {})
    await worker.tick()
    for (let i = 0; i < 14; i++) await scene.pass(5_000)
    const watcher = await scene.worker({}, scene.newApp())
    expect(await watcher.maintain()).toMatchObject({ requeued: 0, failed: 0 })
    at(running, 0).end('one run')
    await scene.pass(0)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 1 })
    expect(await scene.story(id)).toContain('started')
  })
})

describe('when the wall clock is set', () => {
  const hourMs = 3_600_000

  test.each([
    ['back', -hourMs],
    ['forward', hourMs],
  ])('%s by an hour while jobs run, each is done once and none is lost', async (_way, jumpMs) => {
    const running = open(scene.app)
    const first = await scene.worker({ concurrency: 5 })
    const second = await scene.worker({}, stealing(scene))
    const jobs = await scene.app.submitMany('open', Array(5).fill({}))
    await first.tick()
    scene.clock.jump(jumpMs)
    await second.maintain()
    await second.tick()
    for (const run of running) run.end('first')
    for (let i = 0; i < 10; i++) {
      await scene.pass(10_000)
      await second.maintain()
    }
    for (const { id } of jobs) {
      const story = await scene.story(id)
      expect(story.match(/complete/g)).toHaveLength(1)
      checkJob(await scene.job(id), await scene.store.events({ id }))
    }
  })

  test('back during a job, the limit of the attempt is still measured by time that only grows', async () => {
    open(scene.app, { timeout: { attempt: '10s' } })
    await scene.worker()
    const { id } = await scene.app.submit('open', {})
    await scene.pass(0)
    scene.clock.jump(-hourMs)
    await scene.pass(9_000)
    expect(await scene.status(id)).toBe('processing')
    await scene.pass(1_000)
    expect(await scene.lastFailure(id)).toMatchObject({ code: 'TIMEOUT' })
  })
})

/** Another program that serves the same type and is done at once. */
function stealing(scene: Scene): App {
  const app = scene.newApp()
  app.job('open', {
    policy: { orphan: 'requeue', lease: { ttl: '30s' }, timeout: { attempt: null } },
    run: () => 'stolen',
  })
  return app
}
