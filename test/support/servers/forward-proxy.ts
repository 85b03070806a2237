import { createServer } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { connect, isIP, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { TEST_SERVER } from './certificates.ts'

/**
 * ok: connects. refuses, fails: answers 403, 502. hangs: takes the connection and says nothing. resets: hangs up on
 * the question. babbles: says what is no HTTP. cuts: connects, and hangs up at the first byte from the other side.
 * intrudes: says something of its own in the tunnel.
 */
export type ForwardProxyMode = 'ok' | 'refuses' | 'fails' | 'hangs' | 'resets' | 'babbles' | 'cuts' | 'intrudes'

export interface ForwardProxyOptions {
  mode?: ForwardProxyMode
  /** 'user:password'; anything else is answered with 407. */
  login?: string
  /** 'address:port' as asked for -> the port on this machine that stands for it. */
  routes?: Readonly<Record<string, number>>
  /** Speaks TLS itself. */
  isSecure?: boolean
}

export interface ForwardProxy {
  /** With the login, if it has one. */
  url: string
  port: number
  /** What it was asked to connect to, in order. */
  readonly targets: string[]
  /** How many tunnels are open now. */
  open(): number
  /** Becomes another one, for the connections to come. */
  become(mode: ForwardProxyMode): void
  /** Dies: hangs up on everybody, and takes no connection any more. Also what ends a test. */
  close(): Promise<void>
}

const ANSWERS = { refuses: '403 Forbidden', fails: '502 Bad Gateway' } as const

/** A real forward proxy on this machine. It never connects to another one, whatever it is asked for. */
export async function forwardProxy(options: ForwardProxyOptions = {}): Promise<ForwardProxy> {
  const { login, routes = {}, isSecure = false } = options
  let mode = options.mode ?? 'ok'
  const targets: string[] = []
  const sockets = new Set<Duplex>()
  const tunnels = new Set<Duplex>()
  const expected = login === undefined ? undefined : `Basic ${Buffer.from(login).toString('base64')}`

  const server = isSecure ? createSecureServer(TEST_SERVER) : createServer()
  server.on('request', (_, response) => response.writeHead(405).end())
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).once('close', () => sockets.delete(socket))
  })
  server.on('connect', (request, client: Duplex) => {
    const target = request.url ?? ''
    targets.push(target)
    client.on('error', () => undefined)
    const say = (status: string) => client.end(`HTTP/1.1 ${status}\r\nContent-Length: 0\r\n\r\n`)
    if (expected !== undefined && request.headers['proxy-authorization'] !== expected) {
      say('407 Proxy Authentication Required')
      return
    }
    if (mode === 'hangs') return
    if (mode === 'resets') return void client.destroy()
    if (mode === 'babbles') return void client.end('220 mail.example ESMTP\r\n')
    if (mode === 'refuses' || mode === 'fails') return void say(ANSWERS[mode])
    const upstream = upstreamOf(target, routes)
    if (upstream === null) return void say('502 Bad Gateway')
    sockets.add(upstream)
    let isThere = false
    upstream.once('connect', () => {
      isThere = true
      tunnels.add(client)
      client.write(`HTTP/1.1 200 Connection established\r\n\r\n${mode === 'intrudes' ? 'HTTP/1.1 200 OK\r\n\r\n' : ''}`)
      if (mode === 'cuts') upstream.once('data', () => client.destroy())
      else upstream.pipe(client)
      client.pipe(upstream)
    })
    upstream.on('error', () => (isThere ? client.destroy() : say('502 Bad Gateway')))
    upstream.once('close', () => {
      sockets.delete(upstream)
      client.end()
    })
    client.once('close', () => {
      tunnels.delete(client)
      upstream.destroy()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  return {
    url: `${isSecure ? 'https' : 'http'}://${login === undefined ? '' : `${login}@`}127.0.0.1:${port}`,
    port,
    targets,
    open: () => tunnels.size,
    become: (next) => {
      mode = next
    },
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

function upstreamOf(target: string, routes: Readonly<Record<string, number>>): Socket | null {
  const route = routes[target]
  if (route !== undefined) return connect(route, '127.0.0.1')
  const { hostname, port } = new URL(`http://${target}`)
  const address = hostname.replace(/^\[(.*)\]$/, '$1')
  const isHere = address === '::1' || (isIP(address) === 4 && address.startsWith('127.'))
  // 80 is what the parser leaves out.
  return isHere ? connect(port === '' ? 80 : Number(port), address) : null
}
