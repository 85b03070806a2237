import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { connect, createServer as createTcpServer, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { onTestFinished } from 'vitest'
import { TEST_SERVER } from '../../../../test/support/servers/certificates.ts'
import {
  type OutboundAgentOptions,
  type OutboundOptions,
  type OutboundRequestOptions,
  outboundAgent,
  outboundGuard,
  outboundRequest,
} from '../../src/outbound/index.ts'

export interface Origin {
  port: number
  /** Method, host header and path of each request. */
  readonly requests: string[]
  readonly headers: IncomingMessage['headers'][]
  /** The name that was asked for in each TLS handshake; false where none was. */
  readonly servernames: TLSSocket['servername'][]
  /** How many connections it ever took, and how many are open now. */
  taken(): number
  open(): number
  close(): Promise<void>
}

type Answer = (response: ServerResponse, request: IncomingMessage) => void

/** A real web server on this machine; ended by whoever started it. */
export async function startOrigin(
  answer: Answer = (response) => response.end('hello'),
  { isSecure = false, host = '127.0.0.1' } = {},
): Promise<Origin> {
  const requests: string[] = []
  const headers: IncomingMessage['headers'][] = []
  const servernames: TLSSocket['servername'][] = []
  const sockets = new Set<Socket>()
  let taken = 0
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    requests.push(`${request.method} ${request.headers.host} ${request.url}`)
    headers.push(request.headers)
    answer(response, request)
  }
  const server = isSecure ? createSecureServer(TEST_SERVER, onRequest) : createServer(onRequest)
  server.on('connection', (socket: Socket) => {
    taken++
    sockets.add(socket)
    socket.on('error', () => undefined).once('close', () => sockets.delete(socket))
  })
  server.on('secureConnection', ({ servername }: TLSSocket) => servernames.push(servername))
  // Who does not trust us hangs up in the middle of the handshake.
  server.on('tlsClientError', () => undefined)
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  return {
    port: (server.address() as { port: number }).port,
    requests,
    headers,
    servernames,
    taken: () => taken,
    open: () => sockets.size,
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

/** The same, ended with the test. */
export async function origin(answer?: Answer, options?: { isSecure?: boolean; host?: string }): Promise<Origin> {
  const started = await startOrigin(answer, options)
  onTestFinished(() => started.close())
  return started
}

/** Takes connections and never says a word. */
export async function silentServer(): Promise<{ port: number; open: () => number }> {
  const sockets = new Set<Socket>()
  const server = createTcpServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).once('close', () => sockets.delete(socket))
    socket.resume()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise<void>((resolve) => server.close(() => resolve()))
  })
  return { port: (server.address() as { port: number }).port, open: () => sockets.size }
}

/** A port on which nobody listens. */
export async function closedPort(): Promise<number> {
  const server = createTcpServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise<void>((resolve) => server.close(() => resolve()))
  return port
}

/** A name server that knows these names, and counts how often it is asked. */
export function resolver(names: Readonly<Record<string, readonly string[] | ((times: number) => readonly string[])>>) {
  const asked: string[] = []
  const lookup: NonNullable<OutboundOptions['lookup']> = async (host) => {
    asked.push(host)
    const known = names[host]
    if (known === undefined) throw Object.assign(new Error(`no ${host}`), { code: 'ENOTFOUND' })
    const answer = typeof known === 'function' ? known(asked.filter((name) => name === host).length) : known
    return answer.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
  }
  return beside({ lookup }, { asked })
}

/** Options of a guard, with a record that is not an option: spreading the options leaves it out. */
function beside<Options extends object, Record extends object>(options: Options, record: Record): Options & Record {
  for (const [name, value] of Object.entries(record)) Object.defineProperty(options, name, { value })
  return options as Options & Record
}

/** Stands for the internet: writes down where a connection would go, and leads it to a port of this machine. */
export function internet(ports: Readonly<Record<string, number>>) {
  const dialled: string[] = []
  const connectTo: NonNullable<OutboundOptions['connect']> = ({ address, port }) => {
    dialled.push(`${address} ${port}`)
    const here = ports[address]
    if (here === undefined) return Promise.reject(Object.assign(new Error('nobody'), { code: 'ENETUNREACH' }))
    return new Promise((resolve, reject) => {
      const socket = connect(here, '127.0.0.1')
      socket.once('connect', () => resolve(socket)).once('error', reject)
    })
  }
  return beside({ connect: connectTo }, { dialled })
}

type Sent = Partial<Omit<OutboundRequestOptions, 'guard' | 'agent'>>

/** A guard with its agent, both gone with the test. */
export function client(rules: OutboundOptions, options: Partial<OutboundAgentOptions> = {}) {
  const guard = outboundGuard(rules)
  const agent = outboundAgent({ guard, ...options })
  onTestFinished(() => agent.destroy())
  const send = (url: string, sent: Sent = {}) => outboundRequest(url, { guard, agent, ...sent })
  return {
    guard,
    agent,
    send,
    text: async (url: string, sent: Sent = {}) => textOf((await send(url, sent)).body),
  }
}

export async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = []
  for await (const part of body) parts.push(part)
  return Buffer.concat(parts).toString()
}

export const thrownBy = (promise: Promise<unknown>): Promise<Error & { code?: string }> =>
  promise.then(
    () => Promise.reject(new Error('it was let through')),
    (error) => error,
  )
