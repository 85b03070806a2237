import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { exponential } from '../../src/core/backoff.ts'
import { rule } from '../../src/core/classify.ts'
import { failures } from '../../src/core/taxonomy.ts'
import type { FailureView } from '../../src/core/view-history.ts'
import { type TestKit, testKit } from '../../src/testing/kit.ts'

/** What FetchBox asks of the engine: two stages with limits of their own, and a dead letter behind each. */
const DOWNLOAD_RETRY_LIMIT = 3
const STORAGE_RETRY_LIMIT = 3

const codes = failures({
  DOWNLOAD_TIMEOUT: { fault: 'dependency', retry: 'transient', message: 'The resource took too long.' },
  DOWNLOAD_HTTP_5XX: { fault: 'dependency', retry: 'transient', message: 'The resource’s server failed.' },
  DOWNLOAD_BUSY: { fault: 'dependency', retry: 'transient', message: 'The resource’s server is busy.' },
  DOWNLOAD_DNS: { fault: 'dependency', retry: 'transient', message: 'The resource’s host was not found.' },
  DOWNLOAD_HTTP_4XX: { fault: 'caller', retry: 'never', message: 'The resource was refused.' },
  DOWNLOAD_INVALID_URL: { fault: 'caller', retry: 'never', message: 'The address is not valid.' },
  DOWNLOAD_PROXY_EXHAUSTED: { fault: 'dependency', retry: 'transient', message: 'No proxy could fetch the resource.' },
  HANDLER_REFUSED: { fault: 'caller', retry: 'never', message: 'The handler refused the resource.' },
  UPLOAD_S3_ERROR: { fault: 'dependency', retry: 'transient', message: 'The storage failed.' },
  UPLOAD_NETWORK: { fault: 'dependency', retry: 'transient', message: 'The storage could not be reached.' },
  UPLOAD_DENIED: { fault: 'system', retry: 'never', message: 'The storage does not take it.' },
})

const download = [
  rule.http({ status: [408, 429, 499] }, 'DOWNLOAD_BUSY' as const),
  rule.http({ status: '5xx' }, 'DOWNLOAD_HTTP_5XX' as const),
  rule.http({ status: '4xx' }, 'DOWNLOAD_HTTP_4XX' as const),
  rule.errno(['ENOTFOUND', 'EAI_AGAIN'], 'DOWNLOAD_DNS' as const),
  rule.errno('ERR_INVALID_URL', 'DOWNLOAD_INVALID_URL' as const),
  rule.timeout('DOWNLOAD_TIMEOUT' as const),
]
const upload = [
  rule.s3(['AccessDenied', 'NoSuchBucket', 'InvalidBucketName'], 'UPLOAD_DENIED' as const),
  rule.s3(['SlowDown', 'ThrottlingException'], 'UPLOAD_S3_ERROR' as const),
  rule.http({ status: '5xx' }, 'UPLOAD_S3_ERROR' as const),
  rule.errno(['ECONNRESET', 'ECONNREFUSED', 'ETIMEDOUT'], 'UPLOAD_NETWORK' as const),
]

let kit: TestKit
/** What each try meets, in order; success when there is nothing left. */
let downloads: unknown[]
let uploads: unknown[]
let proxies: string[]
let uploadTimesMs: number[]

beforeEach(() => {
  kit = testKit()
  downloads = []
  uploads = []
  proxies = []
  uploadTimesMs = []
  kit.app.job('fetchbox.task', {
    codes,
    policy: { retry: { max: 5, backoff: exponential('1m') }, deadLetter: 'queue' },
    run: async (_: { url: string }, attempt) => {
      const body = await attempt.stage(
        'download',
        {
          max: DOWNLOAD_RETRY_LIMIT,
          timeout: '30s',
          classify: download,
          exhausted: 'fail',
          exhaustedCode: 'DOWNLOAD_PROXY_EXHAUSTED',
        },
        async (stage) => {
          const proxy = `proxies/eu-primary#${stage.number}`
          stage.context({ proxy })
          proxies.push(proxy)
          const met = downloads.shift()
          if (met === 'hang')
            await new Promise((_, reject) => stage.signal.addEventListener('abort', () => reject(stage.signal.reason)))
          if (met === 'refuse') stage.fail('HANDLER_REFUSED')
          if (met !== undefined) throw met
          return 'bytes'
        },
      )
      return attempt.stage(
        'upload',
        { max: STORAGE_RETRY_LIMIT, backoff: exponential('500ms'), classify: upload, exhausted: 'fail' },
        () => {
          uploadTimesMs.push(kit.clock.nowMs())
          const met = uploads.shift()
          if (met !== undefined) throw met
          return `stored ${body}`
        },
      )
    },
  })
})
afterEach(() => kit.stop())

const http = (status: number): Error => Object.assign(new Error(`answered ${status}`), { status })
const errno = (code: string): Error => Object.assign(new Error(code), { code })
/** As the AWS SDK throws them. */
const s3 = (name: string, status: number): Error =>
  Object.assign(new Error(name), { name, $fault: 'client', $metadata: { httpStatusCode: status } })

async function fetched() {
  const { id } = await kit.app.submit('fetchbox.task', { url: 'https://example.com/a' })
  await kit.drain()
  const job = await kit.app.find(id)
  const failed = await kit.app.failures(id)
  const letters = (await kit.app.perform('dead-letters.list', {})).deadLetters
  return { id, job, failed, letters }
}

