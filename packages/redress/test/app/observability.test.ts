import { Registry } from 'prom-client'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Exposition, readExposition } from '../../../../test/support/exposition.ts'
import { Scene } from '../../../../test/support/scene.ts'
import { until } from '../../../../test/support/until.ts'
import type { App } from '../../src/app/app.ts'
import { outcomeLog } from '../../src/app/events/outcome-log.ts'
import { rule } from '../../src/core/failure/classify.ts'
import { failureCodes } from '../../src/core/failure/taxonomy.ts'
import { table } from '../../src/core/policy/backoff.ts'

const codes = failureCodes({
  GW_5XX: { fault: 'dependency', retry: 'transient', message: 'The converter kept failing.' },
  GW_4XX: { fault: 'caller', retry: 'never', message: 'The converter does not take this file.' },
})
const classify = [rule.http({ status: '5xx' }, 'GW_5XX' as const), rule.http({ status: '4xx' }, 'GW_4XX' as const)]

type Input = { statuses?: number[]; ms?: number; hang?: true }

let scene: Scene
beforeEach(() => {
  scene = new Scene()
  declare(scene.app)
})
afterEach(() => scene.end())

/** Answers with each status in turn, one per attempt; 200 when there is none left. */
function declare(app: App): void {
  app.job('pdf.convert', {
    codes,
    classify,
    queue: 'pdf',
    policy: {
      retry: { max: 3, backoff: table(['1m']) },
      deadLetter: 'queue',
      errors: 'latest',
    },
    run: async ({ statuses = [], ms = 0, hang }: Input, attempt) => {
      if (hang) await new Promise(() => undefined)
      if (ms > 0) await new Promise<void>((resolve) => scene.clock.setTimer(ms, resolve))
      const status = statuses[attempt.number - 1] ?? 200
      if (status >= 400) throw Object.assign(new Error(`answered ${status}`), { status })
      return { xml: 'results/1.xml' }
    },
  })
}

const submit = async (input: Input = {}, app = scene.app): Promise<string> =>
  (await app.submit('pdf.convert', input)).id
const scrape = async (app = scene.app): Promise<Exposition> => readExposition(await app.metrics.text())
const by = { actor: 'olga', reason: 'the gateway is back' }
const T = { type: 'pdf.convert' }

describe('the events of a job', () => {
  test('each transition has one event with the attempt, the HTTP status, the duration and the code [D32 E23]', async () => {
    await scene.worker()
    const id = await submit({ statuses: [503, 502], ms: 250 })
    for (let i = 0; i < 3; i++) {
      await scene.pass(60_000)
      await scene.pass(250)
    }
    const events = (await scene.app.jobs.events(id)).events.filter(({ kind }) => kind !== 'started')
    const meta = events.map(({ kind, attempt, durationMs, data }) => ({
      kind,
      attempt,
      gateway_http_status: data.httpStatus,
      duration_ms: durationMs,
      error_code: data.code,
    }))
    const none = { gateway_http_status: undefined, duration_ms: null, error_code: undefined }
    expect(meta).toEqual([
      { kind: 'queued', attempt: 0, ...none },
      { kind: 'processing', attempt: 1, ...none },
      { kind: 'retry', attempt: 1, gateway_http_status: 503, duration_ms: 250, error_code: 'GW_5XX' },
      { kind: 'processing', attempt: 2, ...none },
      { kind: 'retry', attempt: 2, gateway_http_status: 502, duration_ms: 250, error_code: 'GW_5XX' },
      { kind: 'processing', attempt: 3, ...none },
      { kind: 'complete', attempt: 3, ...none, duration_ms: 250 },
    ])
    // As JSON, which is how every door shows them.
    expect(JSON.parse(JSON.stringify(events))).toEqual(events)
  })

  test('the event of a final failure has the attempt, the HTTP status, the duration and the code [D32]', async () => {
    await scene.worker()
    const id = await submit({ statuses: [415] })
    await scene.pass(0)
    expect((await scene.app.jobs.events(id)).events.at(-1)).toMatchObject({
      kind: 'failed',
      attempt: 1,
      durationMs: 0,
      data: { code: 'GW_4XX', httpStatus: 415 },
    })
  })
})

