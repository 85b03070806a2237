import { describe, expect, onTestFinished, test } from 'vitest'
import { TEST_CA } from '../../../../test/support/servers/certificates.ts'
import {
  type ForwardProxyMode,
  type ForwardProxyOptions,
  forwardProxy,
} from '../../../../test/support/servers/forward-proxy.ts'
import { until } from '../../../../test/support/until.ts'
import { ProxyFailed } from '../../src/outbound/index.ts'
import { client, closedPort, internet, origin, resolver, silentServer, thrownBy } from './world.ts'

const PUBLIC = '93.184.215.14'
const PUBLIC_V6 = '2606:2800:21f:cb07:6820:80da:af6b:8b2c'
const names = () => resolver({ 'good.example': [PUBLIC], 'bad.example': [PUBLIC], 'both.example': [PUBLIC_V6, PUBLIC] })

async function proxy(options: ForwardProxyOptions = {}) {
  const started = await forwardProxy(options)
  onTestFinished(() => started.close())
  return started
}

describe('through a proxy', () => {
  test('http and https go to the checked address, which the proxy is told instead of the name', async () => {
    const [plain, secure] = [await origin(), await origin(undefined, { isSecure: true })]
    const way = await proxy({ routes: { [`${PUBLIC}:80`]: plain.port, [`${PUBLIC}:443`]: secure.port } })
    const { lookup, asked } = names()
    const net = internet({})
    const { text } = client({ lookup, ...net }, { proxy: way, ca: TEST_CA })
    expect(await text('http://good.example/a')).toBe('hello')
    expect(await text('https://good.example/b')).toBe('hello')
    expect(way.targets).toEqual([`${PUBLIC}:80`, `${PUBLIC}:443`])
    expect([...plain.requests, ...secure.requests]).toEqual(['GET good.example /a', 'GET good.example /b'])
    expect(asked).toEqual(['good.example', 'good.example'])
    // Nothing goes past the proxy.
    expect(net.dialled).toEqual([])
  })

  test('the certificate must be good for the name all the same', async () => {
    const secure = await origin(undefined, { isSecure: true })
    const way = await proxy({ routes: { [`${PUBLIC}:443`]: secure.port } })
    const { send } = client(names(), { proxy: way, ca: TEST_CA })
    await expect(send('https://bad.example/')).rejects.toMatchObject({ name: 'ConnectFailed', code: 'TLS_FAILED' })
    expect(secure.requests).toEqual([])
    await until('the tunnel is closed', () => way.open() === 0)
  })

  test('what may not be reached is not asked for', async () => {
    const way = await proxy()
    const { send } = client(resolver({ 'inner.example': ['10.0.0.1'] }), { proxy: way })
    await expect(send('http://inner.example/')).rejects.toMatchObject({ code: 'ADDRESS_NOT_ALLOWED' })
    await expect(send('http://127.0.0.1/')).rejects.toMatchObject({ code: 'ADDRESS_NOT_ALLOWED' })
    expect(way.targets).toEqual([])
  })

  test('an address of six parts is asked for in brackets, and the next one when the proxy cannot reach it', async () => {
    const plain = await origin()
    const way = await proxy({ routes: { [`${PUBLIC}:80`]: plain.port } })
    const { text } = client(names(), { proxy: way })
    expect(await text('http://both.example/')).toBe('hello')
    expect(way.targets).toEqual([`[${PUBLIC_V6}]:80`, `${PUBLIC}:80`])
  })

  test('a login goes to the proxy and never to the origin', async () => {
    const plain = await origin()
    const way = await proxy({ login: 'ann:p%40ss', routes: { [`${PUBLIC}:80`]: plain.port } })
    // The server compares what arrives with the text itself.
    const { send } = client(names(), { proxy: { url: way.url } })
    await expect(send('http://good.example/')).rejects.toMatchObject({ code: 'PROXY_AUTH', status: 407 })
    const right = client(names(), { proxy: { url: way.url.replace('p%40ss', encodeURIComponent('p%40ss')) } })
    expect(await right.text('http://good.example/')).toBe('hello')
    expect(Object.keys(plain.headers[0] ?? {})).toEqual(['host', 'connection'])
  })

  test('the proxy may speak TLS itself', async () => {
    const secure = await origin(undefined, { isSecure: true })
    const way = await proxy({ isSecure: true, routes: { [`${PUBLIC}:443`]: secure.port } })
    const { text } = client(names(), { proxy: way, ca: TEST_CA })
    expect(await text('https://good.example/')).toBe('hello')
    const doubter = client(names(), { proxy: way })
    await expect(doubter.send('https://good.example/')).rejects.toMatchObject({ code: 'PROXY_UNREACHABLE' })
  })

  test('an invalid proxy is refused at once, and its password is not shown', () => {
    for (const url of ['socks5://ann:secret@127.0.0.1', 'ann:secret', 'http://ann:secret@127.0.0.1/path']) {
      expect(() => client({}, { proxy: { url } })).toThrow(/^A proxy must be an address like/)
    }
  })
})

