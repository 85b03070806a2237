import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { App } from '../../src/app/app.ts'
import { exponential, table } from '../../src/core/backoff.ts'
import { rule } from '../../src/core/classify.ts'
import { policy } from '../../src/core/policy.ts'
import { failures } from '../../src/core/taxonomy.ts'
import { checkJob } from '../../src/store/conformance/checks.ts'
import type { Store } from '../../src/store/store.ts'
import type { Worker } from '../../src/worker/worker.ts'
import { Scene } from '../support/scene.ts'
import { turns } from '../support/until.ts'

const LEASE_MS = 90_000

const pdfXml = policy({
  retry: { max: 3, perCode: { IO_ERROR: 2 }, backoff: exponential('5s', { jitter: '5s' }), unknown: 'transient' },
  manualRetry: { mode: 'in-place', budget: 'reset' },
  orphan: { action: 'requeue', budget: 'consume' },
  lease: { ttl: LEASE_MS },
  deadLetter: 'flag',
})

const codes = failures({
  NOT_PDF: { fault: 'caller', retry: 'never', message: 'This file is not a PDF.' },
  TOO_LARGE: { fault: 'caller', retry: 'never', message: 'The file is larger than 50 MB.' },
  GW_4XX: { fault: 'caller', retry: 'never', message: 'Couldn’t convert this file with the selected mapping.' },
  GW_5XX: { fault: 'dependency', retry: 'transient', message: 'Converter service kept failing. Retry later.' },
  GW_TIMEOUT: { fault: 'dependency', retry: 'transient', message: 'The converter took too long. Retry later.' },
  IO_ERROR: { fault: 'system', retry: 'transient', message: 'The result could not be written.' },
})
type Code = keyof typeof codes

const classify = [
  rule.http({ status: [400, 406, 413, 415] }, 'GW_4XX'),
  rule.http({ status: '5xx' }, 'GW_5XX'),
  rule.timeout('GW_TIMEOUT'),
  rule.errno(['EIO', 'ENOSPC'], 'IO_ERROR'),
]

let scene: Scene
let worker: Worker
let outcomes: (Code | 'ok' | 'hang' | Error)[]
let draws: number[]

beforeEach(async () => {
  draws = []
  scene = new Scene({ chance: () => draws.shift() ?? 0 })
  outcomes = []
  declare(scene.app)
  worker = await scene.worker({ pollMs: 1_000 })
})
afterEach(() => scene.end())

function declare(app: App, used = pdfXml): void {
  app.job('pdf.convert', {
    codes,
    classify: classify as never,
    policy: used,
    run: (_: unknown, attempt) => {
      const outcome = outcomes.shift() ?? 'ok'
      if (outcome === 'ok') return { xml: 'results/1.xml' }
      if (outcome === 'hang') return new Promise(() => undefined)
      if (outcome instanceof Error) throw outcome
      return attempt.fail(outcome as never)
    },
  })
}

const submitted = async (): Promise<string> => (await scene.app.submit('pdf.convert', { pdf: 'a.pdf' })).id

async function shown(id: string) {
  const view = await scene.app.find(id)
  if (view === null) throw new Error(`there is no job ${id}`)
  return view
}

const dueInMs = async (id: string): Promise<number> => Number((await scene.job(id)).dueAtMs) - scene.clock.nowMs()

/** Runs every attempt until the job ends; answers with the waits between them. */
async function waits(id: string): Promise<number[]> {
  const found: number[] = []
  await scene.pass(0)
  while ((await scene.status(id)) === 'queued') {
    const ms = await dueInMs(id)
    found.push(ms)
    await scene.pass(ms)
  }
  return found
}

