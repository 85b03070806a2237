import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TEST_CA } from '../../../../test/support/servers/certificates.ts'
import { OutboundRefused, RedirectFailed } from '../../src/outbound/index.ts'
import { client, internet, type Origin, resolver, startOrigin, thrownBy } from './world.ts'

const [ONE, TWO] = ['93.184.215.14', '93.184.215.15']
const names = resolver({ 'good.example': [ONE], 'other.example': [TWO], 'inner.example': ['192.168.0.1'] })

let plain: Origin
let secure: Origin
let other: Origin

/** /to/STATUS/LOCATION answers with that; /chain/N with a redirect to the next below. */
function answer(response: ServerResponse, path: string): void {
  const [, status, location] = /^\/to\/(\d+)\/(.*)$/.exec(path) ?? []
  const left = Number(/^\/chain\/(\d+)$/.exec(path)?.[1] ?? 0)
  if (status !== undefined) response.writeHead(Number(status), { location: decodeURIComponent(location ?? '') })
  if (left > 0) response.writeHead(302, { location: left > 1 ? `/chain/${left - 1}` : '/there' })
  if (path === '/bare') response.writeHead(302)
  if (path === '/twice')
    response.writeHead(
      302,
      [
        ['location', '/a'],
        ['location', '/b'],
      ].flat(),
    )
  response.end('hello')
}

beforeAll(async () => {
  const start = (isSecure: boolean) => startOrigin((response, { url = '' }) => answer(response, url), { isSecure })
  ;[plain, secure, other] = await Promise.all([start(false), start(true), start(false)])
})
afterAll(() => Promise.all([plain, secure, other].map((server) => server.close())))

/** Port 443 of the one public address speaks TLS. */
function world() {
  for (const { requests, headers } of [plain, secure, other]) for (const list of [requests, headers]) list.length = 0
  const net = internet({ [ONE]: plain.port, [TWO]: other.port })
  const https = internet({ [ONE]: secure.port })
  const connect: typeof net.connect = (target, signal) => (target.port === 443 ? https : net).connect(target, signal)
  return client({ lookup: names.lookup, connect }, { ca: TEST_CA })
}

const to = (status: number, location: string) => `http://good.example/to/${status}/${encodeURIComponent(location)}`

describe('a redirect', () => {
  test.each([301, 302, 303, 307, 308])('of %i is followed, and the answer says from where it came', async (status) => {
    const answer = await world().send(to(status, '/there'))
    answer.body.destroy()
    expect(answer).toMatchObject({ status: 200, redirects: 1 })
    expect(answer.url.href).toBe('http://good.example/there')
  })

  test.each([300, 304, 305, 306])('of %i is an answer like others', async (status) => {
    const answer = await world().send(to(status, '/there'))
    answer.body.destroy()
    expect(answer).toMatchObject({ status, redirects: 0 })
  })

  test('that leads nowhere is the answer itself; one that leads to two places, or to no URL, fails', async () => {
    const { send } = world()
    const bare = await send('http://good.example/bare')
    bare.body.destroy()
    expect(bare.status).toBe(302)
    for (const url of ['http://good.example/twice', to(302, 'http://')]) {
      await expect(send(url)).rejects.toMatchObject({ name: 'RedirectFailed', code: 'REDIRECT_INVALID' })
    }
  })

  test('is followed five times and not six, unless it is said otherwise; with 0 it is the answer', async () => {
    const { send } = world()
    const five = await send('http://good.example/chain/5')
    five.body.destroy()
    expect(five.redirects).toBe(5)
    const six = await thrownBy(send('http://good.example/chain/6'))
    expect(six).toBeInstanceOf(RedirectFailed)
    expect(six).toMatchObject({ code: 'TOO_MANY_REDIRECTS', hop: 5 })
    const more = await send('http://good.example/chain/6', { redirectsMax: 6 })
    more.body.destroy()
    expect(more.redirects).toBe(6)
    const none = await send('http://good.example/chain/1', { redirectsMax: 0 })
    none.body.destroy()
    expect(none).toMatchObject({ status: 302, redirects: 0 })
  })

  test('in a circle ends at once, with a word of its own', async () => {
    const { send } = world()
    await expect(send(to(302, ''))).rejects.toMatchObject({ code: 'REDIRECT_LOOP', hop: 0 })
    await expect(send(to(302, '#elsewhere'))).rejects.toMatchObject({ code: 'REDIRECT_LOOP', hop: 0 })
    expect(plain.requests).toHaveLength(2)
  })

  test('to where requests may not go is refused, and the refusal says at which step', async () => {
    const { send } = world()
    const targets = ['http://127.0.0.1/', '//[::1]/', 'http://inner.example/', 'http://good.example:22/', 'file:///etc']
    for (const target of targets) {
      const error = await thrownBy(send(to(302, target)))
      expect(error).toBeInstanceOf(OutboundRefused)
      expect(error).toMatchObject({ hop: 1 })
    }
    await expect(send('http://127.0.0.1/')).rejects.toMatchObject({ hop: 0 })
    const inner = { code: 'ADDRESS_NOT_ALLOWED', host: 'inner.example', address: '192.168.0.1' }
    await expect(send('http://inner.example/')).rejects.toMatchObject({ ...inner, hop: 0 })
    await expect(send(to(302, 'http://inner.example/'))).rejects.toMatchObject({ ...inner, hop: 1 })
  })

  test('from https to http is not followed; from http to https it is', async () => {
    const { send, text } = world()
    expect(await text(to(301, 'https://good.example/'))).toBe('hello')
    const down = `https://good.example/to/302/${encodeURIComponent('http://good.example/')}`
    await expect(send(down)).rejects.toMatchObject({ code: 'REDIRECT_DOWNGRADE' })
    expect(plain.requests).toHaveLength(1)
  })
})

