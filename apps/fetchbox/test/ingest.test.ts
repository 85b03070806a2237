import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openSqlite } from '../../../packages/redress/src/store/sqlite/store.ts'
import type { Shown } from '../../../test/support/apps/client.ts'
import { S3Server } from '../../../test/support/s3/server.ts'
import { temporaryFolder } from '../../../test/support/stores/sqlite.ts'
import { until } from '../../../test/support/until.ts'
import { Rig } from './rig.ts'

const ROOT = mkdtempSync(join(tmpdir(), 'redress-fetchbox-'))
afterAll(() => rmSync(ROOT, { recursive: true, force: true }))

const pauses: number[] = []
let rig: Rig
beforeAll(async () => {
  // Nothing of it is fetched: what is tested ends where jobs begin.
  rig = await Rig.open({ isWorking: false, pauses })
})

const URL_OF = 'https://example.org/a'
const ONE = { resources: [{ id: 'a', url: URL_OF }] }
const one = (fields: object): object => ({ resources: [{ id: 'a', url: URL_OF, ...fields }] })

async function countJobs(): Promise<number> {
  return (await rig.app.perform('jobs.count', {})).count
}

/** The refusal, after a look that nothing came of what was refused. */
async function refused(body: unknown, headers: Record<string, string> = {}): Promise<Shown> {
  const before = await countJobs()
  const { status, json } = await rig.as('ann').submit(body, headers)
  expect(await countJobs()).toBe(before)
  return { status, ...json.error }
}

