import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest'
import { smallDisk } from '../../../test/support/stores/small-disk.ts'
import { until } from '../../../test/support/until.ts'
import { GatewayProcess, pdfSaying, Rig } from './rig.ts'

let gateway: GatewayProcess
let hello: Uint8Array
beforeAll(async () => {
  gateway = await GatewayProcess.start()
  hello = await pdfSaying('Hello, operator')
})
afterEach(() => gateway.heal())
afterAll(() => gateway.stop())

const rig = (env: Record<string, string> = {}, more: { hasWorker?: boolean } = {}) =>
  Rig.open({ gatewayUrl: gateway.url, env, ...more })

test('an uploaded PDF goes from queued over processing to complete, and its XML can be downloaded [D27]', async () => {
  const made = await rig()
  const visitor = made.visitor()
  const { status, json, headers } = await visitor.upload(hello, { name: 'Annual report.PDF' })
  expect([status, json.status, json.type, json.attemptCount]).toEqual([201, 'queued', 'pdf.convert', 0])
  expect(headers.get('location')).toBe(`/api/jobs/${json.id}`)
  await made.until(json.id, 'complete')
  const answer = await visitor.download(json.id)
  expect(answer.headers.get('content-type')).toBe('application/xml; charset=utf-8')
  expect(answer.headers.get('content-disposition')).toContain('filename="Annual report.xml"')
  expect(answer.text).toContain('<paragraph>Hello, operator</paragraph>')
  expect((await visitor.job(json.id)).result).toMatchObject({ mapping: 'text@1', pages: 1, adopted: false })
  const { events } = (await visitor.ask(`/api/jobs/${json.id}/events`)).json
  expect(events.map(({ kind }: { kind: string }) => kind).filter((kind: string) => kind !== 'started')).toEqual([
    'queued',
    'processing',
    'complete',
  ])
})

test('a file that is not a PDF answers 400 NOT_PDF and is recorded as a failed job [D3 D35]', async () => {
  const made = await rig()
  const visitor = made.visitor()
  for (const content of ['just text, called report.pdf', '', 'x'.repeat(5_000)]) {
    const { status, json } = await visitor.upload(Buffer.from(content))
    expect([status, json.error.code, json.error.message]).toEqual([400, 'NOT_PDF', 'Only PDF files are supported.'])
    const job = await visitor.job(json.error.jobId)
    expect([job.status, job.errorCode, job.errorMessage]).toEqual([
      'failed',
      'NOT_PDF',
      'Only PDF files are supported.',
    ])
    expect(job.attemptCount).toBe(0)
    expect((await visitor.retry(job.id)).json.error.code).toBe('RETRY_REFUSED')
  }
  // A few bytes before the header are what readers put up with, too.
  expect((await visitor.upload(Buffer.concat([Buffer.from('\n\n'), hello]))).status).toBe(201)
  expect(made.files('uploads')).toHaveLength(1)
})

test('50 MB are accepted; one byte more answers 413 TOO_LARGE and leaves nothing [D3 D36]', async () => {
  const made = await rig({}, { hasWorker: false })
  const visitor = made.visitor()
  const largest = Buffer.concat([Buffer.from('%PDF-1.7\n'), Buffer.alloc(50 * 2 ** 20 - 9, 'x')])
  expect((await visitor.upload(largest)).status).toBe(201)
  const { status, json } = await visitor.upload(Buffer.concat([largest, Buffer.from('y')]))
  expect([status, json.error.code, json.error.message]).toEqual([413, 'TOO_LARGE', 'File exceeds 50 MB limit.'])
  expect(made.files('uploads')).toHaveLength(1)
  expect((await visitor.ask('/api/jobs')).json.jobs).toHaveLength(1)
})

test('413 TOO_LARGE is answered before the rest of the file arrives [D36]', async () => {
  const made = await rig({}, { hasWorker: false })
  const boundary = 'x-x'
  const head = `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n%PDF-1.7\n`
  const endless = new ReadableStream({
    start: (controller) => controller.enqueue(Buffer.from(head)),
    // Goes on until somebody answers; a server that waited for the end would never do so.
    pull: (controller) => controller.enqueue(Buffer.alloc(2 ** 20)),
  })
  const { status, json } = await made.visitor().ask('/api/upload', {
    method: 'POST',
    body: endless,
    headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
    ...({ duplex: 'half' } as object),
  })
  expect([status, json.error.code]).toEqual([413, 'TOO_LARGE'])
})

