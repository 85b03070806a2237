import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { table } from '../../src/core/backoff.ts'
import { rule } from '../../src/core/classify.ts'
import { policy } from '../../src/core/policy.ts'
import { failures } from '../../src/core/taxonomy.ts'
import type { Worker } from '../../src/worker/worker.ts'
import { Scene } from '../support/scene.ts'

const MINUTE_MS = 60_000

const watermark = policy({
  retry: { max: 4, backoff: table(['1m', '5m', '15m']), unknown: 'transient' },
  manualRetry: { mode: 'in-place', budget: 'reset' },
  orphan: { action: 'requeue', budget: 'free', maxReclaims: 5, stuckAfter: '30m' },
  errors: 'latest',
})
const detect = policy({ orphan: 'requeue' })

const codes = failures({
  CORRUPT_SOURCE: { fault: 'caller', retry: 'never', message: 'The source cannot be read.' },
  ENCODER_KILLED: { fault: 'system', retry: 'transient', message: 'The encoder was killed.' },
})

let scene: Scene
let worker: Worker
let outcomes: ((attempt: { progress(fraction: number): void; number: number }) => unknown)[]

beforeEach(async () => {
  scene = new Scene()
  outcomes = []
  scene.app.job('token_watermark', {
    codes,
    classify: [
      rule.when({ subject: 'input', message: /moov atom not found|invalid data found/i }, 'CORRUPT_SOURCE'),
      rule.signal('SIGKILL', 'ENCODER_KILLED'),
    ],
    policy: watermark,
    run: (_: unknown, attempt) => (outcomes.shift() ?? (() => 'done'))(attempt),
  })
  scene.app.job('detect', { policy: detect, run: () => Promise.reject(new Error('no watermark found')) })
  worker = await scene.worker({ pollMs: 1_000 })
})
afterEach(() => scene.end())

const fails = (message = 'exit status 137') => {
  return () => {
    throw new Error(message)
  }
}
const hangs = () => new Promise(() => undefined)

async function submitted(type = 'token_watermark'): Promise<string> {
  return (await scene.app.submit(type, { token: 't1' }, { owner: 'ann' })).id
}

async function shown(id: string) {
  const view = await scene.app.find(id)
  if (view === null) throw new Error(`there is no job ${id}`)
  return view
}

const inMs = (ms: number): string => new Date(scene.clock.nowMs() + ms).toISOString()

/** The worker is gone, and its leases ran out. */
function loseWorker(afterMs: number): void {
  worker.crash()
  scene.clock.block(afterMs)
}

describe('W11-W16 retries of a token', () => {
  test('W11 the retry count is 0 for a new job, and never null', async () => {
    expect(await shown(await submitted())).toMatchObject({ retryCount: 0, status: 'queued' })
  })

  test('W12 a job has 3 retries unless its type says otherwise', async () => {
    const job = await shown(await submitted())
    expect(job.maxAttempts - 1).toBe(3)
  })

  test('W13 the time of the next retry is ISO 8601 in UTC, and null means now', async () => {
    outcomes = [fails()]
    const id = await submitted()
    expect((await shown(id)).retryAfter).toBe(null)
    await scene.pass(0)
    expect((await shown(id)).retryAfter).toBe(inMs(MINUTE_MS))
    expect((await shown(id)).retryAfter).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  })

  test('W14 delays are 1, 5 and 15 minutes by retry count, clamped to the last', async () => {
    outcomes = [fails(), fails(), fails(), fails()]
    const id = await submitted()
    await scene.pass(0)
    for (const [retries, minutes] of [1, 5, 15].entries()) {
      expect(await shown(id)).toMatchObject({ retryCount: retries + 1, retryAfter: inMs(minutes * MINUTE_MS) })
      await scene.pass(minutes * MINUTE_MS - 1)
      expect((await scene.job(id)).attempt).toBe(retries + 1)
      await scene.pass(1)
      expect((await scene.job(id)).attempt).toBe(retries + 2)
    }
    const clamped = await clampedDelays()
    expect(clamped).toEqual([1, 5, 15, 15, 15].map((minutes) => minutes * MINUTE_MS))
  })

  async function clampedDelays(): Promise<number[]> {
    const app = scene.newApp()
    app.job('patient', { policy: { ...watermark, retry: { ...watermark.retry, max: 6 } }, run: fails() })
    const patient = await scene.worker({ pollMs: 1_000 }, app)
    const { id } = await app.submit('patient', {})
    const delays: number[] = []
    for (let i = 0; i < 5; i++) {
      await patient.tick()
      const delayMs = Number((await scene.job(id)).dueAtMs) - scene.clock.nowMs()
      delays.push(delayMs)
      await scene.pass(delayMs)
    }
    return delays
  }

  test('W15 the 4th failure is permanent', async () => {
    outcomes = [fails(), fails(), fails(), fails()]
    const id = await submitted()
    for (const minutes of [0, 1, 5, 15]) {
      expect(await scene.status(id)).toBe('queued')
      await scene.pass(minutes * MINUTE_MS)
    }
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 4 })
    scene.clock.block(24 * 60 * MINUTE_MS)
    await scene.pass(0)
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 4 })
  })

  test('W16 a retry goes back to pending with its count and time; the end clears the time and keeps the error', async () => {
    outcomes = [fails('first'), fails('second'), fails('third'), fails('fourth')]
    const id = await submitted()
    await scene.pass(0)
    expect(await shown(id)).toMatchObject({ status: 'queued', retryCount: 1, retryAfter: inMs(MINUTE_MS) })
    for (const minutes of [1, 5, 15]) await scene.pass(minutes * MINUTE_MS)
    const end = await shown(id)
    expect(end).toMatchObject({ status: 'failed', retryAfter: null, errorCode: 'UNKNOWN' })
    expect(end.errorMessage).not.toBe('')
    // "3/3", never "4/3".
    expect(`${end.retryCount}/${end.maxAttempts - 1}`).toBe('3/3')
    expect((await scene.lastFailure(id)).detail).toContain('fourth')
  })

  test('W16 a job may succeed at its last retry, and then has no error', async () => {
    outcomes = [fails(), fails(), fails()]
    const id = await submitted()
    for (const minutes of [0, 1, 5, 15]) await scene.pass(minutes * MINUTE_MS)
    expect(await shown(id)).toMatchObject({ status: 'complete', errorCode: null, errorMessage: null, retryAfter: null })
  })
})

