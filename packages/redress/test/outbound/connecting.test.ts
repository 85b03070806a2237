import { request } from 'undici'
import { describe, expect, test } from 'vitest'
import { TEST_CA } from '../../../../test/support/servers/certificates.ts'
import { until } from '../../../../test/support/until.ts'
import { ConnectFailed, NameNotResolved, OutboundTimeout, timeoutPhase } from '../../src/outbound/index.ts'
import { client, closedPort, internet, origin, resolver, silentServer, textOf, thrownBy } from './world.ts'

const PUBLIC = '93.184.215.14'
const OTHER = '93.184.215.15'

describe('a connection', () => {
  test('goes to the address that was checked, with the name in the Host header, and the name is looked up once', async () => {
    const server = await origin()
    const names = resolver({ 'good.example': [PUBLIC] })
    const net = internet({ [PUBLIC]: server.port })
    const { text } = client({ ...names, ...net })
    expect(await text('http://good.example/a?b=1')).toBe('hello')
    expect(net.dialled).toEqual([`${PUBLIC} 80`])
    expect(names.asked).toEqual(['good.example'])
    expect(server.requests).toEqual(['GET good.example /a?b=1'])
  })

  test('is kept for its own origin, and another name with the same address is looked up and checked by itself', async () => {
    const server = await origin()
    const names = resolver({ 'one.example': [PUBLIC], 'two.example': [PUBLIC] })
    const net = internet({ [PUBLIC]: server.port })
    const { text } = client({ ...names, ...net }, { connectionsPerHost: 1 })
    for (const url of ['http://one.example/1', 'http://one.example/2', 'http://two.example/3']) await text(url)
    expect(net.dialled).toEqual([`${PUBLIC} 80`, `${PUBLIC} 80`])
    expect(names.asked).toEqual(['one.example', 'two.example'])
  })

  test('that is new is checked anew: a name that has moved inside is not followed there', async () => {
    const server = await origin((response) => response.setHeader('connection', 'close').end('once'))
    const names = resolver({ 'moves.example': (times) => (times === 1 ? [PUBLIC] : ['127.0.0.1']) })
    const net = internet({ [PUBLIC]: server.port })
    const { text, send } = client({ ...names, ...net })
    expect(await text('http://moves.example/')).toBe('once')
    await expect(send('http://moves.example/')).rejects.toMatchObject({ code: 'ADDRESS_NOT_ALLOWED' })
    expect(net.dialled).toEqual([`${PUBLIC} 80`])
  })

  test('is made to the next address of the same answer when the first does not take it', async () => {
    const server = await origin()
    const names = resolver({ 'two.example': [OTHER, PUBLIC] })
    const net = internet({ [OTHER]: await closedPort(), [PUBLIC]: server.port })
    const { text } = client({ ...names, ...net })
    expect(await text('http://two.example/')).toBe('hello')
    expect(net.dialled).toEqual([`${OTHER} 80`, `${PUBLIC} 80`])
    expect(names.asked).toEqual(['two.example'])
  })

  test('leaves time for the others when the first address says nothing at all', async () => {
    const server = await origin()
    const names = resolver({ 'four.example': [OTHER, PUBLIC, '93.184.215.16', '93.184.215.17'] })
    const net = internet({ [PUBLIC]: server.port })
    const connect: typeof net.connect = (target, signal) =>
      target.address === OTHER ? new Promise(() => undefined) : net.connect(target, signal)
    const { text } = client({ ...names, connect }, { connectMs: 2_000 })
    const startedMs = performance.now()
    expect(await text('http://four.example/')).toBe('hello')
    // A quarter of the time is its share.
    expect(performance.now() - startedMs).toBeLessThan(1_900)
  })

  test('to a closed port and to an unknown name are failures of their own', async () => {
    const port = await closedPort()
    const { send } = client({ allow: [`127.0.0.1:${port}`], ...resolver({ 'empty.example': [] }) })
    const refusal = await thrownBy(send(`http://127.0.0.1:${port}/`))
    expect(refusal).toBeInstanceOf(ConnectFailed)
    expect(refusal).toMatchObject({ code: 'CONNECT_REFUSED', host: '127.0.0.1' })
    for (const name of ['unknown.example', 'empty.example']) {
      const error = await thrownBy(send(`http://${name}/`))
      expect(error).toBeInstanceOf(NameNotResolved)
      expect(error).toMatchObject({ code: 'NAME_NOT_RESOLVED', host: name })
    }
  })
})

