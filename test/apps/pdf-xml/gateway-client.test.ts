import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { callGateway, GatewayFailed } from '../../../apps/pdf-xml/gateway-client.ts'

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
  signal?: AbortSignal
}

const call = (url: string, { signal = new AbortController().signal, timeoutMs = 5_000, ...rest }: Calling = {}) =>
  callGateway({ url, mapping: 'text', source: source(), timeoutMs, signal, traceparent: null, ...rest })

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

describe('D7 E7 E25 what an answer means', () => {
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
  ])('%i is %s', async (status, code) => {
    const failed = await failure(await saying(status, '<html>/srv/secret/path</html>'))
    expect([failed.code, failed.status, failed.note, failed.isFinal]).toEqual([code, status, null, false])
  })

  test.each([
    ['PARSE_ERROR', 400, 'GW_4XX', 'It ends in the middle.', false],
    ['VALIDATION', 400, 'GW_4XX', 'It has no invoice number.', false],
    ['INVALID_MAPPING', 400, 'GW_4XX', 'There is no such mapping.', false],
    ['PARSE_TIMEOUT', 504, 'GW_TIMEOUT', 'It took too long.', false],
    ['SATURATED', 503, 'GW_5XX', 'Too many wait.', false],
    ['MEMORY', 400, 'UNKNOWN', 'It took too much memory.', true],
  ])('%s with %i is %s', async (inner, status, code, message, isFinal) => {
    const failed = await failure(await saying(status, error(inner, message)))
    expect([failed.code, failed.isFinal]).toEqual([code, isFinal])
    // D25: only what is said of the caller's own document goes to the caller.
    expect(failed.note).toEqual(code === 'GW_4XX' ? message : isFinal ? expect.any(String) : null)
    expect(failed.message).toContain(inner)
  })

  test('D25 D26 what another service says of its own inside is not shown', async () => {
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
  })

  test('an answer that is no XML is a fault of the gateway', async () => {
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

describe('D7 what no answer means', () => {
  test('nobody listens', async () => {
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
  ])('it hangs up %s', async (_, listener) => {
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
  ])('D39 %s: GW_TIMEOUT', async (_, listener) => {
    const failed = await failure(await answering(listener as RequestListener), { timeoutMs: 50 })
    expect(failed.code).toBe('GW_TIMEOUT')
  })

  test('a source that cannot be read is no fault of the gateway', async () => {
    const broken = new Error('EIO: the disk')
    async function* failing(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('%PDF-1.7')
      throw broken
    }
    await expect(call(await answering(() => undefined), { source: failing() })).rejects.toBe(broken)
  })

  test('an attempt that is told to stop ends with the reason it was given', async () => {
    const [stop, why] = [new AbortController(), new Error('the lease is lost')]
    const url = await answering(() => stop.abort(why))
    await expect(call(url, { signal: stop.signal })).rejects.toBe(why)
  })
})

test('documents that are sent leave no memory behind: ten of 20 MB at once are not 200 MB', async () => {
  const url = await answering((request, response) => {
    request.once('end', () => response.writeHead(200, { 'content-type': 'application/xml' }).end('<document/>'))
  })
  let mostMb = 0
  async function* large(): AsyncGenerator<Uint8Array> {
    for (let i = 0; i < 80; i++) {
      yield Buffer.alloc(2 ** 18)
      mostMb = Math.max(mostMb, process.memoryUsage().arrayBuffers / 2 ** 20)
    }
  }
  await Promise.all(
    Array.from({ length: 10 }, async () => {
      for await (const _ of (await call(url, { source: large() })).body);
    }),
  )
  expect(mostMb).toBeLessThan(130)
})

test('what is sent: the document, its mapping, and whose attempt it was', async () => {
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