test.each([
  ['400', { status: 400 }],
  ['406', { status: 406 }],
  ['413', { status: 413 }],
  ['415', { status: 415 }],
])('a gateway answer %s is GW_4XX and is not retried [D7 D11 D37]', async (status, fault) => {
  const made = await rig()
  await gateway.faults(fault)
  const visitor = made.visitor()
  const id = await visitor.uploaded(hello)
  await made.until(id, 'failed')
  const job = await visitor.job(id)
  expect([job.errorCode, job.attemptCount, job.retryCount]).toEqual(['GW_4XX', 1, 0])
  expect(job.errorMessage).toMatch(/^Couldn’t convert this file with the selected mapping\./)
  const failed = await until('it is logged', () => made.lines('failed')[0])
  expect(failed.fields).toMatchObject({ job_id: id, error_code: 'GW_4XX', gateway_status: Number(status), attempt: 1 })
})

test("a document that the gateway cannot read is GW_4XX with the gateway's safe text [D25 D37]", async () => {
  const made = await rig()
  const visitor = made.visitor()
  const id = await visitor.uploaded(Buffer.from(`%PDF-1.7\n${'noise '.repeat(500)}`))
  await made.until(id, 'failed')
  const job = await visitor.job(id)
  expect([job.errorCode, job.attemptCount]).toEqual(['GW_4XX', 1])
  expect(job.errorMessage.length).toBeGreaterThan('Couldn’t convert this file with the selected mapping.'.length)
  expect(job.errorMessage).not.toMatch(/[/\\]\w+[/\\]|\bat \w+ \(|\n/)
})

test('while the gateway is down, jobs stay queued without spending attempts, and resume when it is back [D19 D21 D38 E3 E11 E12 E27]', async () => {
  const own = await GatewayProcess.start()
  const port = Number(new URL(own.url).port)
  const made = await Rig.open({
    gatewayUrl: own.url,
    env: { CIRCUIT_WINDOW: '2', RETRY_BASE_DELAY_MS: '60000' },
  })
  const visitor = made.visitor()
  // Until this process has offered to ask the gateway for its health, a job would be tried instead.
  await until('the probe is known', async () => (await breaker(made)).probe.isDeclared)
  await own.stop()
  const first = [await visitor.uploaded(await pdfSaying('one')), await visitor.uploaded(await pdfSaying('two'))]
  await until('the breaker opens', async () => (await breaker(made)).status === 'open')
  const later = await visitor.uploaded(hello)
  await until('it is held', async () => (await visitor.job(later)).held.length > 0)
  const held = await visitor.job(later)
  expect([held.status, held.attemptCount]).toEqual(['queued', 0])
  const again = await GatewayProcess.start(port)
  onTestFinished(() => again.stop())
  await made.until(later, 'complete')
  await until('the breaker closes', async () => (await breaker(made)).status === 'closed')
  expect((await visitor.job(later)).attemptCount).toBe(1)
  // Only the health probe calls a gateway that may be down: no job is dispatched before the breaker closes.
  const changes = await (await made.app.store()).breakerEvents({ name: 'gateway', afterSeq: 0, limit: 10 })
  expect([changes[0]?.kind, changes.at(-1)?.kind]).toEqual(['opened', 'closed'])
  const dispatched = (await made.app.jobs.events(later)).events.find(({ kind }) => kind === 'processing')
  expect(Date.parse(dispatched?.at ?? '')).toBeGreaterThanOrEqual(changes.at(-1)?.atMs ?? Number.NaN)
  const logged = made.log.lines.flatMap(({ fields }) => (fields.breaker === 'gateway' ? [fields.state] : []))
  expect(logged).toContain('open')
  // Those that met the gateway when it was down wait for their own retry, as their backoff says.
  for (const id of first) expect(await visitor.job(id)).toMatchObject({ status: 'queued', attemptCount: 1 })
})

test('in fail-fast mode new jobs fail with GW_5XX, and a manual retry succeeds when the gateway is back [D20 D38]', async () => {
  const made = await rig({
    CIRCUIT_MODE: 'fail-fast',
    CIRCUIT_WINDOW: '2',
    RETRY_MAX_ATTEMPTS: '1',
    CIRCUIT_COOLDOWN_MS: '60000',
  })
  const visitor = made.visitor()
  await gateway.faults({ status: 503, health: true })
  for (const word of ['one', 'two']) await made.until(await visitor.uploaded(await pdfSaying(word)), 'failed')
  await until('the breaker opens', async () => (await breaker(made)).status === 'open')
  const calls = (await (await fetch(`${gateway.url}/faults`)).json()) as { struck?: number }
  const id = await visitor.uploaded(hello)
  await made.until(id, 'failed')
  expect(await visitor.job(id)).toMatchObject({ errorCode: 'GW_5XX' })
  expect(((await (await fetch(`${gateway.url}/faults`)).json()) as { struck?: number }).struck).toBe(calls.struck)
  await gateway.heal()
  await made.app.perform('breakers.close', { name: 'gateway', actor: 'olga', reason: 'it is back' })
  expect((await visitor.retry(id)).status).toBe(200)
  await made.until(id, 'complete')
})

const breaker = async ({ app }: Rig) => await app.perform('breakers.show', { name: 'gateway' })

test('a gateway timeout is retried up to 3 attempts, then the job fails with GW_TIMEOUT [D7 D39 E16]', async () => {
  const made = await rig({ GATEWAY_TIMEOUT_MS: '100' })
  await gateway.faults({ delayMs: 60_000 })
  const visitor = made.visitor()
  const id = await visitor.uploaded(hello)
  await made.until(id, 'failed')
  const job = await visitor.job(id)
  expect([job.errorCode, job.attemptCount, job.maxAttempts]).toEqual(['GW_TIMEOUT', 3, 3])
  expect(job.errorMessage).toBe('Conversion took too long each time. Retry later, or split the file.')
  const { failures } = (await visitor.ask(`/api/jobs/${id}/failures`)).json
  expect(failures).toHaveLength(3)
})

test.each([
  ['hangs up before it answers', { drop: 'before' }],
  ['hangs up in the middle of its answer', { drop: 'during' }],
  ['answers 500', { status: 500 }],
  ['answers 502', { status: 502 }],
])('a gateway that %s is GW_5XX, retried, and the job completes when it recovers [D7 E7]', async (_, fault) => {
  const made = await rig()
  await gateway.faults({ ...fault, count: 2 })
  const visitor = made.visitor()
  const id = await visitor.uploaded(hello)
  await made.until(id, 'complete')
  expect((await visitor.job(id)).attemptCount).toBe(3)
  const { failures } = (await visitor.ask(`/api/jobs/${id}/failures`)).json
  expect(failures.map(({ code }: { code: string }) => code)).toEqual(['GW_5XX', 'GW_5XX'])
  expect(made.files('results')).toEqual([`${id}.xml`])
})

test('retries wait in the queue without a lease, as long as the backoff says, and none is early [D14 D15 D16 D28 E4 E5 E9 E26 E28]', async () => {
  const made = await rig({ RETRY_BASE_DELAY_MS: '300', RETRY_JITTER_MAX_MS: '0' })
  await gateway.faults({ status: 502 })
  const visitor = made.visitor()
  const id = await visitor.uploaded(hello)
  const waiting = await until('it waits for its retry', async () => {
    const job = await visitor.job(id)
    return job.status === 'queued' && job.retryAfter !== null && job
  })
  expect(waiting).toMatchObject({
    attemptCount: 1,
    errorCode: null,
    leaseUntil: null,
    lastAttemptAt: expect.any(String),
  })
  await made.until(id, 'failed')
  const events = (await made.app.jobs.events(id)).events
  const dueAt = events.flatMap(({ kind, data }) => (kind === 'retry' ? Date.parse(data.dueAt ?? '') : []))
  const begun = events.flatMap(({ kind, at }) => (kind === 'processing' ? Date.parse(at) : []))
  const failed = events.flatMap(({ kind, at }) => (kind === 'retry' ? Date.parse(at) : []))
  expect(begun).toHaveLength(3)
  for (const [i, due] of dueAt.entries()) {
    expect(due - (failed[i] ?? 0)).toBeGreaterThanOrEqual(300 * 2 ** i)
    expect(begun[i + 1]).toBeGreaterThanOrEqual(due)
  }
  const job = await visitor.job(id)
  expect([job.errorCode, job.attemptCount, job.failedAt]).toEqual(['GW_5XX', 3, expect.any(String)])
})

test('a result that cannot be written is retried once, then the job fails with IO_ERROR [D8 D40]', async (context) => {
  const disk = smallDisk(context)
  const made = await rig({ RESULTS_DIR: disk.folder })
  const visitor = made.visitor()
  execFileSync('mount', ['-o', 'remount,ro', disk.folder])
  const id = await visitor.uploaded(hello)
  await made.until(id, 'failed')
  const job = await visitor.job(id)
  expect([job.errorCode, job.attemptCount]).toEqual(['IO_ERROR', 2])
  expect(job.errorMessage).toBe('A storage issue kept us from finishing. Retry later.')
  execFileSync('mount', ['-o', 'remount,rw', disk.folder])
  await visitor.retry(id)
  await made.until(id, 'complete')
})

test('a full disk fails the job with IO_ERROR at once and leaves no partial XML [D8 D40 E16]', async (context) => {
  const disk = smallDisk(context)
  const made = await rig({ RESULTS_DIR: disk.folder })
  const visitor = made.visitor()
  disk.fill()
  const id = await visitor.uploaded(hello)
  await made.until(id, 'failed')
  expect(await visitor.job(id)).toMatchObject({ errorCode: 'IO_ERROR', attemptCount: 1 })
  expect((await visitor.download(id)).json.error.code).toBe('NOT_READY')
  disk.empty()
  await visitor.retry(id)
  await made.until(id, 'complete')
})

test('an upload that cannot be written answers 500 and is recorded as a failed job with IO_ERROR [D4]', async (context) => {
  const disk = smallDisk(context)
  const made = await rig({ UPLOADS_DIR: disk.folder })
  const visitor = made.visitor()
  disk.fill()
  const { status, json } = await visitor.upload(hello)
  expect([status, json.error.code]).toEqual([500, 'IO_ERROR'])
  expect(await visitor.job(json.error.jobId)).toMatchObject({ status: 'failed', errorCode: 'IO_ERROR' })
  disk.empty()
  // D6: sent again, it is taken.
  expect((await visitor.upload(hello)).status).toBe(201)
})

test('uploads are refused with 507 at the hard limit of the disk, and accepted jobs continue', async (context) => {
  const disk = smallDisk(context, '16m')
  const made = await rig({ UPLOADS_DIR: disk.folder, DISK_FREE_HARD_MB: '8' })
  const visitor = made.visitor()
  const before = await visitor.uploaded(hello)
  disk.fill({ butBytes: 4 * 2 ** 20 })
  const { status, json } = await visitor.upload(await pdfSaying('another'))
  expect([status, json.error.code]).toEqual([507, 'IO_ERROR'])
  expect(json.error.message).toContain('Uploads are paused')
  await made.until(before, 'complete')
  expect((await visitor.ask('/api/jobs')).json.jobs).toHaveLength(1)
})

test('a download answers 409 NOT_READY before completion and 404 EXPIRED after retention [D9 D10 D41 E23]', async () => {
  const made = await rig({ GATEWAY_TIMEOUT_MS: '30000' })
  const visitor = made.visitor()
  await gateway.faults({ delayMs: 60_000 })
  const id = await visitor.uploaded(hello)
  const early = await visitor.download(id)
  expect([early.status, early.json.error.code]).toEqual([409, 'NOT_READY'])
  expect(early.json.error.message).toBe('Conversion not finished yet.')
  await until('the gateway is asked', async () => (await visitor.job(id)).status === 'processing')
  expect((await visitor.download(id)).status).toBe(409)
  await visitor.ask(`/api/jobs/${id}/cancel`, post({ reason: 'a test' }))
  await made.until(id, 'cancelled')
  // Not before: a gateway that is well would have converted it while we looked.
  await gateway.heal()
  const done = await visitor.uploaded(hello)
  await made.until(done, 'complete')

  const monthAgo = new Date(Date.now() - 31 * 86_400_000)
  for (const path of [`results/${done}.xml`, `uploads/${done}.pdf`]) {
    utimesSync(join(made.folder, 'pdf-xml', path), monthAgo, monthAgo)
  }
  const { id: run } = await made.app.submit('pdf-xml.retention', {})
  await made.until(run, 'complete')
  expect((await made.app.jobs.find(run))?.result).toEqual({ sources: 1, results: 1 })
  const late = await visitor.download(done)
  expect([late.status, late.json.error.code]).toEqual([404, 'EXPIRED'])
  expect(late.json.error.message).toBe('File was removed by retention. Re-upload to regenerate.')
  const { events } = (await visitor.ask(`/api/jobs/${done}/events`)).json
  expect(events.filter(({ kind }: { kind: string }) => kind === 'expired')).toHaveLength(2)
  const anew = await visitor.uploaded(hello)
  await made.until(anew, 'complete')
  expect((await visitor.download(anew)).status).toBe(200)
})

test('retention removes nothing of a job that is under way', async () => {
  const made = await rig()
  await gateway.faults({ status: 503 })
  const visitor = made.visitor()
  await made.app.perform('queues.pause', { name: 'pdf-xml', actor: 'olga', reason: 'a test' })
  const id = await visitor.uploaded(hello)
  utimesSync(join(made.folder, `pdf-xml/uploads/${id}.pdf`), new Date(0), new Date(0))
  await gateway.heal()
  await made.app.perform('queues.resume', { name: 'pdf-xml', actor: 'olga', reason: 'a test' })
  const { id: run } = await made.app.submit('pdf-xml.retention', {}, { priority: 9 })
  await made.until(run, 'complete')
  await made.until(id, 'complete')
})

test('a conversion that an operator marks as failed is UNKNOWN for its owner in API, events, stream and page [D1 E2]', async () => {
  const made = await rig({ GATEWAY_TIMEOUT_MS: '600000' })
  const visitor = made.visitor()
  await gateway.faults({ delayMs: 600_000 })
  const id = await visitor.uploaded(hello)
  await made.until(id, 'processing')
  const leave = new AbortController()
  onTestFinished(() => leave.abort())
  const stream = await fetch(`${made.url}/api/events`, { headers: { cookie: visitor.cookie }, signal: leave.signal })
  const heard = (async () => {
    let text = ''
    for await (const chunk of stream.body as unknown as AsyncIterable<Uint8Array>) {
      text += Buffer.from(chunk).toString()
      if (/event: job\.failed\n.*\n\n/s.test(text)) return text
    }
    throw new Error(`the stream ended: ${text}`)
  })()
  await made.app.jobs.markFailed(id, { actor: 'olga', reason: 'its machine burnt down' })
  const message = 'Something went wrong that we did not foresee. Retry, or tell us.'
  expect(await visitor.job(id)).toMatchObject({ status: 'failed', errorCode: 'UNKNOWN', errorMessage: message })
  for (const path of ['', '/events', '/failures', '/explain']) {
    const { text } = await visitor.ask(`/api/jobs/${id}${path}`)
    expect(text, path).toContain('UNKNOWN')
    expect(text, path).not.toMatch(/MARKED_FAILED|burnt down|olga/)
  }
  const page = await visitor.ask('/convert')
  expect(page.text).toContain(message)
  expect(page.text).not.toContain('operator marked')
  expect(await heard).toContain('"errorCode":"UNKNOWN"')
  expect(await made.app.jobs.find(id)).toMatchObject({ errorCode: 'MARKED_FAILED' })
})

test('a manual retry clears the error, queues the job, increments manualRetryCount and completes [D22 D23 D42 E20]', async () => {
  const made = await rig()
  const visitor = made.visitor()
  await gateway.faults({ status: 500 })
  const id = await visitor.uploaded(hello)
  await made.until(id, 'failed')
  expect(await visitor.job(id)).toMatchObject({ errorCode: 'GW_5XX', attemptCount: 3 })
  await gateway.heal()
  await made.app.perform('queues.pause', { name: 'pdf-xml', actor: 'olga', reason: 'to look at it' })
  expect((await visitor.retry(id)).status).toBe(200)
  const queued = await visitor.job(id)
  expect(queued).toMatchObject({
    status: 'queued',
    errorCode: null,
    errorMessage: null,
    failedAt: null,
    manualRetryCount: 1,
  })
  await made.app.perform('queues.resume', { name: 'pdf-xml', actor: 'olga', reason: 'go on' })
  await made.until(id, 'complete')
  expect((await visitor.retry(id)).status).toBe(409)
})

test('only the owner can retry a job, and only while its source exists [D22 E20 E28]', async () => {
  const made = await rig()
  const [owner, other] = [made.visitor(), made.visitor()]
  await gateway.faults({ status: 400 })
  const id = await owner.uploaded(hello)
  await other.uploaded(await pdfSaying('mine'))
  await made.until(id, 'failed')
  const refused = await other.retry(id)
  expect([refused.status, refused.json.error.code]).toEqual([403, 'FORBIDDEN'])
  for (const { json } of [
    refused,
    await other.download(id),
    ...(await Promise.all(['', '/events', '/failures', '/explain'].map((path) => other.ask(`/api/jobs/${id}${path}`)))),
  ]) {
    expect(json.error).toMatchObject({ code: 'FORBIDDEN', message: 'This file isn’t yours.' })
  }
  expect((await other.ask(`/api/jobs/${id}`)).status).toBe(403)
  rmSync(join(made.folder, `pdf-xml/uploads/${id}.pdf`))
  const shown = (await owner.job(id)).actions.find(({ name }: { name: string }) => name === 'retry')
  expect(shown).toMatchObject({ allowed: false })
  expect(shown.why).toContain('File was removed by retention. Re-upload to regenerate.')
  const gone = await owner.retry(id)
  expect([gone.status, gone.json.error.code]).toEqual([404, 'EXPIRED'])
  expect(gone.json.error.message).toBe('File was removed by retention. Re-upload to regenerate.')
  expect((await owner.job(id)).status).toBe('failed')
})

test('the same file, owner and mapping return the existing job [D5 D6 D30]', async () => {
  const made = await rig()
  const [ann, bob] = [made.visitor(), made.visitor()]
  const first = await ann.uploaded(hello)
  const twin = await ann.upload(hello, { name: 'another name.pdf' })
  expect([twin.status, twin.json.id]).toEqual([200, first])
  await made.until(first, 'complete')
  expect((await ann.upload(hello)).json).toMatchObject({ id: first, status: 'complete' })
  expect(await ann.uploaded(hello, { mapping: 'layout' })).not.toBe(first)
  expect(await bob.uploaded(hello)).not.toBe(first)
  expect(made.files('uploads')).toHaveLength(3)
  // A failed one is no twin.
  await gateway.faults({ status: 400 })
  const failed = await ann.uploaded(await pdfSaying('fails'), { mapping: 'layout' })
  await made.until(failed, 'failed')
})

test('twenty equal uploads at the same time make one job [D6]', async () => {
  const made = await rig()
  const visitor = made.visitor()
  await visitor.upload(Buffer.from('no pdf: only to have a session'))
  const answers = await Promise.all(Array.from({ length: 20 }, () => visitor.upload(hello)))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
  expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1)
  expect(made.files('uploads')).toHaveLength(1)
})

