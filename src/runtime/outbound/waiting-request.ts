import type { Dispatcher } from 'undici'

type Handler = Dispatcher.DispatchHandler
type Given<Name extends keyof Handler> = Parameters<NonNullable<Handler[Name]>>

/** Stands before the handler of a request until the request has a connection, so that it can end before that. */
export class WaitingRequest implements Handler {
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
