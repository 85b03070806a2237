import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { seededChance } from 'redress/testing'

/** What is wrong with a resource. With `-once` the next request is answered; the others last until they are healed. */
const KINDS = ['busy-once', 'reset-once', 'cut-once', 'hang-once', 'missing', 'broken', 'reset', 'cut', 'hang'] as const
export type Kind = (typeof KINDS)[number]

const isLasting = (kind: Kind): boolean => !kind.endsWith('-once')

/** What it must be told as, where it is told. */
export const CODE_OF: Readonly<Record<Kind, string>> = {
  'busy-once': 'DOWNLOAD_HTTP_5XX',
  'reset-once': 'DOWNLOAD_CONNECTION',
  'cut-once': 'DOWNLOAD_INCOMPLETE',
  'hang-once': 'DOWNLOAD_TIMEOUT',
  missing: 'DOWNLOAD_HTTP_4XX',
  broken: 'DOWNLOAD_HTTP_5XX',
  reset: 'DOWNLOAD_CONNECTION',
  cut: 'DOWNLOAD_INCOMPLETE',
  hang: 'DOWNLOAD_TIMEOUT',
}

const HOSTS = 10
/** Now and then one that is too large for the spool in memory. */
const LARGE_EVERY = 97
const LARGE_BYTES = 300_000
const SMALL_BYTES_MAX = 6_000

/** Ten hosts on the loopback that have every resource, and trouble with some of them. */
export class Origins {
  readonly #kinds: readonly (Kind | null)[]
  readonly #servers: Server[] = []
  readonly #hit = new Set<number>()
  #isHealed = false
  requests = 0

  private constructor(kinds: readonly (Kind | null)[]) {
    this.#kinds = kinds
  }

  static async start(resources: number, faultShare: number, seed: number): Promise<Origins> {
    const chance = seededChance(seed)
    const kinds = Array.from({ length: resources }, () =>
      chance() < faultShare ? (KINDS[Math.floor(chance() * KINDS.length)] as Kind) : null,
    )
    const origins = new Origins(kinds)
    for (let host = 1; host <= HOSTS; host++) {
      const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) =>
        origins.#answer(request, response),
      )
      server.listen(0, `127.0.0.${host}`)
      await once(server, 'listening')
      origins.#servers.push(server)
    }
    return origins
  }

  kindOf = (n: number): Kind | null => this.#kinds[n] ?? null

  /** As FETCHBOX_ALLOW takes them. */
  get addresses(): string[] {
    return this.#servers.map((server) => {
      const { address, port } = server.address() as AddressInfo
      return `${address}:${port}`
    })
  }

  url(n: number): string {
    return `http://${this.addresses[n % HOSTS]}/${n}`
  }

  heal(): void {
    this.#isHealed = true
  }

  async stop(): Promise<void> {
    for (const server of this.#servers) {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    }
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    this.requests++
    const n = Number(request.url?.slice(1))
    const body = bodyOf(n)
    const kind = this.#isHealed ? null : this.kindOf(n)
    const isOver = kind !== null && !isLasting(kind) && this.#hit.has(n)
    this.#hit.add(n)
    switch (isOver ? null : (kind?.replace('-once', '') ?? null)) {
      case 'busy':
        return void response.writeHead(503).end()
      case 'broken':
        return void response.writeHead(500).end()
      case 'missing':
        return void response.writeHead(404).end()
      case 'reset':
        return void request.socket.resetAndDestroy()
      case 'hang':
        return
      case 'cut':
        response.writeHead(200, { 'content-length': body.byteLength })
        return void response.write(body.subarray(0, body.byteLength / 2), () => request.socket.destroy())
      default:
        return void response.writeHead(200, { 'content-length': body.byteLength }).end(body)
    }
  }
}

/** Different for each, and the same whenever it is asked for. */
function bodyOf(n: number): Buffer {
  const bytes = n % LARGE_EVERY === 0 ? LARGE_BYTES : 2 + ((n * 7_919) % SMALL_BYTES_MAX)
  return Buffer.alloc(bytes, `resource ${n} `)
}

export const sumOf = (n: number): string => createHash('sha256').update(bodyOf(n)).digest('hex')
