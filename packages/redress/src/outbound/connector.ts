import { isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { readEarlyAnswers } from './early-answer.ts'
import { type ConnectCode, ConnectFailed, codeOf, NameNotResolved, ProxyFailed } from './errors.ts'
import type { OutboundGuard, ResolvedAddress } from './guard.ts'
import { withoutDot } from './rules.ts'
import { type ProxyAddress, tunnel } from './tunnel.ts'
import { type Limit, within } from './within.ts'

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
