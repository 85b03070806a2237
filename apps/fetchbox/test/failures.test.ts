import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { derivedId } from '../../../packages/redress/src/store/scripts/derived-id.ts'
import type { Shown } from '../../../test/support/apps/client.ts'
import { readTasks } from '../../../test/support/dead-letter-tasks.ts'
import { S3Server } from '../../../test/support/s3/server.ts'
import { forwardProxy } from '../../../test/support/servers/forward-proxy.ts'
import { answer } from '../../../test/support/servers/origin-server.ts'
import { temporaryFolder } from '../../../test/support/stores/sqlite.ts'
import { until } from '../../../test/support/until.ts'
import { CODES, categoryOf, failureInfo, isRetryable } from '../src/failures/failure.ts'
import { RESOURCE } from '../src/policy.ts'
import { Rig } from './rig.ts'

describe('the taxonomy', () => {
  test('every failure code belongs to one of the seven categories [F2 F23]', () => {
    expect(new Set(Object.keys(CODES).map(categoryOf))).toEqual(
      new Set(['validation', 'authorization', 'handler', 'download', 'upload', 'storage', 'system']),
    )
    expect(categoryOf('WORKER_LOST')).toBeNull()
  })

  test.each([
    ['dead-lettered at once', 'dead-letter', /^(VALIDATION_|AUTH_|HANDLER_ERROR|SYSTEM_(?!SPOOL_FULL))/],
    [
      'final',
      'never',
      /^(HANDLER_REFUSED|DOWNLOAD_(HTTP_4XX|HTTP_UNEXPECTED|TLS|TOO_|INVALID|URL|REDIRECT)|UPLOAD_(ACCESS|NO_|REF)|STORAGE_(NOT|COR))/,
    ],
    [
      'retried',
      'transient',
      /^(DOWNLOAD_(TIMEOUT|DNS|CONN|PROTO|HTTP_(408|429|499|5XX)|PROXY|INCOMPLETE|CHECK)|UPLOAD_(S3|THR|NET|IO|DISK|CHECK)|STORAGE_(UN|FULL)|SYSTEM_SPOOL_FULL)/,
    ],
  ])('the codes that are %s are exactly those with this classification [F7 F9 F10 F13 F20 F23]', (_, retry, codes) => {
    const found = Object.entries(CODES).filter(([, spec]) => spec.retry === retry)
    expect(found.map(([code]) => code).filter((code) => !codes.test(code))).toEqual([])
    expect(Object.keys(CODES).filter((code) => codes.test(code))).toHaveLength(found.length)
    for (const [code] of found) expect(isRetryable(code as keyof typeof CODES)).toBe(retry === 'transient')
  })

  test('a failure found by the engine has the same record shape and a SYSTEM_ code [F4]', () => {
    const lost = { code: 'WORKER_LOST', message: 'Its worker is gone.', attempt: 2, context: {} }
    const context = { proxy: null, attempt: 2, status: null }
    expect(failureInfo(lost)).toEqual({ code: 'SYSTEM_PANIC', message: 'Its worker is gone.', context })
  })
})

let rig: Rig
beforeAll(async () => {
  rig = await Rig.open()
})

async function letterOf(shown: Shown, of = rig): Promise<Shown> {
  return (await of.as('operator').get(`/api/dead-letters/${shown.deadLetter.offset}`)).json
}

