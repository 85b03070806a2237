import { createHash } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  answer,
  chunked,
  deadPort,
  endless,
  lying,
  OriginServer,
  redirect,
} from '../../../../test/support/servers/origin-server.ts'
import { until } from '../../../../test/support/until.ts'
import { isRetryable } from '../../src/failures/failure.ts'
import { LIMITS, type Rig, rig } from './rig.ts'

let origin: OriginServer
let other: OriginServer
let closedPort: number
let box: Rig
const NOW_MS = Date.UTC(2026, 0, 1)
const addresses = (): string[] => [origin.address, other.address, `127.0.0.1:${closedPort}`]

async function lookup(host: string): Promise<{ address: string; family: 4 }[]> {
  if (host === 'origin.example') return [{ address: '127.0.0.1', family: 4 }]
  if (host === 'inside.example') return [{ address: '10.1.2.3', family: 4 }]
  throw Object.assign(new Error('no such name'), { code: host === 'busy.example' ? 'EAI_AGAIN' : 'ENOTFOUND' })
}

beforeAll(async () => {
  origin = await OriginServer.start()
  other = await OriginServer.start()
  closedPort = await deadPort()
  box = await rig({ outbound: { allow: addresses(), lookup }, nowMs: () => NOW_MS })
})
afterAll(async () => {
  await box.stop()
  await origin.stop()
  await other.stop()
})
// Of every test here, whether it went well or not: the work folder is as it was.
afterEach(() => expect(box.left()).toEqual([]))

const sha256 = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex')

/** The same origin with limits of its own. */
async function within(limits: Partial<typeof LIMITS>, use: (box: Rig) => Promise<void>): Promise<void> {
  const own = await rig({ outbound: { allow: addresses() }, limits: { ...LIMITS, ...limits } })
  try {
    await use(own)
    expect(own.left()).toEqual([])
  } finally {
    await own.stop()
  }
}

describe('uploads to the gateway', () => {
  test('is held with its length, checksum and type, and can be read more than once', async () => {
    const url = origin.plan('/a', answer(200, 'hello', { 'content-type': 'text/plain; charset=utf-8' }))
    const spooled = await box.get(url)
    expect(spooled).toMatchObject({
      bytes: 5,
      sha256: sha256('hello'),
      contentType: 'text/plain; charset=utf-8',
      contentEncoding: null,
      status: 200,
      proxy: null,
      redirects: 0,
    })
    expect([await text(spooled.open()), await text(spooled.open())]).toEqual(['hello', 'hello'])
    await spooled.remove()
  })

  test('may be empty, in chunks, or ended by the end of the connection', async () => {
    origin.plan('/empty', answer(200, ''))
    origin.plan('/204', answer(204))
    origin.plan('/chunks', chunked(['one ', 'two ', 'three'], 'stay', true))
    origin.plan('/close', { send: ['HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nto the end'], ends: 'end' })
    const found: string[] = []
    for (const path of ['/empty', '/204', '/chunks', '/close']) {
      const spooled = await box.get(origin.url(path))
      found.push(await text(spooled.open()))
      expect(spooled.sha256).toBe(sha256(found.at(-1) as string))
      await spooled.remove()
    }
    expect(found).toEqual(['', '', 'one two three', 'to the end'])
  })

  test('is asked for plain, and kept as it was sent when it comes encoded all the same', async () => {
    const zipped = gzipSync('a'.repeat(1000))
    const url = origin.plan('/zip', answer(200, zipped, { 'content-encoding': 'gzip' }))
    const spooled = await box.get(url)
    expect(origin.requests.at(-1)?.headers['accept-encoding']).toBe('identity')
    expect(spooled).toMatchObject({ bytes: zipped.byteLength, sha256: sha256(zipped), contentEncoding: 'gzip' })
    await spooled.remove()
  })

  test('a task sends its own headers, whose names win over ours; a stranger gets none of them', async () => {
    const elsewhere = other.plan('/there', answer(200, 'x'))
    const url = origin.plan('/headers', redirect(elsewhere))
    const headers = { Authorization: 'Bearer abc', 'X-Own': '1', 'USER-AGENT': 'mine' }
    await (await box.get({ url, headers })).remove()
    expect(origin.requests.at(-1)?.headers).toMatchObject({
      authorization: 'Bearer abc',
      'x-own': '1',
      'user-agent': 'mine',
    })
    expect(other.requests.at(-1)?.headers).not.toHaveProperty('authorization')
    expect(other.requests.at(-1)?.headers).not.toHaveProperty('x-own')
  })

  test('has the announced checksum, or is DOWNLOAD_CHECKSUM', async () => {
    const url = origin.plan('/sum', answer(200, 'what it is'))
    await (await box.get({ url, sha256: sha256('what it is').toUpperCase() })).remove()
    expect(await box.failure({ url, sha256: sha256('what it was') })).toMatchObject({
      code: 'DOWNLOAD_CHECKSUM',
      context: { status: 200, sha256: sha256('what it is') },
    })
  })

  test('is followed through redirects', async () => {
    origin.plan('/1', redirect('/2', 301))
    origin.plan('/2', redirect(other.url('/3'), 307))
    other.plan('/3', answer(200, 'there'))
    const spooled = await box.get(origin.url('/1'))
    expect(spooled).toMatchObject({ redirects: 2, bytes: 5 })
    await spooled.remove()
  })
})

