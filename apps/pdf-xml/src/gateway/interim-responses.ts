import type { IncomingMessage, ServerResponse } from 'node:http'

/**
 * A client that sends this header gets interim responses about its document. Not every HTTP client can handle them.
 */
export const NOTICES_HEADER = 'x-gateway-notices'
/** In an interim response: 'waiting' or 'parsing'. In the gateway's health: 'ok', 'saturated' or 'stopping'. */
export const STATE_HEADER = 'x-gateway-state'
/** How many documents the gateway parses at once: a client that has the gateway to itself need not send more. */
export const PARSERS_HEADER = 'x-gateway-parsers'

const EVERY_MS = 1_000

/** Sends `102 Processing` repeatedly while a document waits, and once when its parsing begins. */
export class InterimResponses {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #parsers: number
  #timer: NodeJS.Timeout | undefined

  constructor(request: IncomingMessage, response: ServerResponse, parsers: number) {
    this.#request = request
    this.#response = response
    this.#parsers = parsers
  }

  waiting(): void {
    this.#tell('waiting')
    this.#timer = setInterval(() => this.#tell('waiting'), EVERY_MS)
    this.#timer.unref()
  }

  parsing(): void {
    this.end()
    this.#tell('parsing')
  }

  end(): void {
    clearInterval(this.#timer)
  }

  /** Written by hand, because `writeProcessing` has no headers. A pipelined response has no socket before its turn. */
  #tell(state: 'waiting' | 'parsing'): void {
    if (this.#request.headers[NOTICES_HEADER] === undefined || this.#request.httpVersion !== '1.1') return
    if (this.#response.headersSent || this.#response.destroyed) return
    const head = ['HTTP/1.1 102 Processing', `${STATE_HEADER}: ${state}`, `${PARSERS_HEADER}: ${this.#parsers}`]
    this.#response.socket?.write(`${head.join('\r\n')}\r\n\r\n`)
  }
}
