import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { App } from '../../src/app/app.ts'
import { edgesOf } from '../../src/core/policy.ts'
import type { Store } from '../../src/store/store.ts'
import type { Attempt } from '../../src/worker/attempt.ts'
import type { Worker } from '../../src/worker/worker.ts'
import { Scene } from '../support/scene.ts'
import { turns } from '../support/until.ts'
import { LEASE_MS, proxx } from './proxx-policy.ts'

const DAY_MS = 86_400_000

let folder: string
let scene: Scene
let worker: Worker
let run: (input: { clips: string[] }, attempt: Attempt) => unknown

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redress-proxx-'))
  scene = new Scene({ failureLog: join(folder, 'failures.jsonl') })
  run = () => 'ok'
  declare(scene.app)
  worker = await scene.worker({ id: 'node-1', pollMs: 1_000 })
})
afterEach(async () => {
  await scene.end()
  rmSync(folder, { recursive: true })
})

function declare(app: App): void {
  app.job('encode', {
    policy: proxx,
    admit: (input: { clips: string[] }, submission) => {
      if (input.clips.length === 0) submission.fail('INPUT_INVALID', { detail: 'the job has no clips' })
    },
    run: (input, attempt) => run(input, attempt as Attempt),
  })
}

const submitted = async (clips = ['a.mov']): Promise<string> => (await scene.app.submit('encode', { clips })).id
const never = () => new Promise<never>(() => undefined)
const logged = (): Record<string, unknown>[] =>
  readFileSync(join(folder, 'failures.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))

/** The worker had begun, and is gone. */
async function orphaned(): Promise<string> {
  run = never
  const id = await submitted()
  await worker.tick()
  worker.crash()
  scene.clock.block(LEASE_MS)
  worker = await scene.worker({ id: 'node-2', pollMs: 1_000 })
  return id
}

describe('P11-P19 dispatch failures', () => {
  const diesAt = (step: string) => ({ probe: (now: string) => (now === step ? ('crash' as const) : undefined) })

  test('P11 P12 P14 P17 a worker that died after the claim and before the start leaves a visible dispatch failure', async () => {
    const dying = await scene.worker({ id: 'dying', ...diesAt('start') })
    const id = await submitted()
    await dying.tick()
    scene.clock.block(LEASE_MS)
    expect(await worker.maintain()).toMatchObject({ failed: 1, requeued: 0, reported: 0 })
    expect(await scene.job(id)).toMatchObject({ status: 'failed', startedAtMs: null })
    expect(await scene.lastFailure(id)).toMatchObject({
      stage: 'dispatch',
      owner: 'coordination',
      code: 'NEVER_STARTED',
      worker: 'dying',
      from: 'processing',
      to: 'failed',
    })
  })

  test('P11 P14 a worker that has no room after its claim, because it was told to stop, fails the dispatch', async () => {
    const answer = Promise.withResolvers<void>()
    const app = scene.newApp({
      failureLog: join(folder, 'failures.jsonl'),
      store: {
        ...scene.store,
        async claim(params) {
          const claimed = await scene.store.claim(params)
          await answer.promise
          return claimed
        },
      },
    })
    declare(app)
    const stopping = await app.makeWorker()
    const { id } = await app.submit('encode', { clips: ['a.mov'] })
    const ticking = stopping.tick()
    await turns()
    const stopped = stopping.stop({ graceMs: 10_000 })
    answer.resolve()
    await Promise.all([ticking, stopped])
    expect(await scene.job(id)).toMatchObject({ status: 'failed', startedAtMs: null })
    expect(await scene.lastFailure(id)).toMatchObject({ stage: 'dispatch', owner: 'coordination', code: 'SHUTDOWN' })
    await (await app.store()).stop()
  })

  test('P11 P15 who loses the race for a claim leaves no trace: one has the job, and it is no failure', async () => {
    run = never
    const rivals = await Promise.all(['one', 'two', 'three'].map((id) => scene.worker({ id })))
    const id = await submitted()
    await Promise.all(rivals.map((rival) => rival.tick()))
    expect(rivals.map((rival) => rival.held).toSorted()).toEqual([0, 0, 1])
    expect((await scene.store.events({ id })).filter(({ kind }) => kind !== 'started').map(({ kind }) => kind)).toEqual(
      ['queued', 'processing'],
    )
    expect(await scene.failures(id)).toEqual([])
  })

  test('P11 P13 a claim that did not reach the store leaves the job pending', async () => {
    const unreachable: Store = { ...scene.store, claim: () => Promise.reject(new Error('network is unreachable')) }
    const app = scene.newApp({ store: unreachable, failureLog: join(folder, 'failures.jsonl') })
    declare(app)
    const id = await submitted()
    await (await scene.worker({}, app)).tick()
    expect(await scene.job(id)).toMatchObject({ status: 'queued', attempt: 0 })
    expect(await scene.failures(id)).toEqual([])
    await worker.tick()
    expect(await scene.status(id)).toBe('complete')
    await (await app.store()).stop()
  })

  test('P11 P13 P14 a claim whose answer was lost on the way is a dispatch failure, not a job that hangs', async () => {
    const deaf: Store = {
      ...scene.store,
      claim: async (params) => {
        await scene.store.claim(params)
        throw new Error('connection reset')
      },
    }
    const app = scene.newApp({ store: deaf, failureLog: join(folder, 'failures.jsonl') })
    declare(app)
    const id = await submitted()
    await (await scene.worker({}, app)).tick()
    expect(await scene.status(id)).toBe('processing')
    scene.clock.block(LEASE_MS)
    await worker.maintain()
    expect(await scene.lastFailure(id)).toMatchObject({ code: 'NEVER_STARTED', stage: 'dispatch' })
    await (await app.store()).stop()
  })

  test('P16 the database refuses half a claim', async () => {
    const file = join(folder, 'redress.db')
    const app = new App({ store: `sqlite:${file}` })
    declare(app)
    await app.submit('encode', { clips: ['a.mov'] })
    await app.stop()
    const database = new DatabaseSync(file)
    for (const half of [
      `status = 'processing'`,
      `status = 'processing', ready = NULL, worker = 1`,
      `status = 'processing', ready = NULL, lease_until = 1, claimed_at = 1`,
      'worker = 1, lease_until = 1',
    ]) {
      expect(() => database.exec(`UPDATE jobs SET ${half}`), half).toThrow(/the_columns_fit_the_status/)
    }
    database.close()
  })

  test('P18 the claim says which worker it was, in the history and in the log', async () => {
    const id = await submitted()
    await worker.tick()
    const claim = (await scene.store.events({ id })).find(({ kind }) => kind === 'processing')
    expect(claim).toMatchObject({ worker: 'node-1', attempt: 1 })
    expect(logged()).toContainEqual(expect.objectContaining({ job_id: id, to: 'processing', worker_id: 'node-1' }))
  })

  test('P19 the job of a dead worker is marked failed by the operator, who then retries it explicitly', async () => {
    const id = await orphaned()
    await worker.maintain()
    await scene.app.markFailed(id, { actor: 'ann', reason: 'node-1 burnt down' })
    expect(await scene.job(id)).toMatchObject({ status: 'failed', latestFailure: { code: 'MARKED_FAILED' } })
    run = () => 'ok'
    const retried = await scene.app.retry(id, { actor: 'ann', reason: 'on another node' })
    await worker.tick()
    expect(retried.job.id).not.toBe(id)
    expect(await scene.job(retried.job.id)).toMatchObject({ status: 'complete', retriedFrom: id })
    expect(await scene.status(id)).toBe('failed')
  })
})

describe('P22 P38-P45 execution failures and retries', () => {
  const causes: [string, () => unknown][] = [
    ['ffmpeg ended with 1', () => Promise.reject(Object.assign(new Error('ffmpeg'), { exitCode: 1, stderr: 'x' }))],
    ['the disk is full', () => Promise.reject(Object.assign(new Error('write'), { code: 'ENOSPC' }))],
    ['the network', () => Promise.reject(Object.assign(new Error('connect'), { code: 'ECONNRESET' }))],
    ['a time limit of its own', () => Promise.reject(new DOMException('slow', 'TimeoutError'))],
    ['an engine code that is transient', () => Promise.reject(new Error('anything'))],
    [
      'a plain throw',
      () => {
        throw null
      },
    ],
  ]
  test.each(causes)('P22 P38 P39 P42 %s: failed, at once, and for ever', async (_name, cause) => {
    run = cause
    const id = await submitted()
    await worker.tick()
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 1, dueAtMs: null })
    scene.clock.block(30 * DAY_MS)
    await worker.maintain()
    await worker.prune()
    await worker.tick()
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 1 })
    expect(await scene.story(id)).toMatch(/^queued processing started failed$/)
  })

  test('P22 P38 the time limit of the engine is final too', async () => {
    run = never
    const id = await submitted()
    await worker.tick()
    await scene.pass(3_600_000)
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 1, latestFailure: { code: 'TIMEOUT' } })
  })

  test('P38 a Retry-After that the other side sends changes nothing', async () => {
    run = (_input, attempt) => attempt.fail('TIMEOUT', { retryAfter: '1s' })
    const id = await submitted()
    await worker.tick()
    expect(await scene.job(id)).toMatchObject({ status: 'failed', dueAtMs: null })
  })

  test('P38 P52 a handler that asks for another time gets a failure', async () => {
    run = (_input, attempt) => attempt.snooze('1m')
    const id = await submitted()
    await worker.tick()
    expect(await scene.job(id)).toMatchObject({ status: 'failed', latestFailure: { code: 'SNOOZE_REFUSED' } })
  })

  test('P40 P41 P44 a retry names the failed job, makes a new one with its spec, and leaves the old one as it was', async () => {
    run = () => Promise.reject(new Error('no'))
    const id = await submitted(['a.mov', 'b.mov'])
    await worker.tick()
    const [before, historyBefore] = [await scene.job(id), await scene.store.events({ id })]
    const { job } = await scene.app.retry(id, { actor: 'ann', reason: 'fixed the node' })
    expect(job.id).not.toBe(id)
    expect(await scene.job(job.id)).toMatchObject({
      status: 'queued',
      attempt: 0,
      retriedFrom: id,
      payload: before.payload,
    })
    // The spec is inherited, the history is not.
    expect(await scene.failures(job.id)).toEqual([])
    expect(await scene.job(id)).toEqual({ ...before, retriedAs: job.id, retriedAsStatus: 'queued' })
    expect(await scene.store.events({ id })).toEqual(historyBefore)
  })

  test('P41 a retry may be given another spec', async () => {
    run = () => Promise.reject(new Error('no'))
    const id = await submitted(['a.mov'])
    await worker.tick()
    const { job } = await scene.app.retry(id, { actor: 'ann', reason: 'other clip', input: { clips: ['b.mov'] } })
    expect(JSON.parse((await scene.job(job.id)).payload)).toEqual({ clips: ['b.mov'] })
  })

  test('P41 a job that has not failed cannot be retried', async () => {
    const id = await submitted()
    await expect(scene.app.retry(id, { actor: 'ann', reason: 'x' })).rejects.toMatchObject({ code: 'JOB_WRONG_STATE' })
    await worker.tick()
    await expect(scene.app.retry(id, { actor: 'ann', reason: 'x' })).rejects.toMatchObject({ code: 'JOB_WRONG_STATE' })
  })

  test('P43 what a scheduler submits again is a new job and no retry', async () => {
    run = () => Promise.reject(new Error('no'))
    const first = await submitted()
    await worker.tick()
    const second = await submitted()
    expect(second).not.toBe(first)
    expect(await scene.job(second)).toMatchObject({ retriedFrom: null, status: 'queued' })
  })

  test('P45 a failed job has no result to take a fingerprint from, and a retry does not inherit one', async () => {
    run = () => Promise.reject(new Error('no'))
    const id = await submitted()
    await worker.tick()
    expect((await scene.job(id)).result).toBe(null)
    run = () => ({ fingerprint: 'abc' })
    const { job } = await scene.app.retry(id, { actor: 'ann', reason: 'again' })
    await worker.tick()
    const other = await submitted()
    await worker.tick()
    // Same input and spec: the same result, retried or not.
    expect((await scene.job(job.id)).result).toBe((await scene.job(other)).result)
    expect((await scene.job(id)).result).toBe(null)
  })
})

