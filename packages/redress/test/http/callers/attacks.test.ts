import { describe, expect, test } from 'vitest'
import { until } from '../../../../../test/support/until.ts'
import { openRawConnection, sendRaw } from '../sockets.ts'
import { type Asking, makeWorld } from '../world.ts'

const REASON = { reason: 'a test' }

describe('a page of another site', () => {
  test.each(['evil.example', 'localhost.evil.example', '127.0.0.1.evil.example', 'evil.example:7373'])(
    'that has pointed its name (%j) at the server is refused, also where nobody has to sign in',
    async (host) => {
      const { ask } = await makeWorld({ auth: 'none' })
      for (const path of ['/api/jobs', '/healthz', '/sign-in', '/openapi.json']) {
        const { status, json } = await ask(path, { headers: { host } })
        expect([status, json.error.code]).toEqual([403, 'REQUEST_REFUSED'])
      }
    },
  )

  test('cannot send mutating requests and gets no CORS headers', async () => {
    const { ask, jobs, app } = await makeWorld({ auth: 'none' })
    const path = `/api/jobs/${jobs.ann.queued}/cancel`
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    const tries: Asking[] = [
      { body: REASON, headers: { origin: 'https://evil.example' } },
      { body: REASON, headers: { origin: 'null' } },
      { body: REASON, headers: { 'sec-fetch-site': 'cross-site' } },
      { body: REASON, headers: { 'sec-fetch-site': 'same-site' } },
      { rawBody: 'reason=a', headers: { ...form, origin: 'https://evil.example' } },
      { rawBody: 'reason=a', headers: { ...form, 'sec-fetch-site': 'cross-site' } },
      { rawBody: '{"reason":"a"}', headers: { 'content-type': 'text/plain', origin: 'https://evil.example' } },
      { body: REASON, headers: { cookie: 'redress=rdrs_something', origin: 'https://evil.example' } },
      { body: REASON, headers: { cookie: 'redress=rdrs_something', 'sec-fetch-site': 'cross-site' } },
    ]
    for (const one of tries) expect(await ask(path, one)).toMatchObject({ status: 403 })
    // Even without any sign of a browser: what a form can send is not taken.
    expect(await ask(path, { rawBody: 'reason=a', headers: form })).toMatchObject({ status: 415 })
    expect(await ask(path, { rawBody: '{"reason":"a"}', headers: { 'content-type': 'text/plain' } })).toMatchObject({
      status: 415,
    })
    expect(await app.jobs.find(jobs.ann.queued)).toMatchObject({ status: 'queued' })
    for (const method of ['GET', 'OPTIONS', 'POST']) {
      const headers = { origin: 'https://evil.example', 'access-control-request-method': 'POST' }
      const answer = await ask('/api/jobs', { method, headers })
      expect(Object.keys(answer.headers).filter((name) => name.startsWith('access-control-'))).toEqual([])
    }
  })

  test('own pages and programs are accepted', async () => {
    const { ask, server, jobs } = await makeWorld()
    const body = { ...REASON, dryRun: true }
    const path = `/api/jobs/${jobs.ann.queued}/cancel`
    const own: Record<string, string>[] = [{}, { origin: server.url }, { 'sec-fetch-site': 'same-origin' }]
    for (const headers of own) expect(await ask(path, { as: 'owner', body, headers })).toMatchObject({ status: 200 })
  })

  test('cannot frame, script or sniff pages of the server', async () => {
    const { ask } = await makeWorld()
    for (const path of ['/sign-in', '/api/jobs', '/nowhere', '/%zz', '/healthz', '/assets/base.css']) {
      const { headers } = await ask(path)
      expect(headers['content-security-policy']).toMatch(/default-src 'none'.*frame-ancestors 'none'/)
      expect(headers['x-content-type-options']).toBe('nosniff')
      expect(headers['cross-origin-resource-policy']).toBe('same-origin')
    }
  })
})

