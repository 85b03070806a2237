import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { S3Server } from '../../../../test/support/s3/server.ts'
import { turns, until } from '../../../../test/support/until.ts'
import type { ArtifactStore } from '../../src/artifacts/artifact-store.ts'
import { type Facts, factsOf } from '../../src/core/failure/facts.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import { type Bench, PART_BYTES, s3Bench } from './benches.ts'
import { contentOf, keysOf, refused, sha256, someBytes, streamOf } from './bytes.ts'

let bench: Bench & { server: S3Server }
let server: S3Server
let store: ArtifactStore

beforeEach(async () => {
  bench = await s3Bench()
  server = bench.server
  store = await bench.open()
})
afterEach(async () => {
  server.release()
  await store.close()
  await bench.stop()
})

const LARGE = 3 * PART_BYTES + 1
const facts = (error: unknown): Facts => factsOf(error, 'execution')
const count = (operation: string) => server.operations().filter((name) => name === operation).length

describe('a large artifact', () => {
  test('goes in parts, small ones in one request', async () => {
    await store.put('small', streamOf(someBytes(PART_BYTES)))
    expect(server.operations()).toEqual(['PutObject'])
    await store.put('large', streamOf(someBytes(LARGE)))
    expect(count('UploadPart')).toBe(4)
    expect(count('CompleteMultipartUpload')).toBe(1)
    // Every byte was covered by a checksum of ours on the way.
    const withBody = server.requests.filter(({ method, operation }) => method === 'PUT' || operation === 'UploadPart')
    expect(withBody.every(({ headers }) => headers['x-amz-checksum-sha256'] !== undefined)).toBe(true)
  })

  test('has its checksum in its head if it was announced, and is verified by its parts if not', async () => {
    const bytes = someBytes(LARGE)
    await store.put('announced', streamOf(bytes), { sha256: sha256(bytes) })
    await store.put('not', streamOf(bytes))
    expect((await store.head('announced')).sha256).toBe(sha256(bytes))
    expect((await store.head('not')).sha256).toBeNull()
    expect((await store.verify('not')).verdict).toBe('intact')
  })

  test('holds no more parts in memory than it may have on the way', async () => {
    server.plan({ kind: 'hold' }, { operation: 'UploadPart', times: 2 })
    let given = 0
    async function* source() {
      for (; given < 10; given++) yield someBytes(PART_BYTES)
    }
    const putting = store.put('k', source())
    await until('two parts are on the way', () => server.heldCount === 2)
    await turns()
    // Two parts on the way, one full and waiting, and the chunk that showed that it is not the last.
    expect(given).toBeLessThanOrEqual(4)
    server.release()
    expect((await putting).bytes).toBe(10 * PART_BYTES)
  })
})

describe('a broken upload leaves no parts', () => {
  afterEach(async () => {
    expect(bench.leftovers()).toEqual([])
    expect(await keysOf(store)).toEqual([])
  })

  test('when a part is refused, and stops reading the source', async () => {
    server.plan({ kind: 'answer', status: 503, code: 'SlowDown' }, { operation: 'UploadPart', partNumber: 2 })
    let isClosed = false
    async function* endless() {
      try {
        for (;;) yield someBytes(PART_BYTES)
      } finally {
        isClosed = true
      }
    }
    const error = await refused('STORAGE_FAILED', store.put('k', endless()))
    expect(facts(error)).toMatchObject({ s3Code: 'SlowDown', httpStatus: 503 })
    await until('the source was closed', () => isClosed)
  })

  test('when a part is refused while the source is silent', async () => {
    server.plan({ kind: 'answer', status: 500, code: 'InternalError' }, { operation: 'UploadPart' })
    async function* source() {
      yield someBytes(PART_BYTES + 1)
      await new Promise(() => undefined)
    }
    await refused('STORAGE_FAILED', store.put('k', source()))
  })

  test('when the connection is cut in the middle of a part', async () => {
    server.plan({ kind: 'cut-request', afterBytes: 100_000 }, { operation: 'UploadPart', partNumber: 3 })
    const error = await refused('STORAGE_FAILED', store.put('k', streamOf(someBytes(LARGE))))
    expect(facts(error)).toMatchObject({ s3Code: null, httpStatus: null })
    expect(facts(error.cause).errno).toMatch(/ECONNRESET|EPIPE/)
  })

  test('when the last step is refused', async () => {
    server.plan({ kind: 'answer', status: 403, code: 'AccessDenied' }, { operation: 'CompleteMultipartUpload' })
    await refused('STORAGE_FAILED', store.put('k', streamOf(someBytes(LARGE))))
  })

  test('when the signal is aborted while parts are on the way', async () => {
    server.plan({ kind: 'hold' }, { operation: 'UploadPart', times: 2 })
    const stop = new AbortController()
    const putting = store.put('k', streamOf(someBytes(LARGE)), { signal: stop.signal })
    putting.catch(() => undefined)
    await until('two parts are on the way', () => server.heldCount === 2)
    stop.abort(new Error('the attempt is over'))
    await expect(putting).rejects.toThrow('the attempt is over')
  })

  test('also when removing them fails at first', async () => {
    server.plan({ kind: 'answer', status: 403, code: 'AccessDenied' }, { operation: 'CompleteMultipartUpload' })
    server.plan({ kind: 'lose-answer' }, { operation: 'ListParts' })
    server.plan({ kind: 'answer', status: 503, code: 'SlowDown' }, { operation: 'AbortMultipartUpload' })
    const error = await refused('STORAGE_FAILED', store.put('k', streamOf(someBytes(LARGE))))
    // What went wrong is told, not what went wrong in cleaning up.
    expect(facts(error).s3Code).toBe('AccessDenied')
  })
})