/** F4: the record as FetchBox publishes it, from nothing but the stored failure. */
function recordOf({ code, message, context }: FailureView) {
  const stage = context.stage as { tries: number } | undefined
  return {
    code,
    message,
    context: { proxy: context.proxy, attempt: stage?.tries, status: context.httpStatus ?? null },
  }
}

describe('F4 the record of a failure', () => {
  test('has the proxy, the try and the status', async () => {
    downloads = [http(503), http(404)]
    const { failed } = await fetched()
    expect(failed.map(recordOf)).toEqual([
      {
        code: 'DOWNLOAD_HTTP_4XX',
        message: 'The resource was refused.',
        context: { proxy: 'proxies/eu-primary#2', attempt: 2, status: 404 },
      },
    ])
  })

  test('the status is null where there was no answer', async () => {
    downloads = ['hang', 'hang', 'hang']
    const { failed } = await fetched()
    expect(failed.map(recordOf)).toEqual([
      {
        code: 'DOWNLOAD_PROXY_EXHAUSTED',
        message: 'No proxy could fetch the resource.',
        context: { proxy: 'proxies/eu-primary#3', attempt: 3, status: null },
      },
    ])
  })
})

describe('F7-F9 downloading', () => {
  test.each([
    ['a timeout', 'hang'],
    ['a 500', http(500)],
    ['a 503', http(503)],
    ['a host that is not found', errno('ENOTFOUND')],
    ['a resolver that does not answer', errno('EAI_AGAIN')],
    ['F9 a 408', http(408)],
    ['F9 a 429', http(429)],
    ['F9 a 499', http(499)],
  ])('F7 %s is tried again, in the same attempt', async (_what, met) => {
    downloads = [met]
    const { job, failed } = await fetched()
    expect(job).toMatchObject({ status: 'complete', result: 'stored bytes', attemptCount: 1 })
    expect(failed).toEqual([])
  })

  test('F8 download_retry_limit tries per task, each through another proxy', async () => {
    downloads = [http(502), http(502), http(502), http(502)]
    const { job } = await fetched()
    expect(proxies).toEqual(['proxies/eu-primary#1', 'proxies/eu-primary#2', 'proxies/eu-primary#3'])
    expect(job).toMatchObject({ status: 'failed', attemptCount: 1 })
  })

  test.each([
    ['a 404', http(404), 'DOWNLOAD_HTTP_4XX'],
    ['a 403', http(403), 'DOWNLOAD_HTTP_4XX'],
    ['an invalid URL', errno('ERR_INVALID_URL'), 'DOWNLOAD_INVALID_URL'],
    ['a handler that refuses', 'refuse', 'HANDLER_REFUSED'],
  ])('F9 %s fails at once', async (_what, met, code) => {
    downloads = [met]
    const { job } = await fetched()
    expect(proxies).toHaveLength(1)
    expect(job).toMatchObject({ status: 'failed', attemptCount: 1, errorCode: code })
  })
})

describe('F10-F12 uploading, and the end', () => {
  test.each([
    ['a connection that breaks', errno('ECONNRESET')],
    ['a 500 of the storage', s3('InternalError', 500)],
    ['throttling', s3('SlowDown', 503)],
  ])('F10 %s is tried again', async (_what, met) => {
    uploads = [met]
    expect((await fetched()).job?.status).toBe('complete')
    expect(proxies).toHaveLength(1)
  })

  test.each(['AccessDenied', 'NoSuchBucket', 'InvalidBucketName'])('F10 %s is not', async (name) => {
    uploads = [s3(name, 403)]
    const { job } = await fetched()
    expect(job).toMatchObject({ status: 'failed', errorCode: 'UPLOAD_DENIED' })
    expect(uploadTimesMs).toHaveLength(1)
  })

  test('F11 storage_retry_limit tries, each wait twice as long as the one before', async () => {
    uploads = [s3('InternalError', 500), s3('InternalError', 500), s3('InternalError', 500), s3('InternalError', 500)]
    const { job } = await fetched()
    expect(uploadTimesMs.map((at) => at - (uploadTimesMs[0] as number))).toEqual([0, 500, 1_500])
    expect(job).toMatchObject({ status: 'failed', errorCode: 'UPLOAD_S3_ERROR', attemptCount: 1 })
  })

  test.each([
    ['download', 'DOWNLOAD_PROXY_EXHAUSTED'],
    ['upload', 'UPLOAD_S3_ERROR'],
  ])('F12 when the %s is exhausted there is a dead letter, and no further attempt', async (stage, code) => {
    if (stage === 'download') downloads = [http(500), 'hang', errno('ENOTFOUND')]
    else uploads = [s3('SlowDown', 503), errno('ECONNRESET'), s3('InternalError', 500)]
    const { id, job, letters, failed } = await fetched()
    expect(job).toMatchObject({ status: 'failed', deadLettered: true, attemptCount: 1, maxAttempts: 5 })
    expect(letters).toMatchObject([
      { jobId: id, attempts: 3, failure: { code, context: { stage: { name: stage, tries: 3 } } } },
    ])
    expect(failed[0]?.decision.rule).toBe(`stage ${stage}: exhausted = fail`)
  })

  test('F17 F24 the dead letter is counted', async () => {
    downloads = [http(500), http(500), http(500)]
    await fetched()
    expect(await kit.app.metrics.text()).toContain(
      'dead_letters_total{type="fetchbox.task",error_code="DOWNLOAD_PROXY_EXHAUSTED"} 1',
    )
  })
})