describe('D11-D18 retry policy of a conversion', () => {
  test.each(['GW_5XX', 'GW_TIMEOUT'] as const)('D11 %s is retried to the last attempt', async (code) => {
    outcomes = [code, code, code]
    const id = await submitted()
    await waits(id)
    expect(await shown(id)).toMatchObject({ status: 'failed', attemptCount: 3, errorCode: code })
  })

  test('D11 D8 IO_ERROR is retried once, whatever the job has left', async () => {
    outcomes = ['IO_ERROR', 'IO_ERROR']
    const id = await submitted()
    await waits(id)
    expect(await shown(id)).toMatchObject({ status: 'failed', attemptCount: 2, errorCode: 'IO_ERROR' })
    expect((await scene.lastFailure(id)).decision.rule).toBe('retry.perCode.IO_ERROR')
  })

  test.each(['GW_4XX', 'NOT_PDF', 'TOO_LARGE'] as const)('D11 %s is terminal', async (code) => {
    outcomes = [code]
    const id = await submitted()
    expect(await waits(id)).toEqual([])
    expect(await shown(id)).toMatchObject({ status: 'failed', attemptCount: 1, errorCode: code })
  })

  test('D12 the table of 5, 15 and 45 s, each ±20 %, may be chosen instead', async () => {
    const app = scene.newApp()
    const retry = { ...pdfXml.retry, max: 4, backoff: table(['5s', '15s', '45s'], { jitter: '20%' }) }
    for (const [chance, expected] of [
      [0, [4_000, 12_000, 36_000]],
      [0.5, [5_000, 15_000, 45_000]],
      [0.999_999, [6_000, 18_000, 54_000]],
    ] as const) {
      const type = `table.${expected[0]}`
      app.job(type, { codes, policy: { ...pdfXml, retry }, run: (_: unknown, attempt) => attempt.fail('GW_5XX') })
      const { id } = await app.submit(type, {})
      const tabled = await app.makeWorker({ chance: () => chance })
      const found: number[] = []
      for (let i = 0; i < 3; i++) {
        await tabled.tick()
        const ms = await dueInMs(id)
        found.push(ms)
        scene.clock.block(ms)
      }
      expect(found).toEqual(expected)
      tabled.crash()
    }
  })

  test('D13 a conversion has 3 attempts unless the operator says otherwise', async () => {
    outcomes = ['GW_5XX', 'GW_5XX', 'ok']
    const id = await submitted()
    await waits(id)
    expect(await shown(id)).toMatchObject({ status: 'complete', attemptCount: 3, maxAttempts: 3 })
  })

  test('D14 every dispatch counts an attempt, also one that ended without an outcome', async () => {
    outcomes = ['hang', 'GW_5XX', 'ok']
    const id = await submitted()
    await worker.tick()
    expect((await shown(id)).attemptCount).toBe(1)
    worker.crash()
    scene.clock.block(LEASE_MS)
    worker = await scene.worker()
    await worker.maintain()
    await worker.tick()
    expect((await shown(id)).attemptCount).toBe(2)
    await scene.pass(await dueInMs(id))
    expect(await shown(id)).toMatchObject({ status: 'complete', attemptCount: 3 })
    expect((await scene.story(id)).match(/processing/g)).toHaveLength(3)
  })

  test('D15 a failure sets when it was tried last and what went wrong', async () => {
    outcomes = ['GW_5XX', 'GW_5XX', 'GW_TIMEOUT']
    const id = await submitted()
    await scene.pass(0)
    expect((await shown(id)).lastAttemptAt).toBe(new Date(scene.clock.nowMs()).toISOString())
    await waits(id)
    expect(await shown(id)).toMatchObject({ errorCode: 'GW_TIMEOUT', errorMessage: codes.GW_TIMEOUT.message })
    expect((await scene.failures(id)).map(({ attempt, code }) => `${attempt} ${code}`)).toEqual([
      '1 GW_5XX',
      '2 GW_5XX',
      '3 GW_TIMEOUT',
    ])
  })

  test('D16 the last failure ends the job and sets when', async () => {
    outcomes = ['GW_5XX', 'GW_5XX', 'GW_5XX']
    const id = await submitted()
    await waits(id)
    expect(await shown(id)).toMatchObject({
      status: 'failed',
      failedAt: new Date(scene.clock.nowMs()).toISOString(),
      retryAfter: null,
      deadLettered: true,
    })
  })

  test('D17 E18 the lease is held while the attempt runs, and extended about every 30 s', async () => {
    outcomes = ['hang']
    const id = await submitted()
    await worker.tick()
    const untils = new Set<number>()
    for (let i = 0; i < 180; i++) {
      await scene.pass(1_000)
      const { lease } = await scene.job(id)
      expect(lease?.worker).toBe(worker.id)
      expect(Number(lease?.untilMs)).toBeGreaterThan(scene.clock.nowMs())
      untils.add(Number(lease?.untilMs))
    }
    const steps = [...untils].map((ms, i, all) => ms - (all[i - 1] ?? ms)).slice(1)
    expect(steps.length).toBeGreaterThanOrEqual(5)
    for (const step of steps) expect(step).toBeCloseTo(30_000, -4)
  })

  test('D18 E14 when its worker dies the lease runs out, another one goes on, and the count continues', async () => {
    outcomes = ['GW_5XX', 'hang', 'ok']
    const id = await submitted()
    await scene.pass(0)
    await scene.pass(await dueInMs(id))
    await scene.clock.advance(1_000)
    await worker.tick()
    expect((await shown(id)).attemptCount).toBe(2)
    worker.crash()
    scene.clock.block(LEASE_MS)
    const next = await scene.worker()
    expect(await next.maintain()).toMatchObject({ requeued: 1 })
    expect(await shown(id)).toMatchObject({ status: 'queued', worker: null, leaseUntil: null })
    await next.tick()
    expect(await shown(id)).toMatchObject({ status: 'complete', attemptCount: 3 })
  })

  test('D18 a crash consumes an attempt: three lost workers end the job', async () => {
    outcomes = ['hang', 'hang', 'hang']
    const id = await submitted()
    for (let i = 0; i < 3; i++) {
      await worker.tick()
      await scene.clock.advance(1_000)
      await worker.tick()
      worker.crash()
      scene.clock.block(LEASE_MS)
      worker = await scene.worker()
      await worker.maintain()
    }
    expect(await shown(id)).toMatchObject({ status: 'failed', errorCode: 'WORKER_LOST', attemptCount: 3 })
  })
})

