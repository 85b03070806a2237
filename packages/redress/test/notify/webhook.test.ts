import { Webhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { someDelivery, someNotice } from '../../../../test/support/deliveries.ts'
import { hookServer, type ReceivedHook } from '../../../../test/support/servers/hooks.ts'
import { freePort } from '../../../../test/support/servers/smtp.ts'
import { DELIVERY_CODES, type Delivery } from '../../src/app/channels.ts'
import { captureFailure } from '../../src/core/failure/capture.ts'
import { withEngineCodes } from '../../src/core/failure/taxonomy.ts'
import { keyOf, sign, type WebhookOptions, webhook } from '../../src/notify/webhook.ts'
import { systemClock } from '../../src/runtime/clock.ts'

const secretOf = (seed: number, bytes = 32) => `whsec_${Buffer.alloc(bytes, seed).toString('base64')}`
const [NEW, OLD, FOREIGN] = [secretOf(1), secretOf(2), secretOf(3)]

const deliver = (
  url: WebhookOptions['url'],
  options: Partial<WebhookOptions> = {},
  delivery: Delivery = someDelivery(),
  notice = someNotice(),
) => (async () => webhook({ url, secrets: [NEW], ...options }).deliver(notice, delivery))()

/** As a receiver does it, with the library of those who wrote the specification. */
const verify = (secret: string, { body, headers }: ReceivedHook) =>
  new Webhook(secret).verify(body, headers as Record<string, string>)

/** What the engine makes of a failed delivery. */
const captured = (thrown: unknown) =>
  captureFailure({
    thrown,
    phase: 'execution',
    type: 't',
    codes: withEngineCodes<string>(DELIVERY_CODES),
    rules: [],
    nowMs: Date.UTC(2026, 0, 1),
  })

describe('a webhook', () => {
  test('is signed as the specification says: the published example comes out', () => {
    const keys = [keyOf('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')]
    expect(sign(keys, 'msg_p5jXN8AQM9LWM0D4loKWxJek', 1614265330, '{"test": 2432232314}')).toBe(
      'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    )
  })

  test('is verified by its receiver, and carries what happened', async () => {
    const server = await hookServer()
    expect(await deliver(server.url)).toEqual({ to: [`http://127.0.0.1:${server.port}`], answer: 'HTTP 200: thanks' })
    const [hook] = server.hooks as [ReceivedHook]
    expect(verify(NEW, hook)).toEqual({
      type: 'job.failed',
      timestamp: '2026-01-01T00:00:00.000Z',
      data: JSON.parse(JSON.stringify(someNotice())),
    })
    expect(hook).toMatchObject({ method: 'POST', path: '/hook', headers: { 'content-type': 'application/json' } })
    expect(hook.headers['webhook-id']).toBe(someDelivery().id)
    expect(hook.headers['webhook-signature']).toMatch(/^v1,[A-Za-z0-9+/]{43}=$/)
  })

  test('does not pass for another one: other secret, other body, other id, or an old one sent again', async () => {
    const server = await hookServer()
    await deliver(server.url)
    const [hook] = server.hooks as [ReceivedHook]
    expect(() => verify(FOREIGN, hook)).toThrow('No matching signature')
    expect(() => verify(NEW, { ...hook, body: hook.body.replace('ann', 'eve') })).toThrow('No matching signature')
    const otherId = { ...hook, headers: { ...hook.headers, 'webhook-id': 'another' } }
    expect(() => verify(NEW, otherId)).toThrow('No matching signature')
    // What was sent ten minutes ago is no longer good, and giving it a new time breaks the signature.
    await deliver(server.url, {}, someDelivery({ nowMs: systemClock.nowMs() - 600_000 }))
    const [, old] = server.hooks as [ReceivedHook, ReceivedHook]
    expect(() => verify(NEW, old)).toThrow('too old')
    const renewed = { ...old.headers, 'webhook-timestamp': String(Math.floor(systemClock.nowMs() / 1000)) }
    expect(() => verify(NEW, { ...old, headers: renewed })).toThrow('No matching signature')
  })

  test('is good for receivers of the old secret and of the new one while it is changed', async () => {
    const server = await hookServer()
    await deliver(server.url, { secrets: [NEW, OLD] })
    const [hook] = server.hooks as [ReceivedHook]
    expect(verify(NEW, hook)).toEqual(verify(OLD, hook))
    expect(() => verify(FOREIGN, hook)).toThrow('No matching signature')
  })

  test('has the same id on every attempt, and the time of the attempt', async () => {
    const server = await hookServer()
    await deliver(server.url, {}, someDelivery({ nowMs: systemClock.nowMs() - 60_000 }))
    await deliver(server.url, {}, someDelivery({ attempt: 2 }))
    const [first, second] = server.hooks as [ReceivedHook, ReceivedHook]
    expect(second.headers['webhook-id']).toBe(first.headers['webhook-id'])
    expect(Number(second.headers['webhook-timestamp'])).toBeGreaterThan(Number(first.headers['webhook-timestamp']))
    expect(verify(NEW, first)).toEqual(verify(NEW, second))
  })

  test('has a body and headers of one’s own, and goes where it is told to; nowhere is fine', async () => {
    const server = await hookServer()
    const body = () => ({ state: 'PARTIAL', text: 'Grüße 🎉 \u2028' })
    const outbound = { allow: [`127.0.0.1:${server.port}`] }
    await deliver(async () => server.url, { body, outbound, headers: { Authorization: 'Bearer abc' } })
    const [hook] = server.hooks as [ReceivedHook]
    expect(verify(NEW, hook)).toEqual(body())
    expect(hook.headers.authorization).toBe('Bearer abc')
    expect(await deliver(() => null)).toEqual({ to: [], answer: 'there was no recipient' })
  })
})

describe('when it is not taken', () => {
  test.each([300, 400, 401, 404, 408, 422, 429, 500, 502, 503])('%i is worth another attempt', async (status) => {
    const server = await hookServer((response) => response.writeHead(status).end('not now'))
    const error = await deliver(server.url).catch((thrown: unknown) => thrown)
    expect(captured(error)).toMatchObject({
      retry: 'transient',
      retryAfterMs: null,
      failure: { code: 'CHANNEL_REFUSED', context: { httpStatus: status, answer: `HTTP ${status}: not now` } },
    })
  })

  test('410 is the end of it', async () => {
    const server = await hookServer((response) => response.writeHead(410).end())
    const error = await deliver(server.url).catch((thrown: unknown) => thrown)
    expect(captured(error)).toMatchObject({ retry: 'never', failure: { code: 'CHANNEL_GONE' } })
  })

  test.each([
    ['120', 120_000],
    ['Thu, 01 Jan 2026 00:01:00 GMT', 60_000],
  ])('a Retry-After of %s is honoured', async (after, ms) => {
    const server = await hookServer((response) => response.writeHead(503, { 'retry-after': after }).end())
    const error = await deliver(server.url).catch((thrown: unknown) => thrown)
    expect(captured(error).retryAfterMs).toBe(ms)
  })

  test('a redirect is not followed', async () => {
    const elsewhere = await hookServer()
    const server = await hookServer((response) => response.writeHead(307, { location: elsewhere.url }).end())
    await expect(deliver(server.url)).rejects.toMatchObject({ code: 'CHANNEL_REFUSED' })
    expect(elsewhere.hooks).toEqual([])
  })

  test('a receiver that is down, too slow or hangs up is tried again later', async () => {
    const port = await freePort()
    await expect(deliver(`http://127.0.0.1:${port}/`)).rejects.toMatchObject({
      code: 'CHANNEL_DOWN',
      context: { answer: expect.stringContaining('ECONNREFUSED') },
    })
    const silent = await hookServer(() => undefined)
    await expect(deliver(silent.url, { timeout: '50ms' })).rejects.toMatchObject({
      code: 'CHANNEL_DOWN',
      context: { answer: 'no answer within 50 ms' },
    })
    const rude = await hookServer((response) => response.destroy())
    await expect(deliver(rude.url)).rejects.toMatchObject({ code: 'CHANNEL_DOWN' })
  })

  test('an endless answer is not read to its end', async () => {
    const server = await hookServer((response) => {
      response.writeHead(500)
      const pour = (): void => {
        while (!response.destroyed && response.write('x'.repeat(10_000)));
      }
      response.on('drain', pour)
      pour()
    })
    await expect(deliver(server.url)).rejects.toMatchObject({ code: 'CHANNEL_REFUSED' })
  })

  test('an attempt that no longer counts ends with its own reason', async () => {
    const controller = new AbortController()
    const silent = await hookServer(() => controller.abort(new Error('the worker stops')))
    await expect(deliver(silent.url, {}, someDelivery({ signal: controller.signal }))).rejects.toThrow(
      'the worker stops',
    )
  })

  test('a body that JSON cannot hold is refused, and nothing is sent', async () => {
    const server = await hookServer()
    for (const value of [1n, undefined, 'x'.repeat(2_000_000)]) {
      await expect(deliver(server.url, { body: () => value })).rejects.toMatchObject({ code: 'NOTICE_UNRENDERABLE' })
    }
    await expect(deliver(() => 'ftp://example.org')).rejects.toMatchObject({ code: 'RECIPIENT_INVALID' })
    expect(server.hooks).toEqual([])
  })

  test('no secret, password or path is in what is said', async () => {
    const server = await hookServer((response) => response.writeHead(500).end(`no ${NEW}`))
    const headers = { authorization: 'Bearer my-token' }
    const error = await deliver(`${server.url}/private-path?token=abc`, { headers }).catch((thrown: unknown) => thrown)
    const said = JSON.stringify(captured(error))
    for (const secret of [NEW.slice(6), 'my-token', 'private-path', 'token=abc']) expect(said).not.toContain(secret)
  })
})

describe('an address that a function found out', () => {
  const inside: [url: (port: number) => string][] = [
    [(port) => `http://127.0.0.1:${port}/hook`],
    [(port) => `http://2130706433:${port}/hook`],
    [(port) => `http://[::ffff:127.0.0.1]:${port}/hook`],
    [(port) => `http://localhost:${port}/hook`],
    [() => 'http://169.254.169.254/latest/meta-data'],
  ]
  test.each(inside)('is not written to when it lies inside: %s', async (url) => {
    const server = await hookServer()
    const outbound = { ports: [80, server.port] }
    const error = await deliver(() => url(server.port), { outbound }).catch((thrown: unknown) => thrown)
    expect(captured(error)).toMatchObject({
      retry: 'never',
      failure: {
        code: 'RECIPIENT_NOT_ALLOWED',
        context: { answer: expect.stringMatching(/^not sent: .* may not be/) },
      },
    })
    expect(server.hooks).toEqual([])
  })

  test('is not written to on a port that is not for pages', async () => {
    await expect(deliver(() => 'http://example.org:25/')).rejects.toMatchObject({
      code: 'RECIPIENT_NOT_ALLOWED',
      context: { answer: 'not sent: Port 25 of example.org may not be reached.' },
    })
  })

  test('fails like any other when the receiver is down or too slow', async () => {
    const port = await freePort()
    const there = (at: number) => ({ outbound: { allow: [`127.0.0.1:${at}`] } })
    await expect(deliver(() => `http://127.0.0.1:${port}/`, there(port))).rejects.toMatchObject({
      code: 'CHANNEL_DOWN',
      context: { answer: expect.stringContaining('CONNECT_REFUSED') },
    })
    const silent = await hookServer(() => undefined)
    await expect(deliver(() => silent.url, { timeout: '50ms', ...there(silent.port) })).rejects.toMatchObject({
      code: 'CHANNEL_DOWN',
      context: { answer: 'no answer within 50 ms' },
    })
    const busy = await hookServer((response) => response.writeHead(503, { 'retry-after': '120' }).end())
    const error = await deliver(() => busy.url, there(busy.port)).catch((thrown: unknown) => thrown)
    expect(captured(error).retryAfterMs).toBe(120_000)
  })

  test('is not followed to where it redirects', async () => {
    const elsewhere = await hookServer()
    const server = await hookServer((response) => response.writeHead(307, { location: elsewhere.url }).end())
    const outbound = { allow: ['127.0.0.1'], ports: [server.port, elsewhere.port] }
    await expect(deliver(() => server.url, { outbound })).rejects.toMatchObject({ code: 'CHANNEL_REFUSED' })
    expect(elsewhere.hooks).toEqual([])
  })
})

describe('a channel that could never work is refused when it is declared', () => {
  test.each([
    [{ secrets: [] }, 'at least one secret'],
    [{ secrets: ['topsecret'] }, 'a secret must be'],
    [{ secrets: [secretOf(1, 23)] }, 'a secret must be'],
    [{ secrets: [secretOf(1, 65)] }, 'a secret must be'],
    [{ secrets: ['whsec_***'] }, 'a secret must be'],
    [{ url: 'nowhere' }, 'url must be'],
    [{ url: 'file:///etc/passwd' }, 'url must be'],
    [{ url: 'https://user:pass@example.org' }, 'url must be'],
    [{ headers: { 'Webhook-Id': 'mine' } }, 'not yours to set'],
    [{ headers: { 'x-a': 'b\r\nc: d' } }, 'has an invalid name or value'],
    [{ headers: { authorization: undefined as never } }, 'has an invalid name or value'],
    [{ timeout: 'soon' }, 'timeout'],
    [{ timeout: 0 }, 'timeout'],
    [{ outbound: {} }, 'outbound is for a url that is a function'],
    [{ url: () => null, outbound: { allow: ['*'] } }, 'outbound: allow has'],
  ])('%j', (parts, words) => {
    const make = () => webhook({ url: 'https://example.org', secrets: [NEW], ...parts })
    expect(make).toThrow(words)
    expect(make).not.toThrow(/topsecret|pass@/)
  })
})