describe('a download that keeps failing', () => {
  test('a download that keeps failing is tried up to its limit, then dead-lettered, and the job points to the letter [F8 F12 F18 F21]', async () => {
    const url = rig.origin.plan('/broken?token=hidden', answer(503, 'busy'))
    const shown = await rig.run([{ id: 'a', url }])
    expect(rig.origin.asked('/broken?token=hidden')).toBe(3)
    expect(shown).toMatchObject({ status: 'failed', resourcesFailed: 1, resourcesCompleted: 0, bytes: 0 })
    expect(shown.lastError).toEqual({
      code: 'DOWNLOAD_HTTP_5XX',
      message: expect.stringContaining('503'),
      context: { proxy: null, attempt: 3, status: 503 },
    })
    expect(JSON.stringify(shown)).not.toContain('hidden')
    expect(shown.deadLetter).toEqual({ topic: 'jobs.dlq', offset: expect.any(Number) })
    const [resource] = await rig.resources(shown.id)
    expect(resource).toMatchObject({
      status: 'failed',
      attempts: 3,
      error: shown.lastError,
      deadLetter: shown.deadLetter,
    })

    const letter = await letterOf(shown)
    expect(letter).toMatchObject({
      type: RESOURCE,
      queue: 'fetchbox',
      owner: 'ann',
      batchId: shown.id,
      // Three downloads are three, all within one attempt of the engine.
      attempts: 3,
      failure: {
        code: 'DOWNLOAD_HTTP_5XX',
        attempt: 1,
        context: { stage: { name: 'download', tries: 3, gaveUp: 'exhausted' } },
      },
      input: { job: shown.id, jobType: 'sample', resource: 'a', url },
    })
    const exported = await rig.as('operator').ask('/api/dead-letters/export?format=jsonl')
    expect(exported.text.split('\n').map((line) => (line === '' ? null : JSON.parse(line)))).toContainEqual(
      expect.objectContaining({ offset: letter.offset, attempts: 3 }),
    )
  })

  test('a dead letter increments the metrics counter of its type and code [F17 F24]', async () => {
    await rig.run([{ id: 'a', url: rig.origin.plan('/counted', answer(504)) }])
    const metrics = (await rig.as('operator').get('/metrics')).text
    const line = `dead_letters_total{type="${RESOURCE}",error_code="DOWNLOAD_HTTP_5XX"}`
    expect(
      Number(
        metrics
          .split('\n')
          .find((one) => one.startsWith(line))
          ?.split(' ')[1],
      ),
    ).toBeGreaterThanOrEqual(1)
  })

  test('the protobuf DeadLetterTask of a download has its task, code, message, attempts, time and context [F15 F16]', async () => {
    const url = rig.origin.plan('/exported', answer(503))
    const shown = await rig.run([{ id: 'a', url }])
    const letter = await letterOf(shown)
    const exported = await rig.as('operator').bytes(`/api/dead-letters/export?format=protobuf&type=${RESOURCE}`)
    const task = (await readTasks(exported)).find(({ offset }) => offset === letter.offset)
    expect(task).toMatchObject({
      task: { id: letter.jobId, type: RESOURCE, queue: 'fetchbox', owner: 'ann', batch: shown.id },
      payload: { job: shown.id, jobType: 'sample', resource: 'a', url },
      failureCode: 'DOWNLOAD_HTTP_5XX',
      failureMessage: letter.failure.message,
      attempts: 3,
      failedAtMs: Date.parse(letter.failure.at),
      metadata: { 'context.status': '503', 'context.attempt': '3' },
    })
  })

  test.each([
    ['a 404', answer(404), 'DOWNLOAD_HTTP_4XX', 404],
    [
      'a redirect to a private address',
      answer(302, '', { location: 'http://169.254.169.254/' }),
      'DOWNLOAD_REDIRECT_FORBIDDEN',
      null,
    ],
  ])('%s is requested once and fails permanently [F9]', async (_, script, code, status) => {
    const path = `/${code}`
    const shown = await rig.run([{ id: 'a', url: rig.origin.plan(path, script) }])
    expect(rig.origin.asked(path)).toBe(1)
    expect(shown.lastError).toMatchObject({ code, context: { attempt: 1, status } })
    expect((await letterOf(shown)).failure.code).toBe(code)
  })

  test('a job is partial when retries are exhausted and failed when one resource fails permanently [F19]', async () => {
    const fine = rig.origin.plan('/fine', answer(200, 'fine'))
    const busy = await rig.run([
      { id: 'a', url: fine },
      { id: 'b', url: rig.origin.plan('/busy', answer(500)) },
    ])
    expect(busy).toMatchObject({ status: 'partial', resourcesCompleted: 1, resourcesFailed: 1 })
    const gone = await rig.run([
      { id: 'a', url: fine },
      { id: 'b', url: rig.origin.plan('/gone', answer(410)) },
    ])
    expect(gone).toMatchObject({ status: 'failed', resourcesCompleted: 1, resourcesFailed: 1 })
    expect(gone.deadLetter.offset).toBeGreaterThan(busy.deadLetter.offset)
  })

  test('an operator explains a dead letter and replays it, and the job completes [F1]', async () => {
    const url = rig.origin.plan('/healed', answer(502))
    const shown = await rig.run([{ id: 'a', url }])
    expect(await rig.app.explain((await rig.resources(shown.id))[0].jobId)).toContain('download: 3 tries of 3, gave up')
    rig.origin.plan('/healed', answer(200, 'at last'))
    const replay = { code: 'DOWNLOAD_HTTP_5XX', reason: 'it is back', again: false }
    expect((await rig.as('operator').post('/api/dead-letters/replay', replay)).status).toBe(200)
    const healed = await until('it is complete', async () => {
      const now = await rig.snapshot(shown.id)
      return now.status === 'complete' && now.finalize?.status === 'complete' ? now : null
    })
    expect(healed).toMatchObject({
      resourcesTotal: 1,
      resourcesCompleted: 1,
      resourcesFailed: 0,
      lastError: null,
      bytes: 7,
    })
    expect((await rig.app.batches.find(shown.id))?.settlements).toBe(2)
    const content = await rig.as('ann').get(`/fetchbox/jobs/${shown.id}/resources/a/content`)
    expect(content.text).toBe('at last')
  })

  test('a replay of a job that was purged is refused, and changes nothing', async () => {
    const shown = await rig.run([{ id: 'a', url: rig.origin.plan('/purged-later', answer(404)) }])
    await rig.as('ann').delete(`/fetchbox/jobs/${shown.id}`)
    await until('it is purged', async () => (await rig.snapshot(shown.id)).purge?.status === 'complete')
    const path = `/api/dead-letters/${shown.deadLetter.offset}/replay`
    const { status, json } = await rig.as('operator').post(path, { reason: 'once more' })
    expect([status, json.error.code]).toEqual([409, 'RETRY_REFUSED'])
    expect(json.error.message).toContain('STORAGE_NOT_FOUND')

    // Somebody who has only the store in their hands asks nobody.
    rig.origin.plan('/purged-later', answer(200, 'it is back'))
    const [{ jobId }] = (await rig.resources(shown.id)) as [{ jobId: string }]
    const payload = JSON.stringify((await rig.app.perform('jobs.show', { id: jobId })).input)
    expect(await endOf(payload)).toMatchObject({ errorCode: 'STORAGE_NOT_FOUND', attemptCount: 1, deadLettered: true })
    expect((await rig.as('ann').get(`/fetchbox/jobs/${shown.id}/resources/a/content`)).status).not.toBe(200)
  })
})