describe('metrics', () => {
  test('metrics are Prometheus text with stable names and kinds [D33 E22]', async () => {
    const { kinds } = await scrape()
    expect(Object.fromEntries(kinds)).toEqual({
      jobs_created_total: 'counter',
      jobs_completed_total: 'counter',
      jobs_cancelled_total: 'counter',
      jobs_failed_total: 'counter',
      retries_scheduled_total: 'counter',
      dead_letters_total: 'counter',
      manual_retry_total: 'counter',
      leases_lost_total: 'counter',
      event_loop_blocked_seconds_total: 'counter',
      jobs_reclaimed_total: 'counter',
      job_processing_duration_seconds: 'histogram',
      stage_duration_seconds: 'histogram',
      store_write_duration_seconds: 'histogram',
      store_up: 'gauge',
      queue_depth: 'gauge',
      jobs_active: 'gauge',
      orphans: 'gauge',
      oldest_ready_seconds: 'gauge',
      queue_paused: 'gauge',
      breaker_state: 'gauge',
      breaker_open_seconds_total: 'counter',
    })
    expect(scene.app.metrics.contentType).toBe(Registry.PROMETHEUS_CONTENT_TYPE)
  })

  test('metrics count jobs created and completed, and failures, retries and dead letters by code [D33 E22 F17 F24]', async () => {
    await scene.worker()
    await submit()
    await submit({ statuses: [503] })
    await submit({ statuses: [500, 500, 500] })
    await submit({ statuses: [404] })
    for (let i = 0; i < 3; i++) await scene.pass(60_000)
    const metrics = await scrape()
    expect(metrics.value('jobs_created_total', T)).toBe(4)
    expect(metrics.value('jobs_completed_total', T)).toBe(2)
    expect(metrics.of('jobs_failed_total')).toEqual([
      [{ ...T, error_code: 'GW_4XX' }, 1],
      [{ ...T, error_code: 'GW_5XX' }, 1],
    ])
    expect(metrics.of('retries_scheduled_total')).toEqual([[{ ...T, error_code: 'GW_5XX' }, 3]])
    // Every dead letter is counted where it is published.
    expect(metrics.of('dead_letters_total')).toEqual([
      [{ ...T, error_code: 'GW_4XX' }, 1],
      [{ ...T, error_code: 'GW_5XX' }, 1],
    ])
    expect((await (await scene.app.store()).deadLetters({ afterOffset: 0, limit: 10 })).length).toBe(2)
  })

  test('a deduplicated submission is not counted as created', async () => {
    await scene.app.submit('pdf.convert', {}, { dedupe: 'same' })
    await scene.app.submit('pdf.convert', {}, { dedupe: 'same' })
    expect((await scrape()).value('jobs_created_total', T)).toBe(1)
  })

  test('the duration of each run is a histogram from which a P95 can be taken [D33 E22]', async () => {
    await scene.worker()
    for (const ms of [4, 40, 400, 4_000]) await submit({ ms })
    await scene.pass(0)
    await scene.pass(4_000)
    const metrics = await scrape()
    const name = 'job_processing_duration_seconds'
    expect(metrics.value(`${name}_count`, T)).toBe(4)
    expect(metrics.value(`${name}_sum`, T)).toBeCloseTo(4.444, 5)
    const buckets = metrics.of(`${name}_bucket`).map(([{ le }, count]) => [le, count])
    expect(buckets).toContainEqual(['0.005', 1])
    expect(buckets).toContainEqual(['0.05', 2])
    expect(buckets).toContainEqual(['0.5', 3])
    expect(buckets).toContainEqual(['5', 4])
    expect(buckets.at(-1)).toEqual(['+Inf', 4])
    const counts = buckets.map(([, count]) => count as number)
    expect(counts).toEqual(counts.toSorted((a, b) => a - b))
  })

  test('the tries of a stage are timed apart from the attempt [E22]', async () => {
    scene.app.job('staged', {
      run: (_: unknown, attempt) =>
        attempt.stage('gateway', {}, () => new Promise<void>((resolve) => scene.clock.setTimer(700, resolve))),
    })
    await scene.worker()
    await scene.app.submit('staged', {})
    await scene.pass(0)
    await scene.pass(700)
    const labels = { type: 'staged', stage: 'gateway' }
    const metrics = await scrape()
    expect(metrics.value('stage_duration_seconds_count', labels)).toBe(1)
    expect(metrics.value('stage_duration_seconds_sum', labels)).toBeCloseTo(0.7, 5)
  })

  test('stages beyond the limit of names share one series', async () => {
    scene.app.job('staged', {
      run: async (_: unknown, attempt) => {
        for (let i = 0; i < 20; i++) await attempt.stage(`part-${attempt.jobId}-${i}`, {}, () => i)
      },
    })
    await scene.worker()
    for (let i = 0; i < 10; i++) await scene.app.submit('staged', {})
    await scene.pass(0)
    const found = (await scrape()).of('stage_duration_seconds_count')
    expect(found.length).toBeLessThanOrEqual(101)
    expect(found.reduce((sum, [, count]) => sum + count, 0)).toBe(200)
  })

  test('metrics show queue depth, the age of the oldest ready job and the active jobs [D33 E22]', async () => {
    await submit({ hang: true })
    await scene.app.submit('pdf.convert', {}, { delay: '1h' })
    await scene.pass(5_000)
    let metrics = await scrape()
    const depth = (state: string) => metrics.value('queue_depth', { ...T, queue: 'pdf', state })
    expect([depth('ready'), depth('waiting')]).toEqual([1, 1])
    expect(metrics.value('oldest_ready_seconds', { queue: 'pdf' })).toBe(5)
    expect(metrics.value('jobs_active', T)).toBe(0)
    await scene.worker()
    await scene.pass(0)
    metrics = await scrape()
    expect([depth('ready'), depth('waiting')]).toEqual([0, 1])
    expect(metrics.value('jobs_active', T)).toBe(1)
    expect(metrics.value('oldest_ready_seconds', { queue: 'pdf' })).toBe(0)
    expect(metrics.value('orphans', T)).toBe(0)
  })

  test('metrics show orphans and count reclaims and failures of lost workers', async () => {
    scene.app.job('taken-back', { policy: { orphan: 'requeue' }, run: () => new Promise(() => undefined) })
    scene.app.job('given-up', {
      policy: { orphan: 'fail', deadLetter: 'flag' },
      run: () => new Promise(() => undefined),
    })
    const worker = await scene.worker()
    await submit({ hang: true })
    await scene.app.submit('taken-back', {})
    await scene.app.submit('given-up', {})
    await scene.pass(0)
    worker.crash()
    const other = scene.newApp()
    const watcher = await other.makeWorker()
    await scene.clock.advance(60_000)
    await watcher.maintain()
    const metrics = await scrape(other)
    expect(metrics.value('orphans', T)).toBe(1)
    expect(metrics.value('jobs_reclaimed_total', { type: 'taken-back' })).toBe(1)
    const lost = { type: 'given-up', error_code: 'WORKER_LOST' }
    expect(metrics.value('jobs_failed_total', lost)).toBe(1)
    expect(metrics.value('dead_letters_total', lost)).toBe(1)
    // The process that died counted nothing of it: each change is counted once.
    expect((await scrape()).of('jobs_failed_total')).toEqual([])
  })

  test('metrics count manual retries, in place and as new jobs, and jobs marked failed [D33]', async () => {
    scene.app.job('anew', {
      codes,
      policy: { manualRetry: 'new-job' },
      run: (_: unknown, attempt) => attempt.fail('GW_4XX'),
    })
    scene.app.job('in-place', {
      codes,
      policy: { manualRetry: 'in-place' },
      run: (_: unknown, attempt) => attempt.fail('GW_4XX'),
    })
    await scene.worker()
    const inPlace = await scene.app.submit('in-place', {})
    const anew = await scene.app.submit('anew', {})
    await scene.pass(0)
    await scene.app.jobs.retry(inPlace.id, by)
    await scene.app.jobs.retry(anew.id, by)
    await scene.app.jobs.markFailed(await submit({ hang: true }), by)
    const metrics = await scrape()
    expect(metrics.value('manual_retry_total', { type: 'in-place' })).toBe(1)
    expect(metrics.value('jobs_created_total', { type: 'in-place' })).toBe(1)
    expect(metrics.value('manual_retry_total', { type: 'anew' })).toBe(1)
    expect(metrics.value('jobs_created_total', { type: 'anew' })).toBe(2)
    expect(metrics.value('jobs_failed_total', { ...T, error_code: 'MARKED_FAILED' })).toBe(1)
  })

  test('a refused manual retry is not counted', async () => {
    await scene.worker()
    const id = await submit()
    await scene.pass(0)
    await expect(scene.app.jobs.retry(id, by)).rejects.toMatchObject({ code: 'JOB_WRONG_STATE' })
    await scene.app.perform('jobs.retry', { id, ...by, dryRun: true }).catch(() => undefined)
    expect((await scrape()).value('manual_retry_total', T)).toBe(0)
  })

  test('metrics count lost leases', async () => {
    const worker = await scene.worker()
    const id = await submit({ hang: true })
    await scene.pass(0)
    const job = await scene.job(id)
    scene.clock.block(60_000)
    const change = {
      to: 'queued',
      cause: 'reclaimed',
      delayMs: 3_600_000,
      spent: null,
      failure: null,
      note: null,
    } as const
    await scene.store.reclaim({ reclaims: [{ key: job.key, attempt: 1, expect: 'expired', change }] })
    await worker.tick()
    expect((await scrape()).value('leases_lost_total', T)).toBe(1)
  })

  test('an outcome without a valid lease counts as a lost lease, not as completed', async () => {
    const { promise: finished, resolve: finish } = Promise.withResolvers<void>()
    scene.app.job('held', { run: () => finished })
    await scene.worker()
    const { id } = await scene.app.submit('held', {})
    await scene.pass(0)
    const { key } = await scene.job(id)
    scene.clock.block(60_000)
    const change = {
      to: 'queued',
      cause: 'reclaimed',
      delayMs: 3_600_000,
      spent: null,
      failure: null,
      note: null,
    } as const
    await scene.store.reclaim({ reclaims: [{ key, attempt: 1, expect: 'expired', change }] })
    // No time goes by, so the worker has not learned by a renewal that the job is not its own any more.
    finish()
    const held = { type: 'held' }
    await until('the lost lease is counted', async () => (await scrape()).value('leases_lost_total', held) === 1)
    const metrics = await scrape()
    expect(metrics.value('jobs_completed_total', held)).toBe(0)
    expect(metrics.value('job_processing_duration_seconds_count', held)).toBe(0)
    expect((await scene.store.events({ id })).at(-1)).toMatchObject({ kind: 'lost', data: { write: 'close' } })
  })

  test('counters of several processes add up, and gauges are equal in each', async () => {
    const other = scene.newApp()
    declare(other)
    await submit()
    await submit({}, other)
    await submit({}, other)
    const [a, b] = [await scrape(), await scrape(other)]
    expect([a, b].map((one) => one.value('jobs_created_total', T))).toEqual([1, 2])
    const depth = { ...T, queue: 'pdf', state: 'ready' }
    expect([a, b].map((one) => one.value('queue_depth', depth))).toEqual([3, 3])
  })

  test('metrics show the state of each breaker and how long it was open [E22]', async () => {
    scene.app.job('guarded', {
      codes,
      classify,
      policy: { breaker: { guards: 'gateway', minCalls: 2, ratio: 0.5, cooldown: '30s' } },
      run: () => {
        throw Object.assign(new Error('answered 503'), { status: 503 })
      },
    })
    await scene.worker()
    expect((await scrape()).value('breaker_state', { breaker: 'gateway', state: 'closed' })).toBe(1)
    for (let i = 0; i < 5; i++) await scene.app.submit('guarded', {})
    for (let i = 0; i < 3; i++) await scene.pass(500)
    const opened = await scrape()
    expect(opened.value('breaker_state', { breaker: 'gateway', state: 'open' })).toBe(1)
    expect(opened.value('breaker_state', { breaker: 'gateway', state: 'closed' })).toBe(0)
    await scene.clock.advance(10_000)
    const later = await scrape()
    const name = 'breaker_open_seconds_total'
    const grown = Number(later.value(name, { breaker: 'gateway' })) - Number(opened.value(name, { breaker: 'gateway' }))
    expect(grown).toBe(10)
  })

  test('a type without aggregates has raw counters only [P60]', async () => {
    scene.app.job('proxx', {
      policy: { aggregates: false },
      run: (_: unknown, attempt) => attempt.stage('encode', {}, () => 1),
    })
    await scene.worker()
    await scene.app.submit('proxx', {})
    await scene.pass(0)
    const metrics = await scrape()
    expect(metrics.value('jobs_completed_total', { type: 'proxx' })).toBe(1)
    expect([...metrics.series.keys()].filter((key) => key.includes('duration') && key.includes('proxx'))).toEqual([])
    expect([...metrics.kinds.keys()].filter((name) => /(^|_)(rate|ratio|percent|quantile)/.test(name))).toEqual([])
  })

  test('a store that does not answer removes only its own metrics', async () => {
    await scene.worker()
    await submit()
    await scene.pass(0)
    await scene.store.stop()
    const metrics = await scrape()
    expect(metrics.value('store_up')).toBe(0)
    expect(metrics.value('jobs_completed_total', T)).toBe(1)
    expect(metrics.of('queue_depth')).toEqual([])
  })

  test('metrics read the store again only when that takes a small share of the time', async () => {
    let reads = 0
    const app = scene.newApp({
      store: {
        ...scene.store,
        depths: () => {
          reads++
          scene.clock.block(1_000)
          return scene.store.depths()
        },
      },
    })
    for (let i = 0; i < 10; i++) await app.metrics.text()
    expect(reads).toBe(1)
    await scene.clock.advance(20_000)
    await app.metrics.text()
    expect(reads).toBe(2)
  })

  test('an app can add its own metrics, and sees none of another app', async () => {
    const { Counter } = await import('prom-client')
    const mine = new Counter({ name: 'pages_total', help: 'Pages.', registers: [await scene.app.metrics.registry()] })
    mine.inc(7)
    expect((await scrape()).value('pages_total')).toBe(7)
    expect((await scrape(scene.newApp())).kinds.has('pages_total')).toBe(false)
  })
})

