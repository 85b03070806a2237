import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP, isIPv6, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { RedressError } from '../core/errors.ts'
import { readEarlyAnswers } from './early-answer.ts'
import { type ConnectCode, ConnectFailed, codeOf, NameNotResolved, ProxyFailed } from './errors.ts'
import type { OutboundGuard, ResolvedAddress } from './guard.ts'
import { withoutDot } from './rules.ts'

export interface ConnectorOptions {
  guard: OutboundGuard
  proxy: ProxyAddress | null
  /** Certificates to trust instead of those that Node brings. */
  ca: string | undefined
  /** For looking the name up, connecting, the proxy and TLS, taken together. */
  connectMs: number
}

const TRIES_MAX = 4

interface Way extends ConnectorOptions {
  host: string
  endsAtMs: number
  signal: AbortSignal
}

/**
 * The only place where connections are made. The name is looked up here and nowhere else, and what is connected to is
 * an address of that very answer: there is no moment at which a name could come to mean something else.
 */
export async function openConnection(url: URL, options: ConnectorOptions, signal: AbortSignal): Promise<Socket> {
  const { guard, connectMs } = options
  const host = withoutDot(url.hostname.replace(/^\[(.*)\]$/, '$1'))
  const way: Way = { ...options, host, endsAtMs: performance.now() + connectMs, signal }
  const target = await within(
    limitOf(way),
    () => new NameNotResolved(host, 'no name server answered in time'),
    () => guard.resolve(url),
  )
  const [address, socket] = await firstThatTakesIt([target, ...target.others].slice(0, TRIES_MAX), target.port, way)
  return readEarlyAnswers(url.protocol === 'https:' ? await secured(socket, address, way) : socket)
}

async function firstThatTakesIt(
  addresses: readonly ResolvedAddress[],
  port: number,
  way: Way,
): Promise<[address: string, socket: Socket]> {
  for (const [i, { address }] of addresses.entries()) {
    const isLast = i === addresses.length - 1
    // Who does not answer must leave time for the others.
    const limit = limitOf(way, addresses.length - i)
    try {
      return [address, await reached({ address, port }, limit, way)]
    } catch (error) {
      if (isLast || way.signal.aborted || !isWorthAnother(error)) throw error
    }
  }
  throw new NameNotResolved(way.host, 'it has no address')
}

function isWorthAnother(error: unknown): boolean {
  return error instanceof ConnectFailed || (error instanceof ProxyFailed && error.code === 'PROXY_GATEWAY')
}

async function reached(target: { address: string; port: number }, limit: Limit, way: Way): Promise<Socket> {
  const { guard, proxy, ca, host } = way
  if (proxy !== null) return tunnel({ proxy, target, ca }, limit)
  const late = () => failed('CONNECT_TIMEOUT', way, target.address, 'did not take the connection in time')
  try {
    return await within(
      limit,
      late,
      (signal) => guard.connect(target, signal),
      (socket) => socket.destroy(),
    )
  } catch (error) {
    if (error instanceof ConnectFailed || way.signal.aborted) throw error
    const code = codeOf(error)
    const isRefusal = code === 'ECONNREFUSED'
    const why = isRefusal ? 'refused the connection' : `could not be reached (${code ?? 'unknown'})`
    throw new ConnectFailed(isRefusal ? 'CONNECT_REFUSED' : 'CONNECT_FAILED', host, target.address, why, error)
  }
}

/** TLS with the name, whatever the address: the certificate says that we are where we wanted to be. */
async function secured(socket: Socket, address: string, way: Way): Promise<Socket> {
  const { host, ca } = way
  const late = () => failed('CONNECT_TIMEOUT', way, address, 'did not finish the TLS handshake in time')
  const begin = (signal: AbortSignal) =>
    new Promise<Socket>((resolve, reject) => {
      const tls = connectTls({
        socket,
        host,
        // A server name is a name: for an address there is none, and the certificate must have the address.
        servername: isIP(host) === 0 ? host : '',
        ALPNProtocols: ['http/1.1'],
        ...(ca === undefined ? {} : { ca }),
      })
      const stop = () => tls.destroy()
      signal.addEventListener('abort', stop, { once: true })
      tls.once('secureConnect', () => {
        signal.removeEventListener('abort', stop)
        tls.off('error', reject)
        resolve(tls)
      })
      tls.once('error', reject)
    })
  try {
    return await within(limitOf(way), late, begin, (tls) => tls.destroy())
  } catch (error) {
    socket.destroy()
    if (error instanceof ConnectFailed || way.signal.aborted) throw error
    const code = codeOf(error) ?? 'unknown'
    const isBroken = code === 'ECONNRESET' || code === 'EPIPE'
    const why = isBroken ? 'broke the TLS handshake off' : `could not be trusted or understood over TLS (${code})`
    throw new ConnectFailed(isBroken ? 'CONNECT_FAILED' : 'TLS_FAILED', host, address, why, error)
  }
}

function failed(code: ConnectCode, { host }: Way, address: string, why: string): ConnectFailed {
  return new ConnectFailed(code, host, address, why)
}

