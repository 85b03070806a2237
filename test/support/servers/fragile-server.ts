import { Agent, createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

/** How long a request takes, so that requests are under way at the same time at all. */
const ANSWER_MS = 4
/** What is asked for more at once than it can do falls over, for so long. */
const COLLAPSE_MS = 500
/** After it came back it is cold: it can do little at first, and twice as much after each of these. */
const WARM_UP_MS = 500

/** A dependency on the loopback that can be down, and that falls over under more load than it can take. */
export class FragileServer {
  readonly #server: Server
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 256 })
  readonly #coldCapacity: number
  isDown = false
  calls = 0
  callsWhileDown = 0
  underWay = 0
  mostUnderWay = 0
  collapses = 0
  #collapsedUntilMs = 0
  #warmSinceMs: number | null = null

  private constructor(coldCapacity: number) {
    this.#coldCapacity = coldCapacity
    this.#server = createServer((incoming, response) => this.#answer(incoming, response))
  }

  static async start({ coldCapacity = Number.POSITIVE_INFINITY } = {}): Promise<FragileServer> {
    const server = new FragileServer(coldCapacity)
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      server.#agent.destroy()
      server.#server.closeAllConnections()
      server.#server.close()
    })
    return server
  }

  /** What a job's handler does: the status of the answer. */
  call(): Promise<number> {
    const { port } = this.#server.address() as AddressInfo
    return new Promise((resolve, reject) => {
      const asked = request({ host: '127.0.0.1', port, agent: this.#agent }, (response) => {
        response.resume()
        response.on('end', () => resolve(response.statusCode ?? 0))
      })
      asked.on('error', reject)
      asked.end()
    })
  }

  #answer(incoming: IncomingMessage, response: ServerResponse): void {
    incoming.resume()
    const nowMs = performance.now()
    this.calls++
    if (this.isDown) this.callsWhileDown++
    else this.#warmSinceMs ??= nowMs
    this.underWay++
    this.mostUnderWay = Math.max(this.mostUnderWay, this.underWay)
    if (this.underWay > this.#capacity(nowMs) && nowMs >= this.#collapsedUntilMs) {
      this.collapses++
      this.#collapsedUntilMs = nowMs + COLLAPSE_MS
      this.#warmSinceMs = nowMs + COLLAPSE_MS
    }
    const isWell = !this.isDown && nowMs >= this.#collapsedUntilMs
    setTimeout(() => {
      this.underWay--
      response.writeHead(isWell ? 200 : 503).end()
    }, ANSWER_MS)
  }

  #capacity(nowMs: number): number {
    if (this.#warmSinceMs === null) return Number.POSITIVE_INFINITY
    return this.#coldCapacity * 2 ** Math.floor(Math.max(0, nowMs - this.#warmSinceMs) / WARM_UP_MS)
  }
}
