import { execFile } from 'node:child_process'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../../test/support/until.ts'
import { callGateway, GatewayBusy, GatewayFailed } from '../src/gateway-client.ts'

/** The other end of the line, which may say anything. */
async function answering(listener: RequestListener): Promise<string> {
  const server = createServer((request, response) => {
    request.resume()
    listener(request, response)
  })
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function* source(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('%PDF-1.7')
}

interface Calling {
  source?: AsyncIterable<Uint8Array>
  timeoutMs?: number
  waitMs?: number
  learnParsers?: (parsers: number) => void
  signal?: AbortSignal
}

const call = (url: string, { signal = new AbortController().signal, timeoutMs = 5_000, ...rest }: Calling = {}) =>
  callGateway({ url, mapping: 'text', source: source(), timeoutMs, waitMs: 5_000, signal, traceparent: null, ...rest })

async function failure(url: string, calling?: Calling): Promise<GatewayFailed> {
  const failed = await call(url, calling)
    .then(async ({ body }) => {
      for await (const _ of body);
    })
    .catch((error: unknown) => error)
  if (!(failed instanceof GatewayFailed)) throw new Error(`it was ${failed}`)
  return failed
}

const saying = (status: number, body = '', headers: Record<string, string> = {}) =>
  answering((_, response) => void response.writeHead(status, headers).end(body))
const error = (code: string, message: string) => JSON.stringify({ error: { code, message } })

describe('answers of the gateway', () => {
  test.each([
    [400, 'GW_4XX'],
    [406, 'GW_4XX'],
    [413, 'GW_4XX'],
    [415, 'GW_4XX'],
    [422, 'GW_4XX'],
    [408, 'GW_TIMEOUT'],
    [500, 'GW_5XX'],
    [502, 'GW_5XX'],
    [503, 'GW_5XX'],
    [504, 'GW_5XX'],
    [599, 'GW_5XX'],
    // A wrong address, a missing right, too many of us: nothing of it is the document's fault.
    [404, 'GW_5XX'],
    [401, 'GW_5XX'],
    [429, 'GW_5XX'],
    [302, 'GW_5XX'],
    [204, 'GW_5XX'],
  ])('the gateway status %i is %s [D7 E25]', async (status, code) => {
    const failed = await failure(await saying(status, '<html>/srv/secret/path</html>'))
    expect([failed.code, failed.status, failed.note, failed.isFinal]).toEqual([code, status, null, false])
  })

  test.each([
    ['PARSE_ERROR', 400, 'GW_4XX', 'It ends in the middle.', false],
    ['VALIDATION', 400, 'GW_4XX', 'It has no invoice number.', false],
    ['INVALID_MAPPING', 400, 'GW_4XX', 'There is no such mapping.', false],
    ['PARSE_TIMEOUT', 504, 'GW_TIMEOUT', 'It took too long.', false],
    ['STOPPING', 503, 'GW_5XX', 'It is being stopped.', false],
    ['SATURATED', 500, 'GW_5XX', 'Too many wait.', false],
    ['MEMORY', 400, 'UNKNOWN', 'It took too much memory.', true],
  ])('the gateway code %s with status %i is %s [E7 E25]', async (inner, status, code, message, isFinal) => {
    const failed = await failure(await saying(status, error(inner, message)))
    expect([failed.code, failed.isFinal]).toEqual([code, isFinal])
    // D25: only what is said of the caller's own document goes to the caller.
    expect(failed.note).toEqual(code === 'GW_4XX' ? message : isFinal ? expect.any(String) : null)
    expect(failed.message).toContain(inner)
  })

  test('internal details in a gateway answer are not shown to the owner [D25 D26]', async () => {
    for (const said of [
      'ENOENT in /srv/app/convert.js',
      'TypeError: x is not a function',
      'no\n  at f (a.js:1)',
      'x'.repeat(900),
    ]) {
      expect((await failure(await saying(400, error('BAD', said)))).note, said).toBeNull()
    }
  })

  test('the wait that it asks for is kept', async () => {
    expect((await failure(await saying(503, '', { 'retry-after': '7' }))).retryAfterMs).toBe(7_000)
    expect((await failure(await saying(503, '', { 'retry-after': 'soon' }))).retryAfterMs).toBeNull()
    const inAnHour = new Date(Date.now() + 3_600_000).toUTCString()
    const asked = (await failure(await saying(503, '', { 'retry-after': inAnHour }))).retryAfterMs
    expect(asked).toBeGreaterThan(3_000_000)
    expect(asked).toBeLessThanOrEqual(3_600_000)
  })

  test('503 SATURATED is not a failure: the document waits at least as long as the gateway asks', async () => {
    const busy = await call(await saying(503, error('SATURATED', 'Too many wait.'), { 'retry-after': '3' })).catch(
      (thrown: unknown) => thrown,
    )
    expect(busy).toBeInstanceOf(GatewayBusy)
    expect(busy).toMatchObject({ retryAfterMs: 3_000, message: expect.stringContaining('SATURATED') })
  })

  test('an answer that is not XML is blamed on the gateway', async () => {
    expect((await failure(await saying(200, '<html>', { 'content-type': 'text/html' }))).code).toBe('GW_5XX')
  })

  test('an endless error page is not read to its end', async () => {
    const url = await answering((_, response) => {
      response.writeHead(500)
      const more = () => {
        while (response.write('x'.repeat(65_536)));
      }
      response.on('drain', more)
      more()
    })
    expect((await failure(url)).code).toBe('GW_5XX')
  })
})

describe('missing answers', () => {
  test('a refused connection to the gateway is GW_5XX [D7]', async () => {
    expect((await failure('http://127.0.0.1:1')).code).toBe('GW_5XX')
  })

  test.each([
    ['before it answers', (_: unknown, response: { destroy(): void }) => response.destroy()],
    [
      'in the middle of its answer',
      (_: unknown, response: Parameters<RequestListener>[1]) => {
        response.writeHead(200, { 'content-type': 'application/xml', 'content-length': '1000' })
        response.write('<document>', () => response.destroy())
      },
    ],
  ])('a gateway that hangs up %s is GW_5XX [D7]', async (_, listener) => {
    expect((await failure(await answering(listener as RequestListener))).code).toBe('GW_5XX')
  })

  test.each([
    ['it never answers', () => undefined],
    [
      'its answer never ends',
      (_: unknown, response: Parameters<RequestListener>[1]) => {
        response.writeHead(200, { 'content-type': 'application/xml' }).write('<document>')
      },
    ],
  ])('the gateway call is GW_TIMEOUT when %s [D7 D39]', async (_, listener) => {
    const failed = await failure(await answering(listener as RequestListener), { timeoutMs: 50 })
    expect(failed.code).toBe('GW_TIMEOUT')
  })

  test('an unreadable source is not blamed on the gateway', async () => {
    const broken = new Error('EIO: the disk')
    async function* failing(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('%PDF-1.7')
      throw broken
    }
    await expect(call(await answering(() => undefined), { source: failing() })).rejects.toBe(broken)
  })

  test('an aborted attempt ends with the reason of its signal', async () => {
    const [stop, why] = [new AbortController(), new Error('the lease is lost')]
    const url = await answering(() => stop.abort(why))
    await expect(call(url, { signal: stop.signal })).rejects.toBe(why)
  })
})

test('ten documents of 20 MB sent at once are never 200 MB in memory', async () => {
  const program = join(import.meta.dirname, 'fixtures', 'send-large.ts')
  const args = ['--expose-gc', '--conditions=redress-source', program]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  expect(Number(stdout)).toBeGreaterThan(0)
  expect(Number(stdout)).toBeLessThan(130)
})

test('the call sends the document, its mapping and the traceparent of the attempt', async () => {
  let seen = {}
  const url = await answering((request, response) => {
    const { 'content-type': type, accept, traceparent } = request.headers
    seen = { path: request.url, type, accept, traceparent }
    response.writeHead(200, {
      'content-type': 'application/xml; charset=utf-8',
      'x-mapping': 'text@3',
      'x-pages': '12',
    })
    response.end('<document/>')
  })
  const answer = await callGateway({
    url,
    mapping: 'a b&c',
    source: source(),
    timeoutMs: 5_000,
    waitMs: 5_000,
    signal: new AbortController().signal,
    traceparent: '00-1-2-01',
  })
  expect(seen).toEqual({
    path: '/process?mapping=a%20b%26c',
    type: 'application/pdf',
    accept: 'application/xml',
    traceparent: '00-1-2-01',
  })
  expect([answer.mapping, answer.pages]).toEqual(['text@3', 12])
})

describe('a gateway that answers before the document was sent', () => {
  const BODY = error('UNSUPPORTED_MEDIA_TYPE', 'Only application/pdf is accepted.')
  const HEAD = 'HTTP/1.1 415 Unsupported Media Type\r\ncontent-type: application/json\r\n'
  const SIZED = `${HEAD}content-length: ${BODY.length}\r\nconnection: close\r\n\r\n${BODY}`
  const CHUNKED = `${HEAD}transfer-encoding: chunked\r\n\r\n${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`
  const UNSIZED = `${HEAD}connection: close\r\n\r\n${BODY}`

  async function* threeMegabytes(): AsyncGenerator<Uint8Array> {
    for (let i = 0; i < 48; i++) yield Buffer.alloc(65_536)
  }

  async function listening(answer: (socket: Socket) => void): Promise<string> {
    const server = createTcpServer((socket) => {
      socket.on('error', () => undefined)
      answer(socket)
    })
    server.listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    onTestFinished(() => void server.close())
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  /** Having read no more than the first bytes. */
  const afterTheHead = (then: (socket: Socket) => void) => (socket: Socket) =>
    void socket.once('data', () => {
      socket.pause()
      then(socket)
    })
  const WAYS: Record<string, (answer: string) => (socket: Socket) => void> = {
    'closes without having read anything': (answer) => (socket) => {
      socket.pause()
      socket.write(answer, () => socket.destroy())
    },
    'ends, and reads no more': (answer) => afterTheHead((socket) => socket.end(answer)),
    'closes with the rest unread': (answer) => afterTheHead((socket) => socket.write(answer, () => socket.destroy())),
    'resets the connection': (answer) => afterTheHead((socket) => socket.write(answer, () => socket.resetAndDestroy())),
    'keeps the connection open and reads no more': (answer) =>
      afterTheHead((socket) => {
        socket.write(answer)
        onTestFinished(() => void socket.destroy())
      }),
    'reads on': (answer) => (socket) => {
      socket.once('data', () => socket.write(answer))
      socket.resume()
    },
  }

  for (const [way, answering] of Object.entries(WAYS)) {
    test.each([
      ['of known length', SIZED],
      ['in chunks', CHUNKED],
    ])(`%s, and ${way}: GW_4XX with what it said`, async (_, answer) => {
      const url = await listening(answering(answer))
      for (let i = 0; i < 10; i++) {
        const failed = await failure(url, { source: threeMegabytes() })
        expect(failed).toMatchObject({ code: 'GW_4XX', status: 415, note: 'Only application/pdf is accepted.' })
      }
    })
  }

  test('an answer that ends with its connection is also read', async () => {
    const url = await listening(afterTheHead((socket) => socket.end(UNSIZED)))
    const failed = await failure(url, { source: threeMegabytes() })
    expect(failed).toMatchObject({ code: 'GW_4XX', status: 415, note: 'Only application/pdf is accepted.' })
  })

  test.each<[string, (socket: Socket) => void]>([
    ['hangs up', afterTheHead((socket) => socket.destroy())],
    ['resets the connection', (socket) => socket.resetAndDestroy()],
    ['hangs up in the middle of the head', afterTheHead((socket) => socket.end('HTTP/1.1 415 Unsup'))],
  ])('one that says nothing and %s could not be reached', async (_, answer) => {
    expect(await failure(await listening(answer), { source: threeMegabytes() })).toMatchObject({
      code: 'GW_5XX',
      status: null,
    })
  })
})

describe('how long a call may take', () => {
  const tell = (socket: Socket | null, state: string) =>
    socket?.write(`HTTP/1.1 102 Processing\r\nx-gateway-state: ${state}\r\nx-gateway-parsers: 3\r\n\r\n`)

  test('the clock stands still while the document waits, and starts when its parsing begins', async () => {
    const learned: number[] = []
    const begunMs = performance.now()
    const url = await answering(async (request, response) => {
      expect(request.headers['x-gateway-notices']).toBe('1')
      tell(response.socket, 'waiting')
      await until('the limit has gone by', async () => performance.now() - begunMs > 1_500)
      tell(response.socket, 'parsing')
      response.writeHead(200, { 'content-type': 'application/xml' }).end('<document/>')
    })
    const { body } = await call(url, { timeoutMs: 1_000, learnParsers: (parsers) => learned.push(parsers) })
    for await (const _ of body);
    expect(learned).toEqual([3, 3])
  })

  test('a document that waited may be parsed for longer than it may wait', async () => {
    const url = await answering(async (_, response) => {
      tell(response.socket, 'waiting')
      tell(response.socket, 'parsing')
      const begunMs = performance.now()
      await until('the longest wait has gone by', async () => performance.now() - begunMs > 600)
      response.writeHead(200, { 'content-type': 'application/xml' }).end('<document/>')
    })
    const { body } = await call(url, { timeoutMs: 30_000, waitMs: 300 })
    for await (const _ of body);
  })

  test('a document whose parsing takes too long is GW_TIMEOUT', async () => {
    const url = await answering((_, response) => {
      tell(response.socket, 'waiting')
      tell(response.socket, 'parsing')
    })
    expect((await failure(url, { timeoutMs: 100 })).code).toBe('GW_TIMEOUT')
  })

  test('a document that waits longer than it may goes back to the queue without a fault', async () => {
    const url = await answering((_, response) => void tell(response.socket, 'waiting'))
    await expect(call(url, { timeoutMs: 50, waitMs: 100 })).rejects.toBeInstanceOf(GatewayBusy)
  })
})