describe('over TLS', () => {
  test('the certificate must be good for the name, whatever the address', async () => {
    const server = await origin(undefined, { isSecure: true })
    const names = resolver({ 'good.example': [PUBLIC], 'bad.example': [PUBLIC] })
    const net = internet({ [PUBLIC]: server.port })
    const { text, send } = client({ ...names, ...net }, { ca: TEST_CA })
    expect(await text('https://good.example./')).toBe('hello')
    await expect(send('https://bad.example/')).rejects.toMatchObject({
      code: 'TLS_FAILED',
      cause: { code: 'ERR_TLS_CERT_ALTNAME_INVALID' },
    })
    // Not the address either, which the certificate does not have.
    await expect(send(`https://${PUBLIC}/`)).rejects.toMatchObject({ code: 'TLS_FAILED' })
    expect(server.requests).toEqual(['GET good.example. /'])
    expect(server.servernames[0]).toBe('good.example')
  })

  test('a Host header cannot choose another certificate or another site', async () => {
    const { send } = client({ ...resolver({ 'good.example': [PUBLIC] }), ...internet({}) }, { ca: TEST_CA })
    await expect(send('https://good.example/', { headers: { Host: 'bad.example' } })).rejects.toMatchObject({
      code: 'HEADER_NOT_ALLOWED',
    })
  })

  test('a certificate for an address is good for the address', async () => {
    const server = await origin(undefined, { isSecure: true })
    const { text } = client({ allow: [`127.0.0.1:${server.port}`] }, { ca: TEST_CA })
    expect(await text(`https://127.0.0.1:${server.port}/`)).toBe('hello')
    expect(server.servernames).toEqual([false])
  })

  test('a server without a trusted certificate, or without TLS, gets no request', async () => {
    const stranger = await origin(undefined, { isSecure: true })
    const plain = await origin()
    const { send } = client({ allow: ['127.0.0.1'], ports: [stranger.port, plain.port] })
    for (const { port } of [stranger, plain]) {
      await expect(send(`https://127.0.0.1:${port}/`)).rejects.toMatchObject({ code: 'TLS_FAILED' })
    }
    expect([...stranger.requests, ...plain.requests]).toEqual([])
    await until('the connections are closed', () => stranger.open() + plain.open() === 0)
  })
})

describe('in time', () => {
  test('a name server that never answers is given up', async () => {
    const { send } = client({ lookup: () => new Promise(() => undefined) }, { connectMs: 30 })
    await expect(send('http://slow.example/')).rejects.toMatchObject({ code: 'NAME_NOT_RESOLVED' })
  })

  test('a connection that is never taken is given up, and one that comes too late is closed', async () => {
    const server = await silentServer()
    const net = internet({ [PUBLIC]: server.port })
    const gate = Promise.withResolvers<void>()
    const connect: typeof net.connect = async (target, signal) => {
      const socket = await net.connect(target, signal)
      await gate.promise
      return socket
    }
    const { send } = client({ connect }, { connectMs: 50 })
    const error = await thrownBy(send(`http://${PUBLIC}/`))
    expect([error.code, timeoutPhase(error)]).toEqual(['CONNECT_TIMEOUT', 'connect'])
    expect(server.open()).toBe(1)
    gate.resolve()
    await until('the late connection is closed', () => server.open() === 0)
  })

  test('a TLS handshake that never ends is given up', async () => {
    const server = await silentServer()
    const { send } = client({ allow: [`127.0.0.1:${server.port}`] }, { connectMs: 50 })
    const error = await thrownBy(send(`https://127.0.0.1:${server.port}/`))
    expect(timeoutPhase(error)).toBe('connect')
    await until('the connection is closed', () => server.open() === 0)
  })

  test('headers and body have limits of their own', async () => {
    const silent = await silentServer()
    const half = await origin((response) => response.writeHead(200, { 'content-length': 10 }).write('half'))
    const early = client({ allow: [`127.0.0.1:${silent.port}`] }, { headersMs: 50 })
    const late = client({ allow: [`127.0.0.1:${half.port}`] }, { bodyMs: 50 })
    const answer = await late.send(`http://127.0.0.1:${half.port}/`)
    const errors = await Promise.all([
      thrownBy(early.send(`http://127.0.0.1:${silent.port}/`)),
      thrownBy(textOf(answer.body)),
    ])
    expect(errors.map(timeoutPhase)).toEqual(['headers', 'body'])
    await until('the connections are closed', () => silent.open() + half.open() === 0)
  })

  test('the limit for the whole ends a body that keeps coming', async () => {
    const drip = await origin((response) => {
      response.writeHead(200)
      const more = () => void (response.destroyed || response.write('x', () => setImmediate(more)))
      more()
    })
    const { text } = client({ allow: [`127.0.0.1:${drip.port}`] })
    const error = await thrownBy(text(`http://127.0.0.1:${drip.port}/`, { wholeMs: 200 }))
    expect(error).toBeInstanceOf(OutboundTimeout)
    expect(timeoutPhase(error)).toBe('whole')
    await until('the connection is closed', () => drip.open() === 0)
  })

  test('an invalid timeout is refused', () => {
    for (const other of [null, undefined, new Error('x'), { code: 'toString' }, { code: 7 }]) {
      expect(timeoutPhase(other)).toBeNull()
    }
  })
})