describe('D27-D29 states', () => {
  test('D27 queued, processing and complete, with the start at the lease and the result at the end', async () => {
    const gate = Promise.withResolvers<string>()
    const app = scene.newApp()
    app.job('gated', { codes, policy: pdfXml, run: () => gate.promise })
    const gated = await scene.worker({}, app)
    const { id } = await app.submit('gated', {})
    expect(await app.find(id)).toMatchObject({ status: 'queued', startedAt: null, result: null })
    await gated.tick()
    await scene.pass(1_000)
    expect(await app.find(id)).toMatchObject({ status: 'processing', result: null })
    expect((await app.find(id))?.startedAt).not.toBe(null)
    gate.resolve('results/1.xml')
    await scene.pass(0)
    expect(await app.find(id)).toMatchObject({ status: 'complete', result: 'results/1.xml' })
  })

  test('D27 failed goes back to queued only by a person', async () => {
    outcomes = ['GW_4XX', 'ok']
    const id = await submitted()
    await scene.pass(0)
    scene.clock.block(3_600_000)
    await scene.pass(0)
    expect((await shown(id)).status).toBe('failed')
    await scene.app.retry(id, { actor: 'ann', reason: 'mapping corrected' })
    await scene.pass(0)
    expect((await shown(id)).status).toBe('complete')
    expect(await scene.story(id)).toBe('queued processing failed manual-retry processing complete')
  })

  test('D28 E9 between attempts a job is queued with its time, and holds no lease', async () => {
    outcomes = ['GW_5XX']
    const id = await submitted()
    await scene.pass(0)
    expect(await scene.job(id)).toMatchObject({ status: 'queued', lease: null, claimedAtMs: null })
    expect(await shown(id)).toMatchObject({ attemptCount: 1, retryAfter: expect.any(String), leaseUntil: null })
  })

  test('D29 a result only when complete, an error only when failed, a lease only while processing: at every moment', async () => {
    outcomes = ['GW_5XX', 'hang', 'GW_4XX', 'ok']
    const id = await submitted()
    const check = async () => {
      checkJob(await scene.job(id), await scene.store.events({ id }))
      const { status, result, errorCode, leaseUntil } = await shown(id)
      expect([result !== null, errorCode !== null, leaseUntil !== null]).toEqual([
        status === 'complete',
        status === 'failed',
        status === 'processing',
      ])
    }
    await check()
    await scene.pass(0)
    await check()
    await scene.pass(await dueInMs(id))
    await check()
    worker.crash()
    scene.clock.block(LEASE_MS)
    worker = await scene.worker()
    await worker.maintain()
    await check()
    await worker.tick()
    await check()
    await scene.app.retry(id, { actor: 'ann', reason: 'again' })
    await check()
    await worker.tick()
    await check()
    expect(await scene.status(id)).toBe('complete')
  })

  test('D29 E10 the database itself refuses a row that breaks these, and finds due retries by an index', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'redress-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'redress.db')
    const app = new App({ store: `sqlite:${file}` })
    declare(app)
    await app.submit('pdf.convert', {})
    await app.stop()
    const database = new DatabaseSync(file)
    const refused = (sql: string) => expect(() => database.exec(sql), sql).toThrow(/the_columns_fit_the_status/)
    refused(`UPDATE jobs SET result = '"x"'`)
    refused('UPDATE jobs SET failure = 1')
    refused('UPDATE jobs SET lease_until = 1, worker = 1')
    refused(`UPDATE jobs SET status = 'processing'`)
    const plan = database
      .prepare('EXPLAIN QUERY PLAN SELECT key FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL AND due_at <= 5')
      .all() as { detail: string }[]
    expect(plan.map(({ detail }) => detail).join()).toMatch(/SEARCH jobs USING .*INDEX jobs_waiting/)
    database.close()
  })
})