describe('a failing proxy is distinguished from a failing origin', () => {
  const cases: [mode: ForwardProxyMode, code: string, status: number | null][] = [
    ['refuses', 'PROXY_REFUSED', 403],
    ['fails', 'PROXY_GATEWAY', 502],
    ['hangs', 'PROXY_TIMEOUT', null],
    ['resets', 'PROXY_BROKEN', null],
    ['babbles', 'PROXY_BROKEN', null],
    ['intrudes', 'PROXY_BROKEN', 200],
  ]
  test.each(cases)('one that %s: %s', async (mode, code, status) => {
    const plain = await origin()
    const way = await proxy({ mode, routes: { [`${PUBLIC}:80`]: plain.port } })
    const { send } = client(names(), { proxy: way, connectMs: mode === 'hangs' ? 100 : 10_000 })
    const error = await thrownBy(send('http://good.example/'))
    expect(error).toBeInstanceOf(ProxyFailed)
    expect(error).toMatchObject({ code, status })
    expect(plain.requests).toEqual([])
    await until('nothing is left open', () => way.open() + plain.open() === 0)
  })

  test('one that is not there, or died', async () => {
    const nobody = client(names(), { proxy: { url: `http://127.0.0.1:${await closedPort()}` } })
    await expect(nobody.send('http://good.example/')).rejects.toMatchObject({ code: 'PROXY_UNREACHABLE' })
    const plain = await origin()
    const way = await forwardProxy({ routes: { [`${PUBLIC}:80`]: plain.port } })
    const { text, send } = client(names(), { proxy: way })
    expect(await text('http://good.example/')).toBe('hello')
    await way.close()
    await until('the origin sees it', () => plain.open() === 0)
    await expect(send('http://good.example/')).rejects.toMatchObject({ code: 'PROXY_UNREACHABLE' })
  })

  test('an origin that hangs up behind the proxy is the origin’s failure', async () => {
    const rude = await origin((response) => response.destroy())
    const way = await proxy({ routes: { [`${PUBLIC}:80`]: rude.port } })
    const { send } = client(names(), { proxy: way })
    const error = await thrownBy(send('http://good.example/'))
    expect(error).not.toBeInstanceOf(ProxyFailed)
    expect(error).toMatchObject({ code: 'UND_ERR_SOCKET' })
  })

  test('a signal ends the wait for a tunnel', async () => {
    const silent = await silentServer()
    const stop = new AbortController()
    const { send } = client(names(), { proxy: { url: `http://127.0.0.1:${silent.port}` } })
    const sent = thrownBy(send('http://good.example/', { signal: stop.signal }))
    await until('the proxy has the connection', () => silent.open() === 1)
    stop.abort(new Error('gone'))
    expect((await sent).message).toBe('gone')
    await until('the connection is closed', () => silent.open() === 0)
  })
})
