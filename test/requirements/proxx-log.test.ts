import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { App } from '../../src/app/app.ts'
import type { Store } from '../../src/store/store.ts'
import { withWriteAhead } from '../../src/store/write-ahead.ts'
import type { Attempt } from '../../src/worker/attempt.ts'
import type { Worker } from '../../src/worker/worker.ts'
import { Scene } from '../support/scene.ts'
import { LEASE_MS, proxx } from './proxx-policy.ts'

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
const logged = (): Record<string, unknown>[] =>
  readFileSync(join(folder, 'failures.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))

describe('P65-P67 the failure log', () => {
  test('P65 a failure has its time, job, class, reason, worker, and the states it went between', async () => {
    run = () => Promise.reject(new Error('ffmpeg ended with 1'))
    const id = await submitted()
    await worker.tick()
    expect(logged().filter((line) => line.job_id === id && line.to === 'failed')).toEqual([
      expect.objectContaining({
        ts: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        class: 'execution',
        reason: expect.stringMatching(/^UNKNOWN: ./),
        worker_id: 'node-1',
        from: 'processing',
      }),
    ])
  })

  test('P66 the line is there before the state, before whoever is told, and before the next job of the worker', async () => {
    const order: string[] = []
    const has = (id: string, to: string) => logged().some((line) => line.job_id === id && line.to === to)
    const store: Store = {
      ...scene.store,
      close: async (params) => {
        const [first] = ids
        order.push(`close, logged ${has(String(first), 'failed')}`)
        return scene.store.close(params)
      },
    }
    const app = scene.newApp({ store, failureLog: join(folder, 'failures.jsonl') })
    declare(app)
    const ids: string[] = []
    run = (_input, attempt) => {
      if (attempt.jobId !== ids[0]) order.push(`next, logged ${has(String(ids[0]), 'failed')}`)
      throw new Error('no')
    }
    for (let i = 0; i < 2; i++) ids.push((await app.submit('encode', { clips: ['a.mov'] })).id)
    const tell = ({ jobId }: { jobId: string }) =>
      jobId === ids[0] && order.push(`told, logged ${has(jobId, 'failed')}`)
    const strict = await scene.worker({ concurrency: 1, tell }, app)
    await strict.tick()
    await strict.tick()
    expect(order.slice(0, 3)).toEqual(['close, logged true', 'told, logged true', 'next, logged true'])
    await (await app.store()).stop()
  })

  describe('P67 when the log cannot be written', () => {
    const log = {
      isBroken: false,
      append: async () => {
        if (log.isBroken) throw new Error('no space left on the log’s disk')
      },
      close: async () => undefined,
    }
    let app: App
    let ids: string[]

    beforeEach(async () => {
      log.isBroken = false
      app = scene.newApp({ store: withWriteAhead(scene.store, log), failureLog: join(folder, 'beside.jsonl') })
      declare(app)
      app.job('other', { run: () => 'ok' })
      ids = (await app.submitMany('encode', Array(3).fill({ clips: ['a.mov'] }))).map(({ id }) => id)
    })
    afterEach(async () => (await app.store()).stop())

    test('P67 an outcome is no success: the job fails and says why', async () => {
      run = () => {
        log.isBroken = true
        return 'a fine result'
      }
      await (await scene.worker({ concurrency: 1 }, app)).tick()
      expect(await scene.job(String(ids[0]))).toMatchObject({ status: 'failed', result: null })
      expect(await scene.lastFailure(String(ids[0]))).toMatchObject({
        code: 'LOG_FAILED',
        detail: expect.stringContaining('no space left'),
      })
      for (const id of ids) expect(await scene.status(id)).not.toBe('complete')
    })

    test('P67 P61 a submission is not accepted', async () => {
      log.isBroken = true
      await expect(app.submit('encode', { clips: ['b.mov'] })).rejects.toThrow(/no space left/)
      expect(await scene.store.jobs({ limit: 10 })).toHaveLength(3)
    })

    test('P67 a queue that waits is left alone until the log can be written again', async () => {
      const more = await app.submitMany('encode', Array(50).fill({ clips: ['a.mov'] }))
      log.isBroken = true
      const held = await scene.worker({ concurrency: 1 }, app)
      for (let i = 0; i < 20; i++) await held.tick()
      expect((await scene.store.counts()).find(({ type }) => type === 'encode')).toMatchObject({ queued: 52 })
      log.isBroken = false
      for (let i = 0; i < 60; i++) await held.tick()
      for (const { id } of more) expect(await scene.status(id)).toBe('complete')
    })

    test('P67 P48 a claim is nobody’s, and jobs of other types that came with it go on', async () => {
      const other = await app.submit('other', {})
      log.isBroken = true
      let runs = 0
      run = () => runs++
      await (await scene.worker({}, app)).tick()
      expect(await scene.status(other.id)).toBe('complete')
      scene.clock.block(LEASE_MS)
      log.isBroken = false
      await worker.maintain()
      expect(runs).toBe(0)
      for (const id of ids)
        expect(await scene.lastFailure(id)).toMatchObject({ code: 'NEVER_STARTED', stage: 'dispatch' })
    })
  })
})
