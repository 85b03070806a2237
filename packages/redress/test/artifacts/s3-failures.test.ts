import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { S3Server } from '../../../../test/support/s3/server.ts'
import { turns, until } from '../../../../test/support/until.ts'
import type { ArtifactStore } from '../../src/artifacts/artifact-store.ts'
import { artifactStore } from '../../src/artifacts/open.ts'
import { type Facts, factsOf } from '../../src/core/failure/facts.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import { type Bench, PART_BYTES, s3Bench } from './benches.ts'
import { contentOf, refused, someBytes, streamOf } from './bytes.ts'

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

describe('failures can be told apart', () => {
  test.each([
    ['SlowDown', 503],
    ['AccessDenied', 403],
    ['InternalError', 500],
    ['RequestTimeout', 400],
  ])('%s is asked once, and its code and status are facts', async (code, status) => {
    for (const [operation, act] of [
      ['GetObject', () => store.get('k')],
      ['DeleteObject', () => store.remove('k')],
      ['ListObjectsV2', () => store.list()],
      ['PutObject', () => store.put('k', 'x')],
    ] as const) {
      server.plan({ kind: 'answer', status, code, headers: { 'retry-after': '7' } }, { operation })
      const asked = count(operation)
      const error = await refused('STORAGE_FAILED', act())
      expect(facts(error)).toMatchObject({ s3Code: code, httpStatus: status, retryAfterMs: 7000 })
      expect(error.message).toContain(`${code} (${status})`)
      expect(count(operation)).toBe(asked + 1)
    }
  })

  test('a store that refuses an upload before all of it was sent, and closes, is heard', async () => {
    const said = '<Error><Code>AccessDenied</Code><Message>no</Message></Error>'
    const early = createServer((socket) => {
      socket.on('error', () => undefined)
      socket.pause()
      const head = `HTTP/1.1 403 Forbidden\r\ncontent-type: application/xml\r\ncontent-length: ${said.length}`
      socket.write(`${head}\r\nconnection: close\r\n\r\n${said}`, () => socket.destroy())
    })
    early.listen(0, '127.0.0.1')
    await once(early, 'listening')
    const { port } = early.address() as AddressInfo
    const url = `s3://artifacts/?endpoint=${encodeURIComponent(`http://127.0.0.1:${port}`)}`
    const refusing = await artifactStore({ url, credentials: server.credentials })
    const error = await refused('STORAGE_FAILED', refusing.put('k', someBytes(3 * 2 ** 20)))
    expect(facts(error)).toMatchObject({ s3Code: 'AccessDenied', httpStatus: 403 })
    await refusing.close()
    early.close()
  })

  test('a bucket that is gone is not an artifact that is gone', async () => {
    server.buckets.clear()
    for (const act of [
      () => store.head('k'),
      () => store.get('k'),
      () => store.verify('k'),
      () => store.put('k', 'x'),
      () => store.put('k', 'x', { ifAbsent: true }),
      () => store.put('k', streamOf(someBytes(LARGE))),
      () => store.list(),
    ]) {
      const error = await refused('STORAGE_FAILED', act())
      expect(facts(error)).toMatchObject({ s3Code: 'NoSuchBucket', httpStatus: 404 })
    }
  })

  test('a wrong secret is refused by the signature', async () => {
    const credentials = { ...server.credentials, secretAccessKey: 'wrong' }
    const stranger = await bench.open({ credentials })
    const error = await refused('STORAGE_FAILED', stranger.put('k', 'x'))
    expect(facts(error)).toMatchObject({ s3Code: 'SignatureDoesNotMatch', httpStatus: 403 })
    expect(JSON.stringify([error, error.message])).not.toContain('wrong')
    await stranger.close()
  })

  test.each([
    [507, 'NameOfItsOwn'],
    [403, 'QuotaExceeded'],
  ])('a store that is full (%i %s) says so as a full disk does', async (status, code) => {
    server.plan({ kind: 'answer', status, code }, { operation: 'PutObject' })
    await refused('STORAGE_FULL', store.put('k', 'x'))
  })

  test('a refused connection is STORAGE_FAILED', async () => {
    const closed = createServer().listen(0, '127.0.0.1')
    await once(closed, 'listening')
    const { port } = closed.address() as { port: number }
    closed.close()
    await once(closed, 'close')
    const url = `s3://artifacts/?endpoint=${encodeURIComponent(`http://127.0.0.1:${port}`)}`
    const lonely = await artifactStore({ url, credentials: server.credentials })
    const error = await refused('STORAGE_FAILED', lonely.get('k'))
    expect(facts(error.cause).errno).toBe('ECONNREFUSED')
  })

  test('an answer that does not come in time is a timeout', async () => {
    const hasty = await bench.open({ s3: { requestTimeoutMs: 50 } })
    server.plan({ kind: 'hold' }, { operation: 'GetObject' })
    const error = await refused('STORAGE_FAILED', hasty.get('k'))
    expect(facts(error).isTimeout).toBe(true)
    await hasty.close()
  })
})

describe('a body', () => {
  const bytes = someBytes(2_000_000)
  beforeEach(async () => {
    await store.put('k', bytes)
  })

  test('that breaks off in the middle fails, and does not look like a short artifact', async () => {
    server.plan({ kind: 'cut-answer', afterBytes: 700_000 }, { operation: 'GetObject' })
    const { body } = await store.get('k')
    await refused('STORAGE_FAILED', buffer(body))
  })

  test('that breaks off before it is read does not end the process', async () => {
    server.plan({ kind: 'cut-answer', afterBytes: 10 }, { operation: 'GetObject' })
    const { body } = await store.get('k')
    body.on('error', () => undefined)
    await until('the broken connection was noticed', () => body.destroyed)
  })

  test('that falls silent is a timeout; one that is read slowly is not', async () => {
    const clock = new VirtualClock()
    const patient = await bench.open({ clock, s3: { idleTimeoutMs: 30_000 } })
    const slow = await patient.get('k')
    await until(
      'the body has as much as it may hold',
      () => slow.body.readableLength >= slow.body.readableHighWaterMark,
    )
    server.plan({ kind: 'fall-silent', afterBytes: 100_000 }, { operation: 'GetObject' })
    const silent = await patient.get('k')
    const reading = refused('STORAGE_FAILED', readAll(silent.body))
    await until('all that came was read', () => silent.body.readableLength === 0 && silent.body.readableDidRead)
    await turns(200)
    await clock.advance(120_000)
    const error = await reading
    expect(facts(error).isTimeout).toBe(true)
    expect(bytes.equals(await buffer(slow.body))).toBe(true)
    await patient.close()
  })

  test('that is destroyed gives its connection back', async () => {
    const { body } = await store.get('k')
    body.destroy()
    await once(body, 'close')
    expect((await contentOf(store, 'k')).length).toBe(bytes.length)
  })

  async function readAll(body: Readable): Promise<void> {
    for await (const _ of body);
  }
})
