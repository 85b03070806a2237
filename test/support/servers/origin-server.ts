import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'

/** What the origin does with one request: bytes as they are, and then an end of some kind. */
export interface Script {
  send: readonly (string | Buffer)[]
  /**
   * stay: the connection takes the next request. end: closed in order. reset: broken. hang: nothing more is said.
   * flood: the last piece again and again, for as long as somebody reads.
   */
  ends: 'stay' | 'end' | 'reset' | 'hang' | 'flood'
}

export interface OriginRequest {
  method: string
  path: string
  headers: Record<string, string>
}

type Headers = Readonly<Record<string, string>>

const head = (status: number, headers: Headers): string =>
  `HTTP/1.1 ${status} As Planned\r\n${Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n`

/** A whole and honest answer. */
export function answer(status: number, body: string | Buffer = '', headers: Headers = {}): Script {
  const noBody = status === 204 || status === 304
  const length: Headers = noBody ? {} : { 'content-length': String(Buffer.byteLength(body)) }
  return { send: [head(status, { ...length, ...headers }), ...(noBody ? [] : [body])], ends: 'stay' }
}

export const redirect = (to: string, status = 302): Script => answer(status, '', { location: to })

/** An answer that says one length and sends another one. */
export function lying(lengthSaid: number, body: string | Buffer, ends: Script['ends']): Script {
  return { send: [head(200, { 'content-length': String(lengthSaid) }), body], ends }
}

/** Chunks; without the last empty one the body is cut. */
export function chunked(pieces: readonly string[], ends: Script['ends'], isWhole = false): Script {
  const chunks = pieces.map((piece) => `${Buffer.byteLength(piece).toString(16)}\r\n${piece}\r\n`)
  return { send: [head(200, { 'transfer-encoding': 'chunked' }), ...chunks, ...(isWhole ? ['0\r\n\r\n'] : [])], ends }
}

/** Chunks without end. */
export function endless(): Script {
  return { send: [head(200, { 'transfer-encoding': 'chunked' }), `4000\r\n${'x'.repeat(0x4000)}\r\n`], ends: 'flood' }
}

/**
 * An HTTP/1.1 origin on the loopback that speaks raw bytes, so that it can break every rule of the protocol. Each path
 * has its scripts: one for each request, and the last of them for all that come after.
 */
export class OriginServer {
  readonly requests: OriginRequest[] = []
  connections = 0
  readonly #server: Server
  readonly #scripts = new Map<string, Script[]>()
  readonly #sockets = new Set<Socket>()
  readonly #scheme: string

  private constructor(tls?: { key: string; cert: string }) {
    this.#scheme = tls === undefined ? 'http' : 'https'
    this.#server = tls === undefined ? createServer() : createTlsServer(tls)
    this.#server.on(tls === undefined ? 'connection' : 'secureConnection', (socket: Socket) => this.#serve(socket))
    // A client that goes away in the middle of a handshake is nobody's failure here.
    this.#server.on('tlsClientError', () => undefined)
    this.#server.on('connection', (socket: Socket) => {
      this.connections++
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket)).on('error', () => undefined)
    })
  }

  static async start(tls?: { key: string; cert: string }): Promise<OriginServer> {
    const origin = new OriginServer(tls)
    origin.#server.listen(0, '127.0.0.1')
    await once(origin.#server, 'listening')
    return origin
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** As `FETCHBOX_ALLOW` and the guard take it. */
  get address(): string {
    return `127.0.0.1:${this.port}`
  }

  get openConnections(): number {
    return this.#sockets.size
  }

  /** Says what the path does, and gives its URL. */
  plan(path: string, ...scripts: [Script, ...Script[]]): string {
    this.#scripts.set(path, scripts)
    return this.url(path)
  }

  url(path: string): string {
    return `${this.#scheme}://${this.address}${path}`
  }

  asked(path: string): number {
    return this.requests.filter((request) => request.path === path).length
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #serve(socket: Socket): void {
    let heard = ''
    socket.on('error', () => undefined)
    socket.on('data', (data) => {
      heard += data.toString('latin1')
      for (let end = heard.indexOf('\r\n\r\n'); end >= 0; end = heard.indexOf('\r\n\r\n')) {
        const request = readRequest(heard.slice(0, end))
        heard = heard.slice(end + 4)
        this.requests.push(request)
        play(socket, this.#next(request.path))
      }
    })
  }

  #next(path: string): Script {
    const [pathname = ''] = path.split('?')
    const scripts = this.#scripts.get(path) ?? this.#scripts.get(pathname)
    if (scripts === undefined) return answer(404, 'no such thing is planned')
    return (scripts.length > 1 ? scripts.shift() : scripts[0]) as Script
  }
}

function readRequest(text: string): OriginRequest {
  const [line = '', ...rest] = text.split('\r\n')
  const [method = '', path = ''] = line.split(' ')
  const headers = rest.map((header) => {
    const colon = header.indexOf(':')
    return [header.slice(0, colon).toLowerCase(), header.slice(colon + 1).trim()] as const
  })
  return { method, path, headers: Object.fromEntries(headers) }
}

function play(socket: Socket, { send, ends }: Script): void {
  const last = send.at(-1) ?? ''
  for (const piece of send) socket.write(piece)
  switch (ends) {
    case 'end':
      socket.end()
      break
    case 'reset':
      // When what was written is out: a reset throws away what still waits.
      socket.write('', () => socket.resetAndDestroy())
      break
    case 'flood':
      flood(socket, last)
      break
    default:
  }
}

function flood(socket: Socket, piece: string | Buffer): void {
  if (socket.destroyed) return
  for (let isWanted = true; isWanted; ) isWanted = socket.write(piece)
  socket.once('drain', () => flood(socket, piece))
}

/** A port on the loopback where nobody listens. */
export async function deadPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