describe('answers', () => {
  test.each([
    [408, 'DOWNLOAD_HTTP_408', true],
    [429, 'DOWNLOAD_HTTP_429', true],
    [499, 'DOWNLOAD_HTTP_499', true],
    [500, 'DOWNLOAD_HTTP_5XX', true],
    [502, 'DOWNLOAD_HTTP_5XX', true],
    [503, 'DOWNLOAD_HTTP_5XX', true],
    [504, 'DOWNLOAD_HTTP_5XX', true],
    [599, 'DOWNLOAD_HTTP_5XX', true],
    [400, 'DOWNLOAD_HTTP_4XX', false],
    [401, 'DOWNLOAD_HTTP_4XX', false],
    [403, 'DOWNLOAD_HTTP_4XX', false],
    [404, 'DOWNLOAD_HTTP_4XX', false],
    [407, 'DOWNLOAD_HTTP_4XX', false],
    [410, 'DOWNLOAD_HTTP_4XX', false],
    [425, 'DOWNLOAD_HTTP_4XX', false],
    [451, 'DOWNLOAD_HTTP_4XX', false],
    [202, 'DOWNLOAD_HTTP_UNEXPECTED', false],
    [206, 'DOWNLOAD_HTTP_UNEXPECTED', false],
    [300, 'DOWNLOAD_HTTP_UNEXPECTED', false],
    [302, 'DOWNLOAD_HTTP_UNEXPECTED', false],
    [304, 'DOWNLOAD_HTTP_UNEXPECTED', false],
  ])('status %i is %s, retried: %s [F7 F9]', async (status, code, again) => {
    const failure = await box.failure(origin.plan('/status', answer(status, 'an excuse')))
    expect(failure).toMatchObject({ code, context: { proxy: null, status } })
    expect(failure.message).toBe(`GET ${origin.url('/status')} was answered with ${status}`)
    expect(isRetryable(failure.code)).toBe(again)
  })

  test.each([
    ['7', 7000],
    ['Thu, 01 Jan 2026 00:01:30 GMT', 90_000],
    ['later', undefined],
  ])('the failure carries the delay of Retry-After: %s [F8]', async (header, ms) => {
    const url = origin.plan('/later', answer(503, '', { 'retry-after': header }))
    expect((await box.failure(url)).retryAfterMs).toBe(ms)
  })

  test('an error page without end is not read, and its connection is closed', async () => {
    const flooding = await OriginServer.start()
    const own = await rig({ outbound: { allow: [flooding.address] } })
    const [head = '', piece = ''] = endless().send.map(String)
    const url = flooding.plan('/flood', { ...endless(), send: [head.replace('200', '500'), piece] })
    expect((await own.failure(url)).code).toBe('DOWNLOAD_HTTP_5XX')
    await until('the origin is rid of its reader', () => flooding.openConnections === 0)
    await own.stop()
    await flooding.stop()
  })
})