describe('E8-E19 the worker', () => {
  test('E8 waits 5000 * 2^n ms and up to 5000 more, from n = 0', async () => {
    outcomes = ['GW_5XX', 'GW_5XX', 'GW_5XX']
    draws = [0, 0.999_999]
    const id = await submitted()
    expect(await waits(id)).toEqual([5_000, 15_000])
  })

  test('E8 an unknown error is retried, one of the user’s making is not', async () => {
    outcomes = [new Error('nobody foresaw this'), 'ok']
    const id = await submitted()
    await waits(id)
    expect(await shown(id)).toMatchObject({ status: 'complete', attemptCount: 2 })
  })

  test('E8 E26 a retry is not claimed before its time', async () => {
    outcomes = ['GW_5XX', 'ok']
    const id = await submitted()
    await scene.pass(0)
    await scene.pass(4_999)
    expect((await shown(id)).attemptCount).toBe(1)
    await scene.pass(1)
    expect((await shown(id)).attemptCount).toBe(2)
  })

  test('E9 a scheduled retry counts the attempt, knows when it was tried and when it is due', async () => {
    outcomes = ['GW_5XX']
    const id = await submitted()
    await scene.pass(0)
    const nowMs = scene.clock.nowMs()
    expect(await shown(id)).toMatchObject({
      status: 'queued',
      attemptCount: 1,
      lastAttemptAt: new Date(nowMs).toISOString(),
      retryAfter: new Date(nowMs + 5_000).toISOString(),
      worker: null,
      leaseUntil: null,
    })
  })

  test('E15 a claim takes the oldest, says who has it until when, and two at once never take the same', async () => {
    const ids: string[] = []
    for (let i = 0; i < 6; i++) {
      ids.push(await submitted())
      await scene.clock.advance(1)
    }
    outcomes = Array(6).fill('hang')
    const [one, other] = [await scene.worker({ concurrency: 2 }), await scene.worker({ concurrency: 2 })]
    await Promise.all([one.tick(), other.tick()])
    const rows = await Promise.all(ids.map((id) => scene.job(id)))
    expect(rows.map((row) => row.status)).toEqual([...Array(4).fill('processing'), 'queued', 'queued'])
    for (const row of rows.slice(0, 4)) {
      expect([one.id, other.id]).toContain(row.lease?.worker)
      expect(row.lease?.untilMs).toBe(Number(row.claimedAtMs) + LEASE_MS)
      expect(row.attempt).toBe(1)
    }
  })

  test('E16 the call has a time limit, and what is thrown is mapped to a code that is retried or not', async () => {
    const app = scene.newApp()
    const limited = { ...pdfXml, timeout: { attemptMs: 30_000, totalMs: null } }
    app.job('slow', { codes, classify: classify as never, policy: limited, run: () => new Promise(() => undefined) })
    app.job('refused', {
      codes,
      classify: classify as never,
      policy: pdfXml,
      run: () => {
        throw Object.assign(new Error('Unsupported Media Type'), { status: 415 })
      },
    })
    await scene.worker({ pollMs: 1_000 }, app)
    const slow = await app.submit('slow', {})
    const refused = await app.submit('refused', {})
    await scene.pass(0)
    await scene.pass(30_000)
    expect(await scene.lastFailure(slow.id)).toMatchObject({ code: 'GW_TIMEOUT', to: 'queued', rule: 'timed out' })
    expect(await scene.lastFailure(refused.id)).toMatchObject({
      code: 'GW_4XX',
      to: 'failed',
      context: { httpStatus: 415 },
    })
  })

  test('E17 after work it looks again at once; without work it sleeps for one poll', async () => {
    const asked: number[] = []
    const store: Store = {
      ...scene.store,
      claim: (params) => {
        asked.push(scene.clock.monoMs())
        return scene.store.claim(params)
      },
    }
    const app = scene.newApp({ store })
    declare(app)
    const looping = await scene.worker({ pollMs: 1_500, concurrency: 1, prefetchMax: 0 }, app)
    await app.submitMany('pdf.convert', Array(5).fill({}))
    await looping.tick()
    const counts = await scene.store.counts()
    expect(counts[0]).toMatchObject({ complete: 5 })
    asked.length = 0
    await scene.clock.advance(6_000, () => turns(5))
    expect(asked.length).toBeGreaterThanOrEqual(4)
    expect(asked.length).toBeLessThanOrEqual(5)
  })

  test('E19 at SIGTERM it stops claiming, finishes or requeues what it has, and the store is closed last', async () => {
    const writes: string[] = []
    const noting = <Params, Answer>(name: string, call: (params: Params) => Promise<Answer>) => {
      return async (params: Params): Promise<Answer> => {
        const answer = await call(params)
        writes.push(name)
        return answer
      }
    }
    const store: Store = {
      ...scene.store,
      claim: noting('claim', scene.store.claim),
      close: noting('close', scene.store.close),
      stop: async () => void writes.push('stop'),
    }
    const app = scene.newApp({ store })
    declare(app)
    outcomes = ['hang']
    const stopping = await app.makeWorker()
    const { id } = await app.submit('pdf.convert', {})
    await stopping.tick()
    writes.length = 0
    const waiting = await app.submit('pdf.convert', {})
    const stopped = app.stop({ graceMs: 1_000 })
    await scene.clock.advance(2_000, () => turns(5))
    await stopped
    expect(writes).not.toContain('claim')
    expect(writes.at(-1)).toBe('stop')
    expect(await scene.job(id)).toMatchObject({ status: 'queued', attempt: 1 })
    expect(await scene.job(waiting.id)).toMatchObject({ status: 'queued', attempt: 0 })
  })
})