describe('a signal', () => {
  const gone = new Error('the caller has gone')

  test('ends a request while its name is looked up', async () => {
    const stop = new AbortController()
    const { send } = client({ lookup: () => new Promise(() => stop.abort(gone)) })
    await expect(send('http://slow.example/', { signal: stop.signal })).rejects.toBe(gone)
  })

  test('ends a request while it waits for TLS, and the connection with it', async () => {
    const server = await silentServer()
    const stop = new AbortController()
    const { send } = client({ allow: [`127.0.0.1:${server.port}`] })
    const sent = thrownBy(send(`https://127.0.0.1:${server.port}/`, { signal: stop.signal }))
    await until('the server has the connection', () => server.open() === 1)
    stop.abort(gone)
    expect(await sent).toBe(gone)
    await until('the connection is closed', () => server.open() === 0)
  })

  test('ends one of two that wait, and the other still gets its answer', async () => {
    const server = await origin()
    const gate = Promise.withResolvers<void>()
    const stop = new AbortController()
    const net = internet({ [PUBLIC]: server.port })
    const lookup = async () => {
      await gate.promise
      return [{ address: PUBLIC, family: 4 as const }]
    }
    const { send, text } = client({ lookup, connect: net.connect })
    const first = thrownBy(send('http://good.example/1', { signal: stop.signal }))
    const second = text('http://good.example/2', { signal: new AbortController().signal })
    stop.abort(gone)
    expect(await first).toBe(gone)
    gate.resolve()
    expect(await second).toBe('hello')
    expect(server.requests).toEqual(['GET good.example /2'])
  })

  test('ends one of two that wait, and the other, which has no signal, still gets its connection', async () => {
    const server = await origin()
    const gate = Promise.withResolvers<void>()
    const stop = new AbortController()
    const lookup = async () => {
      await gate.promise
      return [{ address: PUBLIC, family: 4 as const }]
    }
    const { agent } = client({ lookup, ...internet({ [PUBLIC]: server.port }) })
    const first = thrownBy(request('http://good.example/1', { dispatcher: agent, signal: stop.signal }))
    const second = request('http://good.example/2', { dispatcher: agent })
    stop.abort(gone)
    expect(await first).toBe(gone)
    gate.resolve()
    expect(await (await second).body.text()).toBe('hello')
  })

  test('ends a request that waits for its headers, or is in the middle of its body', async () => {
    const silent = await silentServer()
    const half = await origin((response) => response.writeHead(200, { 'content-length': 10 }).write('half'))
    const { send } = client({ allow: ['127.0.0.1'], ports: [silent.port, half.port] })
    const [early, late] = [new AbortController(), new AbortController()]
    const sent = thrownBy(send(`http://127.0.0.1:${silent.port}/`, { signal: early.signal }))
    await until('the server has the connection', () => silent.open() === 1)
    early.abort(gone)
    expect(await sent).toBe(gone)
    const { body } = await send(`http://127.0.0.1:${half.port}/`, { signal: late.signal })
    late.abort(gone)
    expect(await thrownBy(textOf(body))).toBe(gone)
    await until('the connections are closed', () => silent.open() + half.open() === 0)
  })

  test('that was given before it all begins lets nothing begin', async () => {
    const names = resolver({ 'good.example': [PUBLIC] })
    const net = internet({})
    const { send } = client({ ...names, ...net })
    await expect(send('http://good.example/', { signal: AbortSignal.abort(gone) })).rejects.toBe(gone)
    expect(net.dialled).toEqual([])
  })
})

describe('an agent', () => {
  test('that is destroyed ends what it was doing, and leaves no connection behind', async () => {
    const silent = await silentServer()
    const server = await origin()
    const { send, text, agent } = client({ allow: ['127.0.0.1'], ports: [silent.port, server.port] })
    await text(`http://127.0.0.1:${server.port}/`)
    const handshaking = thrownBy(send(`https://127.0.0.1:${silent.port}/`))
    const waiting = thrownBy(send(`http://127.0.0.1:${silent.port}/`))
    await until('both are under way', () => silent.open() === 2)
    await agent.destroy()
    expect([(await handshaking).code, (await waiting).code]).toEqual(['UND_ERR_DESTROYED', 'UND_ERR_DESTROYED'])
    await until('all connections are closed', () => silent.open() + server.open() === 0)
  })

  test('opens no more connections to an origin than it may', async () => {
    const server = await origin()
    const { text } = client({ allow: [`127.0.0.1:${server.port}`] }, { connectionsPerHost: 2 })
    await Promise.all(Array.from({ length: 10 }, (_, i) => text(`http://127.0.0.1:${server.port}/${i}`)))
    expect([server.taken(), server.requests.length]).toEqual([2, 10])
  })
})
