import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIPv6, type Socket } from 'node:net'
import { RedressError } from '../core/errors.ts'
import { codeOf, ProxyFailed } from './errors.ts'
import { type Limit, within } from './within.ts'

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
  // The text is not told: it may have a password in it.
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

export interface TunnelOptions {
  proxy: ProxyAddress
  /** An address, never a name: the proxy would look it up again, and find another one. */
  target: { address: string; port: number }
  ca: string | undefined
}

/** A connection to the target by way of the proxy. */
export async function tunnel({ proxy, target, ca }: TunnelOptions, limit: Limit): Promise<Socket> {
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