describe('P51 P52 the state machine', () => {
  test('P51 P52 four states and four edges, none of them backward', () => {
    const edges = edgesOf(proxx).filter((edge) => edge.to !== 'cancelled')
    expect(new Set(edges.map(({ from, to }) => `${from} ${to}`))).toEqual(
      new Set(['queued processing', 'queued failed', 'processing complete', 'processing failed']),
    )
  })

  test('P51 nobody can cancel, so no job is ever in a fifth state', async () => {
    const id = await submitted()
    await expect(scene.app.cancel(id, { actor: 'ann', reason: 'x' })).rejects.toMatchObject({
      code: 'NOT_ALLOWED_BY_POLICY',
    })
    expect(await scene.status(id)).toBe('queued')
  })

  test('P52 the database refuses every way back', async () => {
    const file = join(folder, 'redress.db')
    const app = new App({ store: `sqlite:${file}` })
    declare(app)
    run = () => Promise.reject(new Error('no'))
    await app.submit('encode', { clips: ['a.mov'] })
    const direct = await app.makeWorker()
    await direct.tick()
    await app.stop()
    const database = new DatabaseSync(file)
    const back = `status = 'queued', ready = 1, finished_at = NULL, failure = NULL, claimed_at = NULL, started_at = NULL`
    expect(() => database.exec(`UPDATE jobs SET ${back}`)).toThrow()
    expect(() => database.exec(`UPDATE jobs SET ${back}, spent = '{"manualRetries":1}'`)).toThrow()
    expect(() => database.exec(`UPDATE jobs SET status = 'complete', failure = NULL`)).toThrow(/final/)
    database.close()
  })

  test('P52 a shutdown fails what is running: it does not go back to pending', async () => {
    run = never
    const id = await submitted()
    await worker.tick()
    const stopped = worker.stop({ graceMs: 1_000 })
    await scene.clock.advance(2_000, () => turns(10))
    await stopped
    expect(await scene.job(id)).toMatchObject({
      status: 'failed',
      latestFailure: { code: 'SHUTDOWN', stage: 'execution' },
    })
  })

  test('P5 P9 a submission that is refused is a failed job that was never attempted', async () => {
    const id = await submitted([])
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 0, startedAtMs: null })
    expect(await scene.lastFailure(id)).toMatchObject({ stage: 'pre_dispatch', owner: 'submission', from: null })
  })
})