describe('invalid HTTP', () => {
  test.each([
    ['no HTTP at all', 'hello\r\n\r\n', 400],
    ['a header with a line break in its name', 'GET / HTTP/1.1\r\nHost: localhost\r\nX\nY: 1\r\n\r\n', 400],
    ['a header with a NUL', 'GET / HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n', 400],
    [
      'two lengths',
      'POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
      400,
    ],
    [
      'a length and chunks',
      'POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      400,
    ],
    [
      'a chunk that is none',
      'POST /sign-in HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
      400,
    ],
    ['no host', 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n', 403],
    ['too many headers', `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(70_000)}\r\n\r\n`, 431],
  ])('%s gets an error and a closed connection, and the server keeps working', async (_what, bytes, status) => {
    const { ask, server } = await makeWorld({ limits: { headersMs: 400, requestMs: 800 } })
    const answer = await sendRaw(server.url, bytes)
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(answer).toMatch(/\{"error":\{"code":"/)
    expect(await ask('/healthz')).toMatchObject({ status: 200 })
  })

  test('a request hidden in the body of another is not answered', async () => {
    const { server } = await makeWorld()
    const hidden = 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n'
    const head = `POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: ${hidden.length}\r\n\r\n`
    const last = 'GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
    const answer = await sendRaw(server.url, head + hidden + last)
    expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(2)
    expect(answer).not.toContain('"ok"')
  })
})

describe('resource limits', () => {
  test('a body over the limit is refused as soon as its size is known', async () => {
    const { ask, server } = await makeWorld({ limits: { bodyBytesMax: 1_000 } })
    const body = { type: 'step', input: { note: 'x'.repeat(2_000) } }
    const announced = await ask('/api/jobs', { as: 'operator', body })
    expect([announced.status, announced.json.error.code]).toEqual([413, 'PAYLOAD_TOO_LARGE'])
    const chunks = `POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n${'x'.repeat(2048)}\r\n`
    expect(await sendRaw(server.url, chunks)).toMatch(/^HTTP\/1.1 413 .*PAYLOAD_TOO_LARGE/s)
  })

  test('JSON that is nested too deeply is refused, and cyclic inputs do not hang', async () => {
    const { ask, app } = await makeWorld()
    const deep = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`
    const acts = '"reason":"a test","dryRun":true'
    for (const [path, rest] of [
      ['/api/replays', `{"all":true,${acts},"patch":`],
      ['/api/dead-letters/replay', `{"all":true,${acts},"patch":`],
      ['/api/dead-letters/1/replay', `{"again":true,${acts},"input":`],
      ['/api/jobs', `{"type":"step","input":`],
      ['/api/jobs', `{"type":`],
    ] as const) {
      const rawBody = `${rest}${deep(100_000)}}`
      const { status, json } = await ask(path, {
        as: 'admin',
        rawBody,
        headers: { 'content-type': 'application/json' },
      })
      expect({ status, code: json.error.code, path }).toEqual({ status: 400, code: 'OPTION_INVALID', path })
      expect(json.error.message).toContain('is nested more than 1000 levels deep')
    }
    const cycle: Record<string, unknown> = {}
    Object.assign(cycle, { a: cycle, b: cycle })
    await expect(app.perform('jobs.submit', { type: 'step', input: cycle })).rejects.toMatchObject({ httpStatus: 422 })
  })

  test('a refusal of 100,000 unknown fields is bounded', async () => {
    const { ask } = await makeWorld()
    const body = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`field${i}`, 1]))
    const { status, text } = await ask('/api/jobs', { as: 'admin', body })
    expect(status).toBe(400)
    expect(text.length).toBeLessThan(5_000)
  })

  test('slow headers and bodies end the connection', async () => {
    const { server, ask } = await makeWorld({ limits: { headersMs: 300, requestMs: 600 } })
    const slowHead = await openRawConnection(server.url)
    slowHead.socket.write('GET /healthz HTTP/1.1\r\nHost: loc')
    const slowBody = await openRawConnection(server.url)
    slowBody.socket.write(
      'POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"a',
    )
    await Promise.all([slowHead.closed, slowBody.closed])
    for (const { received } of [slowHead, slowBody]) expect(received()).toMatch(/^HTTP\/1.1 408 .*REQUEST_TOO_SLOW/s)
    expect(await ask('/healthz')).toMatchObject({ status: 200 })
  })

  test('a thousand idle connections are closed, and others are served meanwhile', async () => {
    const { server, ask } = await makeWorld({ limits: { headersMs: 1_500 } })
    const silent = await Promise.all(Array.from({ length: 1_000 }, () => openRawConnection(server.url)))
    let closed = 0
    for (const one of silent) void one.closed.then(() => closed++)
    expect(await ask('/api/jobs', { as: 'viewer' })).toMatchObject({ status: 200 })
    await until('all of them are closed', () => closed === 1_000)
    expect(await ask('/api/jobs', { as: 'viewer' })).toMatchObject({ status: 200 })
  })

  test('connections over the limit are closed, and open ones continue', async () => {
    const { server } = await makeWorld({ limits: { connectionsMax: 3 } })
    const first = await openRawConnection(server.url)
    first.socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n')
    await until('it is answered', () => first.received().includes('"ok"'))
    const others = await Promise.all(Array.from({ length: 5 }, () => openRawConnection(server.url)))
    let closed = 0
    for (const one of others) void one.closed.then(() => closed++)
    await until('those beyond are closed', () => closed >= 3)
    first.socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n')
    await until('the open one goes on', () => first.received().match(/"ok"/g)?.length === 2)
  })

  test('wrong secrets are rate limited by address, and valid ones are not', async () => {
    const { ask, app, server, clock } = await makeWorld({ limits: { wrongSecretsPerMinute: 5 } })
    const wrong = `rdr_${'x'.repeat(43)}`
    for (let n = 0; n < 5; n++) expect(await ask('/api/jobs', { token: wrong })).toMatchObject({ status: 401 })
    const refused = await ask('/api/jobs', { token: wrong })
    expect([refused.status, refused.json.error.code]).toEqual([429, 'TOO_MANY_REQUESTS'])
    expect(refused.headers['retry-after']).toBe('12')
    expect(await ask('/sign-in', { body: { code: wrong } })).toMatchObject({ status: 429 })
    expect(await ask('/api/jobs', { as: 'viewer' })).toMatchObject({ status: 200 })
    const form = { 'content-type': 'application/x-www-form-urlencoded', origin: server.url }
    const shown = await ask('/sign-in', { rawBody: `code=${wrong}`, headers: form })
    expect(shown).toMatchObject({ status: 429, headers: { 'retry-after': '12', 'content-type': 'text/html' } })
    expect(shown.text).toContain('Too many wrong secrets')
    const { code } = await app.perform('sign-in-links.create', { actor: 'olga' })
    expect(await ask('/sign-in', { body: { code } }), 'a good link').toMatchObject({ status: 200 })
    await clock.advance(12_000)
    expect(await ask('/api/jobs', { token: wrong })).toMatchObject({ status: 401 })
  })
})

test.each([true, false, null, '', ' 5', '1e1', '0x10', [1], { a: 1 }, '1.5'])(
  'what is no whole number is not taken for one, though it could be made into one: %j',
  async (value) => {
    const { ask } = await makeWorld()
    const body = { offset: value, reason: 'a test', dryRun: true }
    const { status, json } = await ask('/api/dead-letters/purge', { as: 'admin', body })
    expect({ status, error: json.error }).toMatchObject({
      ...{ status: 400, error: { code: 'OPTION_INVALID', problems: ['offset: must be a whole number'] } },
    })
  },
)

test('a missing field is reported as missing', async () => {
  const { ask } = await makeWorld()
  const { json } = await ask('/api/tokens', { as: 'admin', body: { role: 'viewer' } })
  expect(json.error).toMatchObject({ message: 'The input of tokens.create is invalid: name: is missing.' })
})

test.each(['', ' ', '\r\n'])(
  'a body of JSON that is empty (%j) is none: accepted where none is needed, and else told what is missing',
  async (rawBody) => {
    const { ask, jobs } = await makeWorld()
    const headers = { 'content-type': 'application/json' }
    const out = await ask('/sign-out', { method: 'POST', rawBody, headers })
    expect(out).toMatchObject({ status: 303 })
    const probe = await ask('/api/breakers/nowhere/probe', { as: 'operator', method: 'POST', rawBody, headers })
    expect(probe.json.error.code).not.toBe('REQUEST_INVALID')
    const cancel = await ask(`/api/jobs/${jobs.ann.queued}/cancel`, {
      as: 'operator',
      method: 'POST',
      rawBody,
      headers,
    })
    expect([cancel.status, cancel.json.error.message]).toEqual([400, expect.stringContaining('reason')])
  },
)

test('JSON that would change the prototype of an object is still refused', async () => {
  const { ask, jobs } = await makeWorld()
  const rawBody = '{"reason":"a","__proto__":{"dryRun":true}}'
  const headers = { 'content-type': 'application/json' }
  expect(await ask(`/api/jobs/${jobs.ann.queued}/cancel`, { as: 'operator', rawBody, headers })).toMatchObject({
    status: 400,
  })
})