describe('each time limit fails with the code of its phase', () => {
  const silent = (...send: string[]) => ({ send, ends: 'hang' }) as const

  test('a TLS handshake that never ends is a connect timeout [F7]', async () => {
    await within({ connectMs: 100 }, async (short) => {
      const failure = await short.failure(origin.url('/tls').replace('http:', 'https:'))
      expect(failure).toMatchObject({ code: 'DOWNLOAD_TIMEOUT', context: { phase: 'connect', status: null } })
      expect(failure.message).toContain('timed out after 0.1 s of waiting for a connection')
    })
  })

  test('missing or incomplete headers are a header timeout [F7]', async () => {
    origin.plan('/nothing', silent())
    origin.plan('/half', silent('HTTP/1.1 200 OK\r\ncontent-le'))
    await within({ headersMs: 100 }, async (short) => {
      const found = await Promise.all(['/nothing', '/half'].map((path) => short.failure(origin.url(path))))
      for (const failure of found) {
        expect(failure).toMatchObject({ code: 'DOWNLOAD_TIMEOUT', context: { phase: 'headers', status: null } })
      }
    })
  })

  test('a body that stops halfway is a body timeout [F7]', async () => {
    const url = origin.plan('/stalled', lying(10, 'half', 'hang'))
    await within({ bodyMs: 100 }, async (short) => {
      expect(await short.failure(url)).toMatchObject({
        code: 'DOWNLOAD_TIMEOUT',
        context: { phase: 'body', status: 200, bytes: 4 },
      })
    })
  })

  test('an endless body is a total timeout [F7]', async () => {
    const url = origin.plan('/endless', endless())
    await within({ wholeMs: 300, bytesMax: Number.MAX_SAFE_INTEGER }, async (short) => {
      expect(await short.failure(url)).toMatchObject({ code: 'DOWNLOAD_TIMEOUT', context: { phase: 'whole' } })
    })
  })
})