describe('an invalid request is refused at once', () => {
  const cases: Record<string, [body: unknown, code: string, problem: string]> = {
    'no object': [[], 'VALIDATION_INVALID_FIELD', 'body: must be an object'],
    'no resources': [{}, 'VALIDATION_MISSING_FIELD', 'resources: is missing'],
    'an empty list': [{ resources: [] }, 'VALIDATION_MISSING_FIELD', 'resources: must have at least one'],
    'no list': [{ resources: 'a' }, 'VALIDATION_INVALID_FIELD', 'resources: must be a list'],
    'too many': [
      { resources: Array.from({ length: 1_001 }, (_, i) => ({ id: `${i}`, url: URL_OF })) },
      'VALIDATION_TOO_MANY_RESOURCES',
      'has 1001 resources',
    ],
    'a resource that is none': [{ resources: [null] }, 'VALIDATION_INVALID_FIELD', 'resources[0]: must be an object'],
    'no id': [{ resources: [{ url: URL_OF }] }, 'VALIDATION_MISSING_FIELD', 'resources[0].id: is missing'],
    'a blank id': [one({ id: ' ' }), 'VALIDATION_MISSING_FIELD', 'resources[0].id: is empty'],
    'a number as id': [one({ id: 7 }), 'VALIDATION_INVALID_FIELD', 'resources[0].id: must be a text'],
    'a long id': [one({ id: 'ß'.repeat(65) }), 'VALIDATION_INVALID_FIELD', 'more than 128 bytes'],
    'an id with a line break': [one({ id: 'a\nb' }), 'VALIDATION_INVALID_FIELD', 'nobody can write'],
    'half a character as id': [one({ id: '\ud800' }), 'VALIDATION_INVALID_FIELD', 'nobody can write'],
    'the same id twice': [
      { resources: [...ONE.resources, ...ONE.resources] },
      'VALIDATION_DUPLICATE_ID',
      'resources[1].id: is that of resources[0], too',
    ],
    'no URL': [{ resources: [{ id: 'a' }] }, 'VALIDATION_MISSING_FIELD', 'resources[0].url: is missing'],
    'a path': [one({ url: '/etc/passwd' }), 'VALIDATION_INVALID_URL', 'resources[0].url: '],
    'another scheme': [one({ url: 'file:///etc/passwd' }), 'VALIDATION_INVALID_URL', 'Only http and https'],
    'a login': [one({ url: 'http://a:b@example.org/' }), 'VALIDATION_INVALID_URL', 'name or password'],
    'an address inside': [
      one({ url: 'http://169.254.169.254/latest' }),
      'VALIDATION_INVALID_URL',
      'may not be reached',
    ],
    'the loopback in disguise': [one({ url: 'http://0x7f.1/' }), 'VALIDATION_INVALID_URL', 'may not be reached'],
    'a closed port': [one({ url: 'https://example.org:22/' }), 'VALIDATION_INVALID_URL', 'Port 22'],
    'a header of ours': [one({ headers: { Host: 'x' } }), 'VALIDATION_FORBIDDEN_HEADER', 'resources[0].headers.Host'],
    'a header twice': [one({ headers: { 'X-A': '1', 'x-a': '2' } }), 'VALIDATION_FORBIDDEN_HEADER', 'is there twice'],
    'a line break in a header': [
      one({ headers: { 'X-A': 'a\r\nHost: b' } }),
      'VALIDATION_FORBIDDEN_HEADER',
      'characters that no header may have',
    ],
    'a number as header': [one({ headers: { 'X-A': 1 } }), 'VALIDATION_INVALID_FIELD', 'headers.X-A: must be a text'],
    'a short checksum': [one({ sha256: 'abc' }), 'VALIDATION_INVALID_FIELD', '64 hexadecimal digits'],
    'an unknown field': [one({ priority: 1 }), 'VALIDATION_INVALID_FIELD', 'resources[0].priority: is not a field'],
    'metadata that is a list': [{ ...ONE, metadata: [] }, 'VALIDATION_INVALID_FIELD', 'metadata: must be an object'],
    'much metadata': [{ ...ONE, metadata: { a: 'x'.repeat(40_000) } }, 'VALIDATION_INVALID_FIELD', '32768 characters'],
    'a NUL in metadata': [{ ...ONE, metadata: { a: ['\0'] } }, 'VALIDATION_INVALID_FIELD', 'metadata.a[0]: '],
  }
  test.each(Object.entries(cases))(
    'an invalid request is refused without a retry: %s [F3 F5]',
    async (_, [body, code, problem]) => {
      const { status, code: found, problems, message, action } = await refused(body)
      expect([status, found]).toEqual([400, code])
      expect(problems.join('\n')).toContain(problem)
      expect(message).not.toBe('')
      expect(action).not.toBe('')
    },
  )

  test('a refusal names every problem, not only the first [F5]', async () => {
    const { problems } = await refused({
      resources: [{ id: 'a', url: 'nonsense' }, { url: URL_OF }, { id: 'c', url: URL_OF, sha256: 1 }],
      metadata: 7,
      more: true,
    })
    expect(problems.map((problem: string) => problem.split(':')[0]).toSorted()).toEqual([
      'metadata',
      'more',
      'resources[0].url',
      'resources[1].id',
      'resources[2].sha256',
    ])
  })

  const raw: Record<string, [text: string, problem: string]> = {
    'no JSON': ['{"resources":', 'not valid JSON'],
    NaN: ['{"resources":[{"id":"a","url":NaN}]}', 'not valid JSON'],
    'a million brackets': ['['.repeat(1_000_000), 'more than 64 levels deep'],
    'a number without end': [`{"resources":[{"id":"a","url":"${URL_OF}"}],"metadata":{"n":1e999}}`, 'metadata.n'],
    'a name that means something': [
      `{"resources":[{"id":"a","url":"${URL_OF}"}],"metadata":{"a":{"__proto__":{"admin":true}}}}`,
      'metadata.a.__proto__',
    ],
  }
  test.each(Object.entries(raw))('an invalid body is refused: %s [F5]', async (_, [text, problem]) => {
    const { status, json } = await rig.as('ann').send('/fetchbox/jobs', text)
    expect(status).toBe(400)
    expect(JSON.stringify(json)).toContain(problem)
  })

  test('ids that mean something to the language are ids like others', async () => {
    const names = ['__proto__', 'constructor', 'toString', 'é', 'e\u0301', 'A', 'a', '..', 'a/../b', '💾']
    const id = await rig.submit(names.map((name) => ({ id: name, url: URL_OF, headers: { __Proto__: 'x' } })))
    expect((await rig.resources(id)).map((resource) => resource.id)).toEqual(names)
  })

  test('a body that is not UTF-8, and one that is not announced as JSON', async () => {
    const ann = rig.as('ann')
    expect((await ann.send('/fetchbox/jobs', Uint8Array.of(0x22, 0xff, 0x22))).json.error.message).toContain('UTF-8')
    const form = await ann.ask('/fetchbox/jobs', { method: 'POST', body: new URLSearchParams({ a: '1' }) })
    expect([form.status, form.json.error.code]).toEqual([415, 'VALIDATION_UNSUPPORTED_TYPE'])
  })

  test('a refusal is logged with its code', async () => {
    await rig.as('ann').submit({})
    await until('it is logged', async () =>
      rig.log.lines.some(
        ({ fields }) => fields.event === 'http_request' && fields.error_code === 'VALIDATION_MISSING_FIELD',
      ),
    )
  })

  test('an unknown type of job', async () => {
    const { status, code, message } = await refused(ONE, { 'x-fetchbox-job-type': 'nope' })
    expect([status, code]).toEqual([400, 'VALIDATION_UNKNOWN_JOB_TYPE'])
    expect(message).toContain('none of sample')
  })
})