describe('a task that should not have reached a worker', () => {
  const task = {
    job: '01a1e192-2107-7000-bf62-2db31d244af9',
    jobType: 'sample',
    resource: 'a',
    position: 0,
    url: 'https://example.org/',
  }
  test.each([
    ['an input that fits nothing', { url: 7 }, 'VALIDATION_INVALID_FIELD'],
    ['a type whose handler is gone', { ...task, jobType: 'gone' }, 'VALIDATION_UNKNOWN_JOB_TYPE'],
    ['an address inside', { ...task, url: 'http://127.0.0.1:1/' }, 'DOWNLOAD_URL_FORBIDDEN'],
  ])('a worker dead-letters a task at once when it has %s [F14]', async (_, payload, code) => {
    expect(await endOf(JSON.stringify(payload))).toMatchObject({ errorCode: code, attemptCount: 1, deadLettered: true })
  })

  test('an edited input is validated before a replay [F14]', async () => {
    const shown = await rig.run([{ id: 'a', url: rig.origin.plan('/edited', answer(404)) }])
    const path = `/api/dead-letters/${shown.deadLetter.offset}/replay`
    const { status, json } = await rig.as('operator').post(path, { reason: 'wrong', input: { url: 'x' } })
    expect([status, json.error.code]).toEqual([422, 'SUBMISSION_REFUSED'])
  })
})