test('parts that could not be removed are logged, and swept when they are a day old', async () => {
  const warnings: object[] = []
  const log = { debug() {}, info() {}, error() {}, warn: (fields: object) => void warnings.push(fields) }
  const clock = new VirtualClock(Date.now())
  const logged = await bench.open({ log, clock })
  server.plan({ kind: 'answer', status: 403, code: 'AccessDenied' }, { operation: 'CompleteMultipartUpload' })
  server.plan({ kind: 'answer', status: 503, code: 'SlowDown' }, { operation: 'AbortMultipartUpload', times: 3 })
  await refused('STORAGE_FAILED', logged.put('k', streamOf(someBytes(LARGE))))
  expect(warnings).toEqual([{ key: 'k', upload_id: expect.any(String) }])
  expect(bench.leftovers()).toEqual(['some/prefix/k: 4 parts'])
  expect(await logged.sweep()).toEqual({ removed: 0 })
  await clock.advance(25 * 3_600_000)
  expect(await logged.sweep()).toEqual({ removed: 1 })
  expect(bench.leftovers()).toEqual([])
  await logged.close()
})

describe('an answer that is lost', () => {
  test.each([
    ['PutObject', 100],
    ['CompleteMultipartUpload', LARGE],
  ])('of %s: what is there now says that it was done', async (operation, length) => {
    server.plan({ kind: 'lose-answer' }, { operation })
    const bytes = someBytes(length)
    const stored = await store.put('k', streamOf(bytes), { ifAbsent: true })
    expect(stored).toEqual({ key: 'k', bytes: length, sha256: sha256(bytes) })
    expect(bytes.equals(await contentOf(store, 'k'))).toBe(true)
    expect(bench.leftovers()).toEqual([])
  })

  test('that was not done is a failure, though an older artifact is there', async () => {
    await store.put('k', 'older')
    server.plan({ kind: 'cut-request', afterBytes: 1 }, { operation: 'PutObject' })
    await refused('STORAGE_FAILED', store.put('k', 'newer'))
    expect((await contentOf(store, 'k')).toString()).toBe('older')
  })
})

describe('conditions', () => {
  test('a store that knows no conditional removal still removes what is old', async () => {
    const clock = new VirtualClock(Date.now() + 10_000)
    const aged = await bench.open({ clock })
    await store.put('a', 'x')
    server.plan({ kind: 'answer', status: 501, code: 'NotImplemented' }, { operation: 'DeleteObject' })
    expect((await aged.removeOlderThan({ olderThanMs: 1000 })).removed).toBe(1)
    expect(await keysOf(store)).toEqual([])
    await aged.close()
  })

  test('objects of other programs are neither listed nor removed', async () => {
    bench.plant('not a key of ours', 'x')
    bench.plant('.hidden', 'x')
    await store.put('ours', 'x')
    expect(await keysOf(store)).toEqual(['ours'])
    const aged = await bench.open({ clock: new VirtualClock(Date.now() + 10_000) })
    expect((await aged.removeOlderThan({ olderThanMs: 1000 })).removed).toBe(1)
    expect(server.bucket().objects.size).toBe(2)
    await aged.close()
  })
})

test('requests go only where the configuration says, whatever the environment suggests', async () => {
  const lure = { AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:9', AWS_ENDPOINT_URL: 'http://127.0.0.1:9', AWS_REGION: 'x-1' }
  const secrets = {
    AWS_ACCESS_KEY_ID: 'OTHER',
    AWS_SECRET_ACCESS_KEY: 'other',
    AWS_PROFILE: 'none',
    AWS_MAX_ATTEMPTS: '9',
  }
  const before = { ...process.env }
  Object.assign(process.env, lure, secrets)
  onTestFinished(() => {
    for (const name of Object.keys({ ...lure, ...secrets })) delete process.env[name]
    Object.assign(process.env, before)
  })
  const here = await bench.open()
  await here.put('k', 'x')
  expect(server.requests.at(-1)?.headers.authorization).toContain('Credential=TESTKEY/')
  server.plan({ kind: 'answer', status: 503, code: 'SlowDown' }, { operation: 'GetObject', times: 9 })
  await refused('STORAGE_FAILED', here.get('k'))
  expect(count('GetObject')).toBe(1)
  await here.close()
})

test('credentials may be asked for, each time they are needed', async () => {
  const rotating = await bench.open({ credentials: async () => server.credentials })
  await rotating.put('k', 'x')
  expect((await contentOf(rotating, 'k')).toString()).toBe('x')
  await rotating.close()
})

test('opening sends nothing', () => {
  expect(server.requests).toEqual([])
})