describe('W17-W20 claiming, failing and logging', () => {
  test('W17 claims what is pending and due, of the types it serves, oldest first, and only as many as it may', async () => {
    const order: string[] = []
    const app = scene.newApp()
    app.job('render', { policy: watermark, run: (name: string) => void order.push(name) })
    app.job('other', { run: () => void order.push('other') })
    await app.submit('render', 'not due', { delay: '1h' })
    for (const name of ['a', 'b', 'c']) {
      await app.submit('render', name)
      await scene.clock.advance(1)
    }
    await app.submit('other', {})
    const only = scene.newApp()
    only.job('render', { policy: watermark, run: (name: string) => void order.push(name) })
    await (await scene.worker({ concurrency: 1 }, only)).tick()
    expect(order).toEqual(['a', 'b', 'c'])
  })

  test('W18 while it waits for a retry the job keeps its error, with progress 0 and no start', async () => {
    outcomes = [
      (attempt) => {
        attempt.progress(0.7)
        throw new Error('no space left')
      },
    ]
    const id = await submitted()
    await scene.pass(0)
    const job = await shown(id)
    expect(job).toMatchObject({
      status: 'queued',
      errorCode: 'UNKNOWN',
      progress: 0,
      startedAt: null,
      finishedAt: null,
    })
    expect(job.errorMessage).toContain('try again')
  })

  test('W18 failing for good sets the time of the end, and whoever asked is told whether it was retried', async () => {
    const told: string[] = []
    const app = scene.newApp()
    app.job('once', { codes, policy: { ...watermark, retry: { ...watermark.retry, max: 2 } }, run: fails() })
    await scene.worker({ tell: ({ change }) => told.push(change.to) }, app)
    const { id } = await app.submit('once', {})
    await scene.pass(0)
    await scene.pass(MINUTE_MS)
    expect(told).toEqual(['queued', 'failed'])
    expect(await scene.job(id)).toMatchObject({ status: 'failed', finishedAtMs: scene.clock.nowMs() })
  })

  test('W19 a manual retry gives a failed job everything anew, and is refused in any other state', async () => {
    outcomes = [fails(), fails(), fails(), fails()]
    const id = await submitted()
    await expect(scene.app.retry(id, { actor: 'ann', reason: 'now' })).rejects.toMatchObject({
      code: 'JOB_WRONG_STATE',
    })
    for (const minutes of [0, 1, 5, 15]) await scene.pass(minutes * MINUTE_MS)
    worker.crash()
    await scene.app.retry(id, { actor: 'ann', reason: 'the disk has room again' })
    expect(await shown(id)).toMatchObject({
      status: 'queued',
      retryCount: 0,
      maxAttempts: 4,
      retryAfter: null,
      errorCode: null,
      errorMessage: null,
      startedAt: null,
      finishedAt: null,
      progress: 0,
      manualRetryCount: 1,
    })
    outcomes = [fails()]
    await (await scene.worker()).tick()
    expect(await shown(id)).toMatchObject({ status: 'queued', retryCount: 1, retryAfter: inMs(MINUTE_MS) })
    expect(await scene.replayed(id)).toEqual(await scene.standing(id))
  })

  test('W20 a permanent cause fails at once, whatever retries are left', async () => {
    outcomes = [
      () => {
        throw Object.assign(new Error('moov atom not found'), { subject: 'input' })
      },
    ]
    const id = await submitted()
    await scene.pass(0)
    expect(await shown(id)).toMatchObject({
      status: 'failed',
      errorCode: 'CORRUPT_SOURCE',
      attemptCount: 1,
      retryCount: 0,
    })
  })

  test('W20 only a failure that is not retried is announced as one', async () => {
    const announced: string[] = []
    const app = scene.newApp()
    app.job('once', { policy: { ...watermark, retry: { ...watermark.retry, max: 2 } }, run: fails() })
    await scene.worker({ tell: ({ jobId, change }) => change.to === 'failed' && announced.push(jobId) }, app)
    const { id } = await app.submit('once', {})
    await scene.pass(0)
    expect(announced).toEqual([])
    await scene.pass(MINUTE_MS)
    expect(announced).toEqual([id])
  })

  test('W10 W53 detect jobs are never retried', async () => {
    const id = await submitted('detect')
    await scene.pass(0)
    await scene.pass(60 * MINUTE_MS)
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 1 })
  })
})