function limitOf({ endsAtMs, signal }: Way, shares = 1): Limit {
  return { ms: Math.max(endsAtMs - performance.now(), 0) / shares, signal }
}

/** A proxy that requests go through. */
export interface OutboundProxy {
  /** 'http://user:password@host:port', or https: to speak TLS with the proxy itself. */
  url: string
}

/** What a proxy's URL says, read once. */
export interface ProxyAddress {
  isSecure: boolean
  host: string
  port: number
  authorization: string | null
}

export function proxyAddress({ url: text }: OutboundProxy): ProxyAddress {
  const url = URL.parse(text)
  // The text is left out of the message: it may hold a password.
  if (url === null || !['http:', 'https:'].includes(url.protocol) || !['', '/'].includes(url.pathname)) {
    throw new RedressError('OPTION_INVALID', 'A proxy must be an address like http://user:password@host:port.')
  }
  const isSecure = url.protocol === 'https:'
  const login = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`
  return {
    isSecure,
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? (isSecure ? 443 : 80) : Number(url.port),
    authorization: login === ':' ? null : `Basic ${Buffer.from(login).toString('base64')}`,
  }
}

interface TunnelOptions {
  proxy: ProxyAddress
  /** An address, never a name: the proxy would look it up again, and find another one. */
  target: { address: string; port: number }
  ca: string | undefined
}

/** A connection to the target by way of the proxy. */
async function tunnel({ proxy, target, ca }: TunnelOptions, limit: Limit): Promise<Socket> {
  const authority = `${isIPv6(target.address) ? `[${target.address}]` : target.address}:${target.port}`
  const state = { isConnected: false }
  const late = () =>
    state.isConnected
      ? new ProxyFailed('PROXY_TIMEOUT', 'took the connection, and did not answer in time')
      : new ProxyFailed('PROXY_UNREACHABLE', 'did not take the connection in time')
  return within(
    limit,
    late,
    (signal) =>
      new Promise((resolve, reject) => {
        const request = ask(proxy, authority, ca)
        signal.addEventListener('abort', () => request.destroy(), { once: true })
        request.once('socket', (socket) => {
          socket.once(proxy.isSecure ? 'secureConnect' : 'connect', () => {
            state.isConnected = true
          })
        })
        request.once('connect', (response, socket, head) => {
          const failure = failureOf(response, head)
          if (failure === null) return resolve(socket as Socket)
          socket.destroy()
          reject(failure)
        })
        request.on('error', (error) => reject(lost(state.isConnected, error)))
        request.end()
      }),
    (socket) => socket.destroy(),
  )
}

function ask(proxy: ProxyAddress, authority: string, ca: string | undefined): ClientRequest {
  const { isSecure, host, port, authorization } = proxy
  return (isSecure ? httpsRequest : httpRequest)({
    host,
    port,
    method: 'CONNECT',
    path: authority,
    agent: false,
    headers: {
      host: authority,
      connection: 'keep-alive',
      ...(authorization === null ? {} : { 'proxy-authorization': authorization }),
    },
    ...(ca === undefined ? {} : { ca }),
  })
}

function failureOf({ statusCode: status = 0 }: IncomingMessage, head: Buffer): ProxyFailed | null {
  if (status === 407) return new ProxyFailed('PROXY_AUTH', 'wants another name or password', { status })
  if (status === 502 || status === 503 || status === 504) {
    return new ProxyFailed('PROXY_GATEWAY', `answered ${status}: it could not reach the other side`, { status })
  }
  if (status < 200 || status > 299) return new ProxyFailed('PROXY_REFUSED', `answered ${status}`, { status })
  // We speak first, in HTTP and in TLS. What is there already was not said by the other side.
  if (head.length > 0) return new ProxyFailed('PROXY_BROKEN', 'put words into the connection', { status })
  return null
}

function lost(isConnected: boolean, error: Error): ProxyFailed {
  const why = codeOf(error) ?? error.message
  return isConnected
    ? new ProxyFailed('PROXY_BROKEN', `broke the connection off (${why})`, { cause: error })
    : new ProxyFailed('PROXY_UNREACHABLE', `could not be reached (${why})`, { cause: error })
}

interface Limit {
  ms: number
  signal: AbortSignal
}

/**
 * Does a step in its time, or until the signal. What comes too late is dropped: a connection that no request waits for any
 * more must not stay open.
 */
function within<T>(
  { ms, signal }: Limit,
  late: () => Error,
  begin: (signal: AbortSignal) => Promise<T>,
  drop: (value: T) => void = () => undefined,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const stop = new AbortController()
    const timer = setTimeout(() => end(late()), Math.max(ms, 0))
    const onAbort = () => end(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    const settle = (): boolean => {
      if (stop.signal.aborted) return false
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      return true
    }
    const end = (error: unknown): void => {
      if (!settle()) return
      stop.abort(error)
      reject(error)
    }
    if (signal.aborted) return onAbort()
    begin(stop.signal).then((value) => (settle() ? resolve(value) : drop(value)), end)
  })
}