describe('gzip', () => {
  test('is read, also in several members', async () => {
    const text = JSON.stringify(ONE)
    expect((await rig.as('ann').submitGzip(text)).status).toBe(202)
    const members = Buffer.concat([gzipSync(text.slice(0, 20)), gzipSync(text.slice(20))])
    const sent = await rig.as('ann').send('/fetchbox/jobs', members, { 'content-encoding': 'gzip' })
    expect(sent.status).toBe(202)
  })

  test('a body of more than 5 MB, plain or decompressed, is refused with 413', async () => {
    const bomb = Buffer.alloc(64 * 2 ** 20, ' ')
    const packed = gzipSync(bomb)
    expect(packed.byteLength).toBeLessThan(100_000)
    const before = process.memoryUsage().rss
    const { status, json } = await rig.as('ann').send('/fetchbox/jobs', packed, { 'content-encoding': 'gzip' })
    expect([status, json.error.code]).toEqual([413, 'VALIDATION_TOO_LARGE'])
    expect(process.memoryUsage().rss - before).toBeLessThan(48 * 2 ** 20)
    const plain = await rig.as('ann').send('/fetchbox/jobs', bomb.subarray(0, 5 * 2 ** 20 + 1))
    expect([plain.status, plain.json.error.code]).toEqual([413, 'VALIDATION_TOO_LARGE'])
    const fits = await rig.as('ann').send('/fetchbox/jobs', JSON.stringify(ONE).padEnd(5 * 2 ** 20, ' '))
    expect(fits.status).toBe(202)
  })

  test('malformed or truncated XML, and XML in another encoding, is refused', async () => {
    const packed = gzipSync(JSON.stringify(ONE))
    const broken = [packed.subarray(0, -9), Buffer.from('not gzip'), Buffer.alloc(0)]
    for (const bytes of broken) {
      const { status, json } = await rig.as('ann').send('/fetchbox/jobs', bytes, { 'content-encoding': 'gzip' })
      expect([status, json.error.code]).toEqual([400, 'VALIDATION_INVALID_JSON'])
    }
    const brotli = await rig.as('ann').send('/fetchbox/jobs', 'x', { 'content-encoding': 'br' })
    expect([brotli.status, brotli.json.error.code]).toEqual([415, 'VALIDATION_UNSUPPORTED_ENCODING'])
  })
})

describe('Idempotency-Key', () => {
  test('the same request is accepted once, however its fields are ordered; 20 at once make one', async () => {
    const bodies = Array.from({ length: 20 }, (_, i) =>
      i % 2 === 0
        ? '{"metadata":{"a":1,"b":2},"resources":[{"id":"a","url":"https://example.org/a"}]}'
        : '{ "resources": [{"url":"https://example.org/a","id":"a"}], "metadata": {"b":2,"a":1} }',
    )
    const ann = rig.as('ann')
    const before = await countJobs()
    const answers = await Promise.all(
      bodies.map((body) => ann.send('/fetchbox/jobs', body, { 'idempotency-key': 'twenty' })),
    )
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(19)
    expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1)
    expect(await countJobs()).toBe(before + 1)
    // Another tenant's key is another key.
    const bobs = await rig.as('bob').send('/fetchbox/jobs', bodies[0] as string, { 'idempotency-key': 'twenty' })
    expect([bobs.status, bobs.json.id === answers[0]?.json.id]).toEqual([202, false])
  })

  test('another request with the same key is refused with 409; of two at once, one is accepted', async () => {
    const ann = rig.as('ann')
    const key = { 'idempotency-key': 'k-1' }
    const answers = await Promise.all(['x', 'y'].map((id) => ann.submit(one({ id }), key)))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([202, 409])
    const loser = answers.find(({ status }) => status === 409)
    expect(loser?.json.error.code).toBe('VALIDATION_IDEMPOTENCY_KEY_REUSED')
    const winner = answers.find(({ status }) => status === 202)?.json.id
    const [resource] = await rig.resources(winner)
    const manifest = await rig.as('ann').get(`/fetchbox/jobs/${winner}`)
    expect(manifest.json.resourcesTotal).toBe(1)
    expect(['x', 'y']).toContain(resource.id)
  })

  test.each(['', 'with blank', 'x'.repeat(201), 'ü'])('%j is no key', async (key) => {
    const headers = { 'idempotency-key': Buffer.from(key, 'utf8').toString('latin1') }
    const { status, code } = await refused(ONE, headers)
    expect([status, code]).toEqual([400, 'VALIDATION_INVALID_FIELD'])
  })
})