describe('P53-P56 orphans', () => {
  test('P53 processing, its worker not alive, and no sign of progress for longer than the lease: not before', async () => {
    run = never
    const id = await submitted()
    await worker.tick()
    const watcher = await scene.worker({ id: 'watcher' }, scene.newApp())
    for (let i = 0; i < 10; i++) {
      await scene.pass(LEASE_MS)
      expect(await watcher.maintain()).toMatchObject({ reported: 0 })
    }
    worker.crash()
    scene.clock.block(LEASE_MS - 20_000)
    expect(await watcher.maintain()).toMatchObject({ reported: 0 })
    scene.clock.block(20_000)
    expect(await watcher.maintain()).toMatchObject({ reported: 1 })
    expect((await scene.job(id)).orphanedAtMs).toBe(scene.clock.nowMs())
  })

  test('P54 it is found by the missing heartbeat, and by an operator who looks', async () => {
    const id = await orphaned()
    const listed = { jobs: [{ id, status: 'processing', orphanedAt: expect.any(String) }] }
    // Worked out when it is asked for: no worker has to have looked.
    expect(await scene.app.perform('orphans.list', { limit: 10 })).toMatchObject(listed)
    expect(logged().filter((line) => line.event === 'orphaned')).toEqual([])
    await worker.maintain()
    expect(await scene.app.perform('orphans.list', { limit: 10 })).toMatchObject(listed)
    expect(logged().filter((line) => line.event === 'orphaned')).toHaveLength(1)
  })

  test('P55 it is logged with its worker, and neither reassigned nor healed, however long nobody looks', async () => {
    const id = await orphaned()
    for (let i = 0; i < 5; i++) {
      await worker.maintain()
      await worker.tick()
      scene.clock.block(DAY_MS)
    }
    expect(await scene.job(id)).toMatchObject({ status: 'processing', attempt: 1, lease: { worker: 'node-1' } })
    expect(logged().filter((line) => line.event === 'orphaned')).toEqual([
      expect.objectContaining({ job_id: id, worker_id: 'node-1' }),
    ])
    expect(scene.log.lines).toContainEqual(
      expect.objectContaining({ level: 'warn', fields: expect.objectContaining({ job_id: id, worker_id: 'node-1' }) }),
    )
  })

  test('P56 the operator marks it failed, with a name and a reason, and what the worker still says does not count', async () => {
    let end: (value: string) => void = () => undefined
    run = () => new Promise<string>((resolve) => (end = resolve))
    const id = await submitted()
    await worker.tick()
    scene.clock.block(LEASE_MS)
    const watcher = await scene.worker({ id: 'node-2' })
    await watcher.maintain()
    await scene.app.markFailed(id, { actor: 'ann', reason: 'node-1 does not answer' })
    end('from the dead')
    await worker.tick()
    expect(await scene.job(id)).toMatchObject({ status: 'failed', result: null })
    const marked = (await scene.store.events({ id })).find(({ kind }) => kind === 'failed')
    expect(marked?.data).toMatchObject({ actor: 'ann', reason: 'node-1 does not answer' })
    expect(await scene.story(id)).toContain('lost')
  })
})
