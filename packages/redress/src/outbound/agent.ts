import { Agent, type Dispatcher } from 'undici'
import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'
import { type OutboundProxy, openConnection, proxyAddress } from './connector.ts'
import type { OutboundGuard } from './guard.ts'
/** The options of `outboundAgent()`. */
export interface OutboundAgentOptions {
  guard: OutboundGuard
  /** Every connection goes through it, as a tunnel to the checked address, for http and https alike. */
  proxy?: OutboundProxy
  /** Until a connection is there, with the look-up, the proxy and TLS; 10 s. */
  connectMs?: number
  /** From the request to the end of the answer's headers; 30 s. */
  headersMs?: number
  /** Between two parts of the body; 30 s. */
  bodyMs?: number
  /** How long a connection is kept for the next request to the same origin; 4 s. */
  keepAliveMs?: number
  /** To one origin at a time; further requests wait. As many as there are requests when left out. */
  connectionsPerHost?: number
  /** Certificates (PEM) to trust instead of those that Node brings. */
  ca?: string
}

const OPTIONS = optionNames<OutboundAgentOptions>({
  guard: true,
  proxy: true,
  connectMs: true,
  headersMs: true,
  bodyMs: true,
  keepAliveMs: true,
  connectionsPerHost: true,
  ca: true,
})

const KEPT_MS_MAX = 60_000

/**
 * A dispatcher of undici that connects to checked addresses only. A connection belongs to one origin (scheme, name
 * and port) and is never used for another one; each new connection is looked up and checked again.
 */
export function outboundAgent(options: OutboundAgentOptions): Dispatcher {
  refuseUnknownOptions('outboundAgent()', options, OPTIONS)
  return new GuardedAgent(options)
}

class GuardedAgent extends Agent {
  /** Connections that are being made, and requests that wait for one: by origin. */
  readonly #attempts: Map<string, Set<AbortController>>
  readonly #waiting = new Map<string, number>()

  constructor(options: OutboundAgentOptions) {
    const { guard, proxy, connectMs = 10_000, headersMs = 30_000, bodyMs = 30_000, keepAliveMs = 4_000, ca } = options
    const way = { guard, proxy: proxy === undefined ? null : proxyAddress(proxy), ca, connectMs }
    const attempts = new Map<string, Set<AbortController>>()
    super({
      allowH2: false,
      headersTimeout: headersMs,
      bodyTimeout: bodyMs,
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: Math.max(keepAliveMs, KEPT_MS_MAX),
      ...(options.connectionsPerHost === undefined ? {} : { connections: options.connectionsPerHost }),
      connect: ({ protocol, host, hostname }, done) => {
        const url = new URL(`${protocol}//${host ?? hostname}`)
        const stop = new AbortController()
        const ofOrigin = attempts.get(url.origin) ?? new Set()
        attempts.set(url.origin, ofOrigin.add(stop))
        const forget = () => {
          ofOrigin.delete(stop)
          if (ofOrigin.size === 0) attempts.delete(url.origin)
        }
        void openConnection(url, way, stop.signal).then(
          (socket) => {
            forget()
            done(null, socket)
          },
          (error: Error) => {
            forget()
            done(error, null)
          },
        )
      },
    })
    this.#attempts = attempts
  }

  /** undici hears of an aborted request only when there is a connection; here it is heard at once. */
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const { signal: given } = options as { signal?: unknown }
    const signal = given instanceof AbortSignal ? given : null
    const { origin } = new URL(String(options.origin))
    this.#waiting.set(origin, (this.#waiting.get(origin) ?? 0) + 1)
    const waiting = new WaitingRequest(handler, signal, () => this.#waitsNoMore(origin))
    try {
      return super.dispatch(options, waiting)
    } catch (error) {
      waiting.leave()
      throw error
    }
  }

  override destroy(error: Error | null, callback: () => void): void
  override destroy(callback: () => void): void
  override destroy(error: Error | null): Promise<void>
  override destroy(): Promise<void>
  override destroy(...given: unknown[]): Promise<void> | void {
    for (const origin of this.#attempts.keys()) this.#giveUp(origin)
    return super.destroy(...(given as []))
  }

  /** Stops connecting when no request waits for the connection any more. */
  #waitsNoMore(origin: string): void {
    const left = (this.#waiting.get(origin) ?? 1) - 1
    if (left > 0) {
      this.#waiting.set(origin, left)
      return
    }
    this.#waiting.delete(origin)
    this.#giveUp(origin)
  }

  #giveUp(origin: string): void {
    for (const stop of this.#attempts.get(origin) ?? []) stop.abort(new Error('No request waits for this connection.'))
  }
}

type Handler = Dispatcher.DispatchHandler
type Given<Name extends keyof Handler> = Parameters<NonNullable<Handler[Name]>>

/** Stands before the handler of a request until the request has a connection, so that it can end before that. */
class WaitingRequest implements Handler {
  readonly #handler: Handler
  readonly #signal: AbortSignal | null
  readonly #onLeft: () => void
  readonly #onAbort: () => void
  #isWaiting = true
  #isAborted = false

  /** `onLeft` is called once: when the request has a connection, has failed, or was given up. */
  constructor(handler: Handler, signal: AbortSignal | null, onLeft: () => void) {
    this.#handler = handler
    this.#signal = signal
    this.#onLeft = onLeft
    this.#onAbort = () => this.#abort()
    signal?.addEventListener('abort', this.#onAbort, { once: true })
    // The caller's promise is not there yet.
    if (signal?.aborted) queueMicrotask(this.#onAbort)
  }

  leave(): void {
    if (!this.#isWaiting) return
    this.#isWaiting = false
    this.#signal?.removeEventListener('abort', this.#onAbort)
    this.#onLeft()
  }

  #abort(): void {
    if (!this.#isWaiting) return
    this.#isAborted = true
    this.#handler.onResponseError?.(null as never, this.#signal?.reason as Error)
    this.leave()
  }

  onRequestStart(...given: Given<'onRequestStart'>): void {
    this.leave()
    if (this.#isAborted) given[0].abort(this.#signal?.reason as Error)
    else this.#handler.onRequestStart?.(...given)
  }

  onResponseError(...given: Given<'onResponseError'>): void {
    if (this.#isAborted) return
    this.leave()
    this.#handler.onResponseError?.(...given)
  }

  onRequestUpgrade(...given: Given<'onRequestUpgrade'>): void {
    this.#handler.onRequestUpgrade?.(...given)
  }

  onResponseStarted(): void {
    this.#handler.onResponseStarted?.()
  }

  onResponseStart(...given: Given<'onResponseStart'>): void {
    this.#handler.onResponseStart?.(...given)
  }

  onResponseData(...given: Given<'onResponseData'>): void {
    this.#handler.onResponseData?.(...given)
  }

  onResponseEnd(...given: Given<'onResponseEnd'>): void {
    this.#handler.onResponseEnd?.(...given)
  }

  onBodySent(...given: Given<'onBodySent'>): void {
    this.#handler.onBodySent?.(...given)
  }

  onRequestSent(): void {
    this.#handler.onRequestSent?.()
  }
}