describe('a failing storage', () => {
  let s3: S3Server
  let other: Rig
  const waited: number[] = []
  beforeAll(async () => {
    s3 = await S3Server.start()
    const { accessKeyId, secretAccessKey } = s3.credentials
    const env = {
      FETCHBOX_STORAGE: s3.storeUrl(),
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
    }
    other = await Rig.open({ isWorking: false, pauses: waited, env })
  })
  afterAll(() => s3.stop())

  const puts = () => s3.operations().filter((operation) => operation === 'PutObject').length

  test('an ingest retries a throttled storage 3 times with doubling waits, and the client sees no error [F6 F22]', async () => {
    const before = puts()
    s3.plan({ kind: 'answer', code: 'SlowDown', status: 503 }, { operation: 'PutObject', times: 2 })
    expect((await other.as('ann').submit(ONE)).status).toBe(202)
    expect(puts() - before).toBe(3)
    expect(waited.splice(0)).toEqual([100, 200])
  })

  test('an ingest answers 503 with Retry-After after 3 storage failures and accepts nothing [F6 F22]', async () => {
    s3.plan({ kind: 'answer', code: 'InternalError', status: 500 }, { operation: 'PutObject', times: 3 })
    const key = { 'idempotency-key': 'later' }
    const before = puts()
    const { status, json, headers } = await other.as('ann').submit(ONE, key)
    expect([status, json.error.code, headers.get('retry-after')]).toEqual([503, 'STORAGE_UNAVAILABLE', '5'])
    expect(puts() - before).toBe(3)
    expect((await other.as('ann').get('/fetchbox/jobs')).json.jobs).toHaveLength(1)
    expect((await other.as('ann').submit(ONE, key)).status).toBe(202)
    waited.length = 0
  })

  test('a write whose answer was lost counts: the existing manifest of the request is used', async () => {
    const key = { 'idempotency-key': 'lost' }
    s3.plan({ kind: 'lose-answer' }, { operation: 'PutObject' })
    const { status, json } = await other.as('ann').submit(ONE, key)
    expect(status).toBe(202)
    expect((await other.as('ann').submit(ONE, key)).json.id).toBe(json.id)
    waited.length = 0
  })

  test('an ingest does not retry when the storage refuses the credentials [F6]', async () => {
    s3.plan({ kind: 'answer', code: 'AccessDenied', status: 403 }, { operation: 'PutObject' })
    const { status, json } = await other.as('ann').submit(ONE)
    expect([status, json.error.code]).toEqual([503, 'STORAGE_UNAVAILABLE'])
    expect(waited).toEqual([])
    expect(JSON.stringify(json)).not.toMatch(/AccessDenied|127\.0\.0\.1/)
    expect(other.log.lines.some(({ fields }) => fields.event === 'ingest_trouble')).toBe(true)
  })

  test('an ingest tries an unwritable folder 3 times, then answers 503 [F6]', async () => {
    const storage = join(rig.folder, 'fetchbox/storage')
    const aside = join(temporaryFolder(), 'aside')
    cpSync(storage, aside, { recursive: true })
    rmSync(storage, { recursive: true })
    writeFileSync(storage, 'a file where a folder should be')
    pauses.length = 0
    const { status, json } = await rig.as('ann').submit(ONE)
    expect([status, json.error.code]).toEqual([503, 'STORAGE_UNAVAILABLE'])
    expect(json.error.message).not.toContain(storage)
    expect(pauses).toEqual([100, 200])
    rmSync(storage)
    cpSync(aside, storage, { recursive: true })
    expect((await rig.as('ann').submit(ONE)).status).toBe(202)
  })
})

describe('a failing store', () => {
  let locker: DatabaseSync
  let locked: Rig
  let release: (() => void) | null = null
  const waited: number[] = []
  beforeAll(async () => {
    const path = join(ROOT, 'redress.db')
    const pause = async (ms: number) => {
      waited.push(ms)
      release?.()
    }
    locked = await Rig.open({ isWorking: false, pause, store: openSqlite({ path, nowMs: Date.now, busyMsMax: 20 }) })
    locker = new DatabaseSync(path)
  })
  afterAll(() => locker?.close())

  test('an ingest retries a failing store within its 3 attempts [F6]', async () => {
    locker.exec('BEGIN IMMEDIATE')
    release = () => locker.exec('ROLLBACK')
    expect((await locked.as('ann').submit(ONE)).status).toBe(202)
    expect(waited.splice(0)).toEqual([100])
  })

  test('an ingest answers 503 when the store stays down and leaves nothing behind [F6]', async () => {
    locker.exec('BEGIN IMMEDIATE')
    release = null
    const key = { 'idempotency-key': 'while-locked' }
    const { status, json, headers } = await locked.as('ann').submit(ONE, key)
    expect([status, json.error.code, headers.get('retry-after')]).toEqual([503, 'SYSTEM_STORE_UNAVAILABLE', '5'])
    expect(waited.splice(0)).toEqual([100, 200])
    locker.exec('ROLLBACK')
    expect((await locked.as('ann').get('/fetchbox/jobs')).json.jobs).toHaveLength(1)
    expect((await locked.as('ann').submit(ONE, key)).status).toBe(202)
    expect((await locked.as('ann').submit(ONE, key)).status).toBe(200)
  })
})
