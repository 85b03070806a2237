import { type OutboundGuard, outboundAgent } from 'redress/outbound'

export interface ConnectionLimits {
  /** Until a connection is there, with the look-up, the proxy and TLS. */
  connectMs: number
  /** From the request to the end of the answer's headers. */
  headersMs: number
  /** Between two parts of the body. */
  bodyMs: number
}

type Agent = ReturnType<typeof outboundAgent>

/** Keeps connections for the next request to the same origin, apart for each way that leads there. */
export class Connections {
  readonly guard: OutboundGuard
  readonly #limits: ConnectionLimits
  readonly #ca: string | undefined
  readonly #agents = new Map<string | null, Agent>()

  constructor(guard: OutboundGuard, limits: ConnectionLimits, ca?: string) {
    this.guard = guard
    this.#limits = limits
    this.#ca = ca
  }

  /** `proxyUrl` is null for the direct way. */
  by(proxyUrl: string | null): Agent {
    let agent = this.#agents.get(proxyUrl)
    if (agent === undefined) {
      const { connectMs, headersMs, bodyMs } = this.#limits
      agent = outboundAgent({
        guard: this.guard,
        connectMs,
        headersMs,
        bodyMs,
        ...(proxyUrl !== null && { proxy: { url: proxyUrl } }),
        ...(this.#ca !== undefined && { ca: this.#ca }),
      })
      this.#agents.set(proxyUrl, agent)
    }
    return agent
  }

  /** Also aborts running requests. */
  async close(): Promise<void> {
    const agents = [...this.#agents.values()]
    this.#agents.clear()
    await Promise.all(agents.map((agent) => agent.destroy()))
  }
}