describe('W39 W40 W41 W50 jobs that are stuck', () => {
  test('W39 W50 a job that began 31 minutes ago on a worker that is gone is pending after the next maintenance', async () => {
    outcomes = [hangs]
    const id = await submitted()
    await scene.pass(0)
    await scene.clock.advance(100)
    await worker.tick()
    loseWorker(31 * MINUTE_MS)
    const next = await scene.worker()
    expect((await scene.job(id)).startedAtMs).toBeLessThan(scene.clock.nowMs() - 30 * MINUTE_MS)
    expect(await next.maintain()).toMatchObject({ requeued: 1 })
    expect(await scene.status(id)).toBe('queued')
  })

  test('W39 W40 W50 a job that hangs for 31 minutes in a live worker is pending again, at no cost, and is warned of', async () => {
    outcomes = [hangs, hangs]
    const id = await submitted()
    await scene.pass(0)
    for (let i = 0; i < 29 * 6; i++) await scene.pass(MINUTE_MS / 6)
    expect(await scene.job(id)).toMatchObject({ status: 'processing', attempt: 1 })
    for (let i = 0; i < 2 * 6; i++) await scene.pass(MINUTE_MS / 6)
    expect(await scene.job(id)).toMatchObject({ status: 'processing', attempt: 2 })
    expect(await shown(id)).toMatchObject({ retryCount: 0 })
    expect(await scene.story(id)).toContain('reclaimed')
    const warned = scene.log.lines.filter(({ level, fields }) => level === 'warn' && fields.count === 1)
    expect(warned).toHaveLength(1)
  })

  test('W40 it goes back with no start, no progress and no delay, its retry count untouched, and the count is answered', async () => {
    outcomes = [fails(), hangs, hangs, hangs]
    const id = await submitted()
    const others = [await submitted(), await submitted()]
    await scene.pass(0)
    await scene.pass(MINUTE_MS)
    await scene.clock.advance(100)
    await worker.tick()
    loseWorker(MINUTE_MS)
    const next = await scene.worker()
    expect(await next.maintain()).toEqual({ requeued: 3, failed: 0, cancelled: 0, reported: 0 })
    expect(await shown(id)).toMatchObject({
      status: 'queued',
      retryCount: 1,
      startedAt: null,
      progress: 0,
      retryAfter: null,
    })
    for (const other of others) expect(await shown(other)).toMatchObject({ retryCount: 0 })
  })

  test('W41 it is looked for again and again: each one that is found is warned of, and a look that fails is an error', async () => {
    outcomes = [hangs, hangs]
    for (const _ of [1, 2]) await submitted()
    await scene.pass(0)
    await scene.clock.advance(100)
    await worker.tick()
    loseWorker(31 * MINUTE_MS)
    const told = (level: string, words: string) =>
      scene.log.lines.filter((line) => line.level === level && line.message.includes(words))
    const { stalled } = scene.store
    scene.store.stalled = () => Promise.reject(new Error('the disk is away'))
    const next = await scene.worker({ maintenanceMs: 30_000 })
    await next.start()
    await scene.pass(30_000)
    expect(told('error', 'maintenance failed; will try again')).toHaveLength(1)
    expect(told('warn', 'the worker of this job is gone')).toHaveLength(0)
    scene.store.stalled = stalled
    await scene.pass(30_000)
    expect(told('warn', 'the worker of this job is gone')).toHaveLength(2)
    expect(told('warn', 'stuck jobs were looked after')).toMatchObject([{ fields: { count: 2, requeued: 2 } }])
    await scene.pass(30_000)
    expect(told('warn', 'the worker of this job is gone')).toHaveLength(2)
    expect(told('warn', 'stuck jobs were looked after')).toHaveLength(1)
  })

  test('W40 a crash costs no retry, but the sixth worker in a row is one too many', async () => {
    outcomes = Array(20).fill(hangs)
    const id = await submitted()
    for (let lost = 0; lost < 6; lost++) {
      await worker.tick()
      await scene.clock.advance(100)
      await worker.tick()
      loseWorker(MINUTE_MS)
      worker = await scene.worker()
      await worker.maintain()
      expect((await shown(id)).retryCount).toBe(0)
    }
    expect(await shown(id)).toMatchObject({ status: 'failed', errorCode: 'QUARANTINED' })
  })
})