describe('what goes along', () => {
  const headers = {
    authorization: 'Bearer abc',
    Cookie: 'a=b',
    'x-api-key': 'k',
    accept: 'text/*',
    'user-agent': 'me',
  }

  test('all headers, to the same origin', async () => {
    await world().text(to(302, '/there'), { headers })
    const [, second] = plain.headers
    expect(second).toMatchObject({ authorization: 'Bearer abc', cookie: 'a=b', 'x-api-key': 'k', accept: 'text/*' })
  })

  test('to another origin only neutral headers go, and the others are not sent again later', async () => {
    const back = encodeURIComponent('http://good.example/there')
    await world().text(to(302, `http://other.example/to/302/${back}`), { headers })
    const seen = [other.headers[0], plain.headers[1]].map((sent) => Object.keys(sent ?? {}).sort())
    expect(seen).toEqual([
      ['accept', 'connection', 'host', 'user-agent'],
      ['accept', 'connection', 'host', 'user-agent'],
    ])
  })

  test('another scheme or port is another origin', async () => {
    await world().text(to(302, 'https://good.example/there'), { headers })
    expect(secure.headers[0]).not.toHaveProperty('authorization')
  })

  const methods: [status: number, method: 'POST' | 'PUT' | 'HEAD', becomes: string][] = [
    [301, 'POST', 'GET'],
    [302, 'POST', 'GET'],
    [303, 'POST', 'GET'],
    [303, 'PUT', 'GET'],
    [301, 'PUT', 'PUT'],
    [307, 'POST', 'POST'],
    [308, 'POST', 'POST'],
    [303, 'HEAD', 'HEAD'],
  ]
  test.each(methods)('%i makes a %s a %s', async (status, method, becomes) => {
    const body = method === 'HEAD' ? {} : { body: '{}', headers: { 'content-type': 'application/json' } }
    await world().text(to(status, '/there'), { method, ...body })
    expect(plain.requests[1]).toBe(`${becomes} good.example /there`)
    const hasBody = ['POST', 'PUT'].includes(becomes)
    expect([plain.headers[1]?.['content-type'], plain.headers[1]?.['content-length']]).toEqual(
      hasBody ? ['application/json', '2'] : [undefined, undefined],
    )
  })

  test('a body is not carried to another origin', async () => {
    const sent = world().send(to(307, 'http://other.example/'), { method: 'POST', body: 'secret' })
    await expect(sent).rejects.toMatchObject({ code: 'REDIRECT_WITH_BODY' })
    expect(other.requests).toEqual([])
  })
})
