import { probeGateway } from './gateway-client.ts'

/** One document more than the gateway parses is in transfer, so that no parser waits for an upload. */
const AHEAD = 1
const ASK_MS_MAX = 2_000

/**
 * How many documents this process may send to the gateway at once. The gateway reports how many it parses; more would
 * only wait in its queue, or be refused. Without such a report, the limit is the number of slots of the worker.
 */
export class GatewayRoom {
  readonly #url: () => string
  #isAsked = false
  #isKnown = false
  #parsers: number | null = null

  constructor(url: () => string) {
    this.#url = url
  }

  /** None until the gateway was asked once, which takes a moment. */
  get slots(): number {
    if (!this.#isAsked) void this.#ask()
    if (!this.#isKnown) return 0
    return this.#parsers === null ? Number.POSITIVE_INFINITY : this.#parsers + AHEAD
  }

  learn(parsers: number): void {
    this.#parsers = parsers
  }

  async probe(signal: AbortSignal): Promise<void> {
    const { parsers } = await probeGateway(this.#url(), signal)
    if (parsers !== null) this.learn(parsers)
  }

  async #ask(): Promise<void> {
    this.#isAsked = true
    try {
      await this.probe(AbortSignal.timeout(ASK_MS_MAX))
    } catch {
      // The gateway is down, or does not support this request. Conversions will show it, and the breaker counts them.
    }
    this.#isKnown = true
  }
}