test('each download try uses another proxy, which the record names [F8]', async () => {
  const proxies = await Promise.all([forwardProxy(), forwardProxy()])
  onTestFinished(async () => void (await Promise.all(proxies.map((proxy) => proxy.close()))))
  const file = join(temporaryFolder(), 'proxies.json')
  const pool = { pool: 'proxies/eu-primary', urls: proxies.map(({ url }) => url) }
  writeFileSync(file, JSON.stringify({ tiers: [[pool]] }))
  const proxied = await Rig.open({ env: { FETCHBOX_PROXIES: file } })
  const shown = await proxied.run([{ id: 'a', url: proxied.origin.plan('/via', answer(500)) }])
  expect(proxied.origin.asked('/via')).toBe(3)
  expect(shown.lastError.context).toEqual({ proxy: 'proxies/eu-primary#1', attempt: 3, status: 500 })
  expect(
    proxies.every(({ targets }) => targets.length > 0 && targets.every((one) => one === proxied.origin.address)),
  ).toBe(true)
})

describe('a storage that fails', () => {
  let s3: S3Server
  let stored: Rig
  beforeAll(async () => {
    s3 = await S3Server.start()
    const { accessKeyId, secretAccessKey } = s3.credentials
    const credentials = { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey }
    stored = await Rig.open({ env: { ...credentials, FETCHBOX_STORAGE: s3.storeUrl(), STORAGE_RETRY_LIMIT: '2' } })
  })
  afterAll(() => s3.stop())

  /** A job whose only upload is refused so often. Its key is known before it is submitted. */
  async function refusedUpload(code: string, status: number, times: number): Promise<Shown> {
    const idempotencyKey = `${code}-${times}`
    const key = `resources/sample/${derivedId('fetchbox', 'ann', idempotencyKey)}/a`
    s3.plan({ kind: 'answer', code, status }, { operation: 'PutObject', key, times })
    const url = stored.origin.plan('/up', answer(200, 'up'))
    return stored.run([{ id: 'a', url }], { 'idempotency-key': idempotencyKey })
  }

  test('a failing upload is retried up to its limit, a refused one is not; both end as dead letters [F10 F11 F12]', async () => {
    expect(await refusedUpload('SlowDown', 503, 1)).toMatchObject({ status: 'complete', bytes: 2 })
    const throttled = await refusedUpload('SlowDown', 503, 9)
    expect(throttled.lastError).toMatchObject({ code: 'UPLOAD_THROTTLED', context: { attempt: 2, status: 503 } })
    const denied = await refusedUpload('AccessDenied', 403, 9)
    expect(denied.lastError).toMatchObject({ code: 'UPLOAD_ACCESS_DENIED', context: { attempt: 1, status: 403 } })
    // One download for each: an upload that is tried again does not begin from the start.
    expect(stored.origin.asked('/up')).toBe(3)

    const exported = await stored.as('operator').bytes(`/api/dead-letters/export?format=protobuf&type=${RESOURCE}`)
    const tasks = await readTasks(exported)
    expect(tasks.map(({ failureCode }) => failureCode)).toEqual(['UPLOAD_THROTTLED', 'UPLOAD_ACCESS_DENIED'])
    // Tries of the upload, which is what failed: two where it was throttled, one where it was denied.
    expect(tasks.map(({ attempts }) => attempts)).toEqual([2, 1])
    expect(tasks[0]).toMatchObject({
      task: { type: RESOURCE, queue: 'fetchbox', owner: 'ann', batch: throttled.id },
      payload: { job: throttled.id, resource: 'a' },
      metadata: { 'context.status': '503', 'context.attempt': '2' },
    })
  })
})

/** What becomes of a job that came into the store without being looked at. */
async function endOf(payload: string) {
  const id = rig.app.newId()
  const common = {
    owner: null,
    priority: 0,
    delayMs: 0,
    dedupe: null,
    retriedFrom: null,
    rejected: null,
    batch: null,
  }
  await (await rig.app.store()).submit({ jobs: [{ id, type: RESOURCE, payload, limitKey: null, ...common }] })
  return until('it has ended', async () => {
    const found = await rig.app.jobs.find(id)
    return found?.status === 'failed' || found?.status === 'complete' ? found : null
  })
}
