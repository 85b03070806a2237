import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest'
import { VirtualClock } from '../../../packages/redress/src/runtime/clock.ts'
import { readExposition } from '../../../test/support/exposition.ts'
import { turns, until } from '../../../test/support/until.ts'
import { CODES } from '../src/codes.ts'
import { GatewayProcess, pdfSaying, Rig, type Shown } from './rig.ts'

let gateway: GatewayProcess
beforeAll(async () => {
  gateway = await GatewayProcess.start()
})
afterEach(() => gateway.heal())
afterAll(() => gateway.stop())

/** Answers only when it is told to. */
async function slowGateway(): Promise<{ url: string; answer: () => void }> {
  const told = Promise.withResolvers<void>()
  const server = createServer(async (request, response) => {
    request.resume()
    await told.promise
    response.writeHead(200, { 'content-type': 'application/xml', 'x-mapping': 'text@1', 'x-pages': '1' })
    response.end('<document/>')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, answer: told.resolve }
}

const open = (env: Record<string, string> = {}) => Rig.open({ gatewayUrl: gateway.url, env })

test('a conversion records job_event rows with attempt, gateway_http_status, duration_ms and error_code [D2 D27 D32 E23]', async () => {
  const rig = await open()
  const visitor = rig.visitor()
  await gateway.faults({ status: 502, count: 1 })
  const id = await visitor.uploaded(await pdfSaying('twice'))
  await rig.until(id, 'complete')
  const { status, json } = await visitor.ask(`/api/pdf-xml/jobs/${id}`)
  expect(status).toBe(200)
  const events: Shown[] = json.job_events
  expect(events.map(({ kind }) => kind)).toEqual(['queued', 'processing', 'retry', 'processing', 'complete'])
  for (const { meta, job_id, created_at } of events) {
    expect(Object.keys(meta).sort()).toEqual(['attempt', 'duration_ms', 'error_code', 'gateway_http_status'])
    expect([job_id, Date.parse(created_at) > 0]).toEqual([id, true])
  }
  expect(events[2]?.meta).toEqual({
    attempt: 1,
    gateway_http_status: 502,
    duration_ms: expect.any(Number),
    error_code: 'GW_5XX',
  })
  expect(events[4]?.meta).toMatchObject({ attempt: 2, gateway_http_status: 200, error_code: null })
  expect(json.job).toMatchObject({
    id,
    status: 'complete',
    original_name: 'report.pdf',
    mapping: 'text',
    attempt_count: 2,
    manual_retry_count: 0,
    retry_after: null,
    leased_by: null,
    lease_expires_at: null,
    failed_at: null,
    error_code: null,
    error_message: null,
    result_path: `${id}.xml`,
  })
})

test('started_at stays that of the first claim, and updated_at moves with each retry, claim and manual retry [D2 D16 D29 E9 E15 E20]', async () => {
  const rig = await open({ RETRY_BASE_DELAY_MS: '600000' })
  const visitor = rig.visitor()
  const record = async (id: string): Promise<Shown> => (await visitor.ask(`/api/pdf-xml/jobs/${id}`)).json.job
  await gateway.faults({ status: 500, count: 1 })
  const id = await visitor.uploaded(await pdfSaying('again'))
  await until('it waits for a retry', async () => (await rig.app.jobs.find(id))?.retryAfter != null)
  const waiting = await record(id)
  const events = (await rig.app.jobs.events(id)).events
  const at = (kind: string) => events.findLast((event) => event.kind === kind)?.at
  expect(waiting).toMatchObject({ status: 'queued', started_at: at('processing'), updated_at: at('retry') })
  expect(waiting).toMatchObject({ retry_after: expect.any(String), last_attempt_at: expect.any(String) })
  // D29: errors only when failed, leases only while processing.
  expect(waiting).toMatchObject({ error_code: null, error_message: null, leased_by: null, lease_expires_at: null })

  await gateway.faults({ status: 400, count: 1 })
  const other = await visitor.uploaded(await pdfSaying('refused'))
  await rig.until(other, 'failed')
  const failed = await record(other)
  expect(failed).toMatchObject({
    error_code: 'GW_4XX',
    error_message: expect.stringContaining('Couldn’t convert this file with the selected mapping.'),
    failed_at: failed.updated_at,
    result_path: null,
  })
  await visitor.retry(other)
  await rig.until(other, 'complete')
  const done = await record(other)
  expect(done.started_at).toBe(failed.started_at)
  expect(done.updated_at > failed.updated_at).toBe(true)
  expect(done).toMatchObject({ manual_retry_count: 1, error_code: null, failed_at: null })
})

test('the record is for the owner and for operators, and knows conversions only', async () => {
  const rig = await open()
  const [owner, other] = [rig.visitor(), rig.visitor()]
  const id = await owner.uploaded(await pdfSaying('mine'))
  await other.uploaded(await pdfSaying('theirs'))
  const denied = await other.ask(`/api/pdf-xml/jobs/${id}`)
  expect([denied.status, denied.json.error.code]).toEqual([403, 'FORBIDDEN'])
  expect(denied.json.error.message).toBe('This file isn’t yours.')
  expect((await rig.visitor().ask(`/api/pdf-xml/jobs/${id}`)).status).toBe(401)
  expect((await owner.ask('/api/pdf-xml/jobs/019a0000-0000-7000-8000-000000000000')).status).toBe(404)
})

test('API answers are in camelCase, the record has the column names, and one database holds both [E6]', async () => {
  const rig = await open()
  const visitor = rig.visitor()
  const id = await visitor.uploaded(await pdfSaying('names'))
  await rig.until(id, 'complete')
  const keys = (value: unknown): string[] =>
    Array.isArray(value)
      ? value.flatMap(keys)
      : value !== null && typeof value === 'object'
        ? Object.entries(value).flatMap(([key, inner]) => [key, ...keys(inner)])
        : []
  for (const path of ['/api/jobs', `/api/jobs/${id}`, `/api/jobs/${id}/events`, `/api/jobs/${id}/explain`]) {
    const named = keys((await visitor.ask(path)).json)
    expect(named.length, path).toBeGreaterThan(3)
    expect(
      named.filter((key) => !/^[a-z][a-zA-Z0-9]*$/.test(key)),
      path,
    ).toEqual([])
  }
  const record = keys((await visitor.ask(`/api/pdf-xml/jobs/${id}`)).json)
  expect(record).toEqual(expect.arrayContaining(['attempt_count', 'retry_after', 'leased_by', 'created_at']))
  expect(record.filter((key) => !/^[a-z][a-z0-9_]*$/.test(key))).toEqual([])
  expect(readdirSync(rig.folder).filter((name) => name.endsWith('.db'))).toEqual(['redress.db'])
})

test('the database finds due retries by an index and refuses a conversion whose columns do not fit its status [W38 D29 E10]', async () => {
  const rig = await open({ RETRY_BASE_DELAY_MS: '600000' })
  await gateway.faults({ status: 500, count: 1 })
  const id = await rig.visitor().uploaded(await pdfSaying('due later'))
  await until('it waits for a retry', async () => (await rig.app.jobs.find(id))?.retryAfter != null)
  const database = new DatabaseSync(join(rig.folder, 'redress.db'))
  const due = 'SELECT key FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL AND due_at <= 5'
  const plan = database.prepare(`EXPLAIN QUERY PLAN ${due}`).all() as { detail: string }[]
  expect(plan.map(({ detail }) => detail).join()).toMatch(/SEARCH jobs USING .*INDEX jobs_waiting/)
  for (const columns of [`result = '"x"'`, 'failure = 1', 'lease_until = 1, worker = 1', `status = 'processing'`]) {
    expect(() => database.exec(`UPDATE jobs SET ${columns}`), columns).toThrow('the_columns_fit_the_status')
  }
  database.close()
})

test('a long conversion keeps its lease, which its worker extends about every 30 s, and completes [D17 E1 E18 E27]', async () => {
  const [clock, slow] = [new VirtualClock(Date.now()), await slowGateway()]
  const rig = await Rig.open({ gatewayUrl: slow.url, clock, hasWorker: false, env: { GATEWAY_TIMEOUT_MS: '600000' } })
  const id = await rig.visitor().uploaded(await pdfSaying('long'))
  const worker = await rig.app.makeWorker({ pollMs: 2 ** 30 })
  const shown = async () => (await rig.app.jobs.find(id)) ?? expect.fail('the job is gone')
  await until('the gateway is called', async () => {
    await worker.tick()
    return (await shown()).status === 'processing'
  })
  const untils = new Set<number>()
  for (let second = 0; second < 180; second++) {
    await clock.advance(1_000, () => turns(3))
    await worker.tick()
    const job = await shown()
    expect(job).toMatchObject({ status: 'processing', worker: worker.id })
    const untilMs = Date.parse(job.leaseUntil ?? '')
    expect(untilMs).toBeGreaterThan(clock.nowMs())
    untils.add(untilMs)
  }
  const steps = [...untils].slice(1).map((ms, i) => ms - ([...untils][i] ?? 0))
  expect(steps.length).toBeGreaterThanOrEqual(5)
  for (const step of steps) expect(step).toBeCloseTo(30_000, -4)
  slow.answer()
  await until('it is complete', async () => {
    await worker.tick()
    return (await shown()).status === 'complete'
  })
  expect(await shown()).toMatchObject({ attemptCount: 1, worker: null, leaseUntil: null })
})

test('a worker that converted a document looks for the next one at once, and sleeps while there is none [E17]', async () => {
  const clock = new VirtualClock(Date.now())
  const rig = await Rig.open({ gatewayUrl: gateway.url, clock, hasWorker: false })
  const visitor = rig.visitor()
  const ids = [await visitor.uploaded(await pdfSaying('one')), await visitor.uploaded(await pdfSaying('two'))]
  const askedMs: number[] = []
  const store = await rig.app.store()
  const { claim } = store
  store.claim = (params) => {
    askedMs.push(clock.nowMs())
    return claim(params)
  }
  const worker = await rig.app.makeWorker({ concurrency: 1, prefetchMax: 0, pollMs: 1_500 })
  await worker.start()
  await until('the worker runs', async () => {
    await clock.advance(1_500, () => turns(5))
    return worker.held > 0
  })
  // From here on time stands still, and no sleep of the worker can end: it takes the second document right after the first.
  for (const id of ids) await rig.until(id, 'complete')
  await until('the worker finds nothing', () => worker.held === 0)
  askedMs.length = 0
  await clock.advance(6_000, () => turns(5))
  expect(askedMs.length).toBeGreaterThanOrEqual(4)
  expect(askedMs.length).toBeLessThanOrEqual(5)
})

test('metrics and log lines of conversions have the names, labels and fields of the documents [D1 D33 E21 E22]', async () => {
  const rig = await open({ CIRCUIT_WINDOW: '50' })
  const visitor = rig.visitor()
  await gateway.faults({ status: 502, count: 1 })
  const retried = await visitor.uploaded(await pdfSaying('retried'))
  await rig.until(retried, 'complete')
  await gateway.faults({ status: 400, count: 1 })
  const failed = await visitor.uploaded(await pdfSaying('failed'))
  await rig.until(failed, 'failed')
  await visitor.retry(failed)
  await rig.until(failed, 'complete')
  const metrics = readExposition(await rig.app.metrics.text())
  const type = 'pdf.convert'
  const counted = (name: string, labels = {}) => metrics.value(name, { type, ...labels })
  expect(counted('jobs_created_total')).toBe(2)
  expect(counted('jobs_completed_total')).toBe(2)
  expect(counted('jobs_failed_total', { error_code: 'GW_4XX' })).toBe(1)
  expect(counted('retries_scheduled_total', { error_code: 'GW_5XX' })).toBe(1)
  expect(counted('manual_retry_total')).toBe(1)
  expect(counted('queue_depth', { queue: 'pdf-xml', state: 'ready' })).toBe(0)
  expect(counted('jobs_active')).toBe(0)
  expect(counted('job_processing_duration_seconds_count')).toBe(4)
  // The histogram of the gateway's calls, from which a P95 is taken.
  expect(counted('stage_duration_seconds_count', { stage: 'gateway' })).toBe(4)
  expect(metrics.value('breaker_open_seconds_total', { breaker: 'gateway' })).toBe(0)

  const lines = rig.log.lines.filter(({ fields }) => fields.job_id === failed && fields.duration_ms !== undefined)
  expect(lines.map(({ fields }) => fields)).toMatchObject([
    { event: 'failed', status: 'failed', attempt: 1, gateway_status: 400, error_code: 'GW_4XX' },
    {
      event: 'complete',
      status: 'complete',
      attempt: 2,
      error_code: null,
      breaker: 'gateway',
      breaker_state: 'closed',
    },
  ])
  const codes = rig.log.lines.flatMap(({ fields }) =>
    typeof fields.error_code === 'string' ? [fields.error_code] : [],
  )
  expect(codes.filter((code) => !Object.hasOwn(CODES, code))).toEqual([])
})

test('the ten codes are the only ones, each with its fixed one-line text [D1 D25]', () => {
  const texts = Object.fromEntries(
    Object.entries(CODES).map(([code, { waiting, message }]) => [code, waiting ?? message]),
  )
  expect(texts).toEqual({
    NOT_PDF: 'Only PDF files are supported.',
    TOO_LARGE: 'File exceeds 50 MB limit.',
    GW_4XX: 'Couldn’t convert this file with the selected mapping.',
    GW_5XX: 'Converter service is having an issue. We’ll retry shortly.',
    GW_TIMEOUT: 'Conversion is taking too long. We’ll retry.',
    IO_ERROR: 'Temporary storage issue. We’ll retry.',
    NOT_READY: 'Conversion not finished yet.',
    EXPIRED: 'File was removed by retention. Re-upload to regenerate.',
    FORBIDDEN: 'This file isn’t yours.',
    UNKNOWN: expect.stringMatching(/^[^\n]+$/),
  })
})