describe('log lines', () => {
  const FIELDS = [
    'event',
    'job_id',
    'type',
    'status',
    'attempt',
    'duration_ms',
    'error_code',
    'gateway_status',
    'breaker',
    'breaker_state',
    'trace_id',
  ]

  const lines = () => scene.log.lines.filter(({ fields }) => 'event' in fields)

  test('each attempt that ended has one log line with every field [E21]', async () => {
    await scene.worker({ onOutcome: outcomeLog(scene.log) })
    const id = await submit({ statuses: [503], ms: 1_200 })
    await scene.pass(0)
    await scene.pass(1_200)
    await scene.pass(60_000)
    await scene.pass(1_200)
    expect(lines().map(({ level, fields }) => ({ level, ...fields }))).toMatchObject([
      {
        level: 'warn',
        event: 'retry',
        job_id: id,
        type: 'pdf.convert',
        status: 'queued',
        attempt: 1,
        duration_ms: 1_200,
        error_code: 'GW_5XX',
        gateway_status: 503,
        breaker: null,
        breaker_state: null,
        retry_in_ms: 60_000,
      },
      { level: 'debug', event: 'complete', status: 'complete', attempt: 2, error_code: null, gateway_status: null },
    ])
    for (const { fields } of lines()) expect(Object.keys(fields)).toEqual(expect.arrayContaining(FIELDS))
  })

  test('a failure is logged as an error with its detail, and the level of a success can be set [E21]', async () => {
    await scene.worker({ onOutcome: outcomeLog(scene.log, { complete: 'info' }) })
    await submit({ statuses: [415] })
    await submit()
    await scene.pass(0)
    expect(lines().map(({ level, fields }) => [level, (fields as { event: string }).event])).toEqual([
      ['error', 'failed'],
      ['info', 'complete'],
    ])
    expect(lines()[0]?.fields).toMatchObject({
      error_code: 'GW_4XX',
      gateway_status: 415,
      detail: 'Error: answered 415',
    })
  })

  test('a log line has the breaker and its state when the type has one [E21]', async () => {
    scene.app.job('guarded', {
      codes,
      classify,
      policy: { breaker: { guards: 'gateway', minCalls: 2, ratio: 0.5, cooldown: '30s', mode: 'fail-fast' } },
      run: () => {
        throw Object.assign(new Error('answered 503'), { status: 503 })
      },
    })
    await scene.worker({ onOutcome: outcomeLog(scene.log), concurrency: 1, prefetchMax: 0 })
    for (let i = 0; i < 4; i++) await scene.app.submit('guarded', {})
    for (let i = 0; i < 6; i++) await scene.pass(500)
    const states = lines().map(({ fields }) => fields as { breaker: string; breaker_state: string; error_code: string })
    expect(states[0]).toMatchObject({ breaker: 'gateway', breaker_state: 'closed', error_code: 'GW_5XX' })
    expect(states.at(-1)).toMatchObject({ breaker: 'gateway', breaker_state: 'open', error_code: 'BREAKER_OPEN' })
  })
})