describe('connections that fail', () => {
  test('a refused connection is DOWNLOAD_CONNECTION [F7]', async () => {
    expect(await box.failure(`http://127.0.0.1:${closedPort}/x`)).toMatchObject({
      code: 'DOWNLOAD_CONNECTION',
      context: { errno: 'ECONNREFUSED', status: null },
    })
  })

  test.each([
    ['before it answers', { send: [], ends: 'reset' } as const, null],
    ['in the headers', { send: ['HTTP/1.1 200 OK\r\n'], ends: 'reset' } as const, null],
    ['in order, without an answer', { send: [], ends: 'end' } as const, null],
  ])('a connection that the origin closes %s is retried [F7]', async (_, script, status) => {
    expect(await box.failure(origin.plan('/broken', script))).toMatchObject({
      code: 'DOWNLOAD_CONNECTION',
      context: { status },
    })
  })

  test('an unknown host and a failing resolver are DOWNLOAD_DNS [F7]', async () => {
    expect(await box.failure('http://nowhere.example/')).toMatchObject({
      code: 'DOWNLOAD_DNS',
      context: { errno: 'ENOTFOUND' },
    })
    expect(await box.failure('http://busy.example/')).toMatchObject({
      code: 'DOWNLOAD_DNS',
      context: { errno: 'EAI_AGAIN' },
    })
  })

  test.each([
    ['no HTTP at all', 'SSH-2.0-OpenSSH_9.9\r\n'],
    ['a length that is none', 'HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx'],
    [
      'a length and chunks',
      'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n',
    ],
    ['a chunk without a length', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\nmany\r\n'],
    ['headers without end', `HTTP/1.1 200 OK\r\n${'x-more: and more\r\n'.repeat(5000)}`],
  ])('%s is DOWNLOAD_PROTOCOL', async (_, raw) => {
    expect((await box.failure(origin.plan('/garbage', { send: [raw], ends: 'hang' }))).code).toBe('DOWNLOAD_PROTOCOL')
  })
})

describe('lengths that lie', () => {
  const leaving = (rest: string) =>
    ({ send: [`HTTP/1.1 200 OK\r\nconnection: close\r\n${rest}`], ends: 'end' }) as const

  test.each([
    ['closes before the length it said', lying(10, 'half', 'end'), 'DOWNLOAD_INCOMPLETE'],
    ['closes before a byte of it', lying(10, '', 'end'), 'DOWNLOAD_INCOMPLETE'],
    ['closes in the middle of its chunks', chunked(['one'], 'end'), 'DOWNLOAD_INCOMPLETE'],
    ['closes as it said, before the length it said', leaving('content-length: 10\r\n\r\nhalf'), 'DOWNLOAD_INCOMPLETE'],
    [
      'closes as it said, in its chunks',
      leaving('transfer-encoding: chunked\r\n\r\n3\r\none\r\n'),
      'DOWNLOAD_INCOMPLETE',
    ],
    ['is reset in the middle', lying(10, 'half', 'reset'), 'DOWNLOAD_CONNECTION'],
  ])('an origin that %s has not sent the resource', async (_, script, code) => {
    const failure = await box.failure(origin.plan('/lie', script))
    expect(failure.code).toBe(code)
    expect(isRetryable(failure.code)).toBe(true)
  })

  test('bytes after the announced length are never read as the next answer', async () => {
    const smuggled = 'HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil'
    const url = origin.plan('/long', lying(4, `good${smuggled}`, 'stay'))
    origin.plan('/next', answer(200, 'mine'))
    for (let i = 0; i < 5; i++) {
      const first = await box.get(url)
      expect(await text(first.open())).toBe('good')
      const second = await box.get(origin.url('/next'))
      expect(await text(second.open())).toBe('mine')
      await first.remove()
      await second.remove()
    }
  })
})

describe('sizes', () => {
  test('a length over the limit is refused before the body is read', async () => {
    const url = origin.plan('/large', lying(LIMITS.bytesMax + 1, '', 'hang'))
    expect(await box.failure(url)).toMatchObject({
      code: 'DOWNLOAD_TOO_LARGE',
      context: { status: 200, lengthSaid: LIMITS.bytesMax + 1, bytesMax: LIMITS.bytesMax },
    })
  })

  test('a body without end stops at the limit, and its connection is closed', async () => {
    const url = origin.plan('/forever', endless())
    const failure = await box.failure(url)
    expect(failure).toMatchObject({ code: 'DOWNLOAD_TOO_LARGE', context: { lengthSaid: null } })
    expect(Number(failure.context.bytes)).toBeLessThan(2 * LIMITS.bytesMax)
    await until('the origin is rid of its reader', () => origin.openConnections <= 1)
  })

  test('a download that breaks after it was spooled to a file leaves no file behind', async () => {
    const body = Buffer.alloc(600_000, 'x')
    const url = origin.plan('/broken-late', lying(LIMITS.bytesMax, body, 'end'))
    expect(await box.failure(url)).toMatchObject({ code: 'DOWNLOAD_INCOMPLETE', context: { bytes: 600_000 } })
    const whole = origin.plan('/other-late', answer(200, body))
    expect((await box.failure({ url: whole, sha256: sha256('another') })).code).toBe('DOWNLOAD_CHECKSUM')
  })

  test('exactly the limit is allowed', async () => {
    const spooled = await box.get(origin.plan('/full', answer(200, Buffer.alloc(LIMITS.bytesMax))))
    expect(spooled.bytes).toBe(LIMITS.bytesMax)
    await spooled.remove()
  })
})

describe('URLs that are refused', () => {
  test.each([
    ['not a url', 'DOWNLOAD_INVALID_URL'],
    ['ftp://example.com/x', 'DOWNLOAD_INVALID_URL'],
    ['http://user:hunter2@example.com/', 'DOWNLOAD_INVALID_URL'],
    ['http://169.254.169.254/latest/meta-data', 'DOWNLOAD_URL_FORBIDDEN'],
    ['http://127.0.0.1:22/', 'DOWNLOAD_URL_FORBIDDEN'],
    ['http://inside.example/', 'DOWNLOAD_URL_FORBIDDEN'],
  ])('%s is refused as %s and nothing is sent [F9]', async (url, code) => {
    const before = origin.connections + other.connections
    const failure = await box.failure(url)
    expect(failure.code).toBe(code)
    expect(isRetryable(failure.code)).toBe(false)
    expect(failure.message).not.toContain('hunter2')
    expect(origin.connections + other.connections).toBe(before)
  })

  test.each([
    ['http://169.254.169.254/latest/meta-data'],
    ['//10.0.0.1/'],
    ['http://inside.example/'],
    ['file:///etc/passwd'],
    ['http://127.0.0.1:22/'],
    ['http://[::1]/'],
  ])('a redirect to %s is DOWNLOAD_REDIRECT_FORBIDDEN [F9]', async (target) => {
    const failure = await box.failure(
      origin.plan('/away', redirect('/further')) && origin.plan('/further', redirect(target)),
    )
    expect(failure.code).toBe('DOWNLOAD_REDIRECT_FORBIDDEN')
    expect(isRetryable(failure.code)).toBe(false)
  })

  test('redirect loops are DOWNLOAD_TOO_MANY_REDIRECTS [F9]', async () => {
    origin.plan('/left', redirect('/right'))
    origin.plan('/right', redirect('/left'))
    const long = Array.from({ length: 8 }, (_, i) => origin.plan(`/hop${i}`, redirect(`/hop${i + 1}`)))
    for (const url of [origin.url('/left'), long[0] as string]) {
      expect((await box.failure(url)).code).toBe('DOWNLOAD_TOO_MANY_REDIRECTS')
    }
    expect([origin.asked('/hop5'), origin.asked('/hop6')]).toEqual([1, 0])
  })

  test('a header that is not a task’s to set is refused here, too', async () => {
    const headers = { Host: 'elsewhere.example' }
    expect((await box.failure({ url: origin.url('/x'), headers })).code).toBe('VALIDATION_FORBIDDEN_HEADER')
  })
})

test('the secrets of a URL are in no message and no context', async () => {
  const url = `${origin.plan('/signed', answer(500))}?X-Amz-Signature=hunter2&token=hunter2#hunter2`
  const failure = await box.failure({ url, headers: { authorization: 'Bearer hunter2' } })
  expect(failure.message).toBe(`GET ${origin.url('/signed')}?… was answered with 500`)
  expect(JSON.stringify([failure, failure.message, failure.context])).not.toContain('hunter2')
})

test.each([
  ['the headers', { send: [], ends: 'hang' } as const],
  ['the body', lying(10, 'half', 'hang')],
])(
  'a download that is called off while it waits for %s ends at once with the caller’s own reason',
  async (_, script) => {
    const stop = new AbortController()
    const url = origin.plan('/called-off', script)
    const asked = origin.asked('/called-off')
    const ended = box.get(url, { signal: stop.signal }).catch((error: unknown) => error)
    await until('it is under way', () => origin.asked('/called-off') > asked)
    const reason = new Error('called off')
    stop.abort(reason)
    expect(await ended).toBe(reason)
    expect(await box.get(url, { signal: stop.signal }).catch((error: unknown) => error)).toBe(reason)
  },
)

test('small files to one origin share connections', async () => {
  const own = await rig({ outbound: { allow: [other.address] } })
  const url = other.plan('/small', answer(200, 'x'))
  const before = other.connections
  for (let i = 0; i < 20; i++) await (await own.get(url)).remove()
  expect(other.connections - before).toBeLessThan(4)
  await own.stop()
  await until('it is let go', () => other.openConnections <= 1)
})