test('an unknown mapping is refused as GW_4XX without a gateway call [E2]', async () => {
  const made = await rig()
  await gateway.faults({ status: 500 })
  for (const mapping of ['zork', 'text@99', 'text@', 'text@1@1']) {
    const { status, json } = await made.visitor().upload(hello, { mapping })
    expect([status, json.error.code], mapping).toEqual([400, 'GW_4XX'])
    expect(json.error).toMatchObject({
      message: 'Couldn’t convert this file with the selected mapping.',
      action: `There is no mapping "${mapping}". Choose one of text, layout, invoice.`,
    })
  }
  expect(((await (await fetch(`${gateway.url}/faults`)).json()) as { seen?: number }).seen ?? 0).toBe(0)
  expect(made.files('uploads')).toEqual([])
})

test('a complete result of an earlier attempt is adopted, and a truncated one is made again [D31]', async () => {
  const made = await rig({}, { hasWorker: false })
  const visitor = made.visitor()
  const [whole, broken] = [await visitor.uploaded(hello), await visitor.uploaded(hello, { mapping: 'layout' })]
  const folder = join(made.folder, 'pdf-xml/results')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${whole}.xml`), '<document>left by an attempt that nobody heard of</document>')
  writeFileSync(join(folder, `${broken}.xml`), '<document>cut of')
  await made.app.work({ pollMs: 20 })
  await Promise.all([whole, broken].map((id) => made.until(id, 'complete')))
  expect((await visitor.job(whole)).result).toMatchObject({ adopted: true, bytes: 60 })
  expect((await visitor.download(whole)).text).toContain('left by an attempt')
  expect((await visitor.job(broken)).result).toMatchObject({ adopted: false })
  expect(readFileSync(join(folder, `${broken}.xml`), 'utf8')).toContain('Hello')
})

const post = (body: object): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
})
