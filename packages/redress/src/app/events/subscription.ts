import type { HubEvent, Position } from './hub-events.ts'

/** Why a subscription ended by itself. */
export type EndReason = 'slow' | 'stopped'

/**
 * The queue of one subscriber. It holds a bounded number of events: a subscriber that does not fetch them in time is dropped,
 * and can continue from its last event.
 */
export class Subscription implements AsyncIterableIterator<HubEvent> {
  readonly topics: ReadonlySet<string>
  readonly bufferMax: number
  /** Everything up to here was put in the line, or was not for it. */
  position: Position
  /** From now on nothing that happens is missed. */
  readonly ready: Promise<void>
  readonly markReady: () => void
  readonly #line: HubEvent[] = []
  readonly #close: (subscription: Subscription) => void
  /** The subscriber reads it in a loop: when it asks for the next event, it is done with the one before. */
  isIterated = false
  #isEnded = false
  #onChange = new Set<() => void>()
  #lastId: string | null

  constructor(
    topics: readonly string[],
    position: Position,
    lastId: string | null,
    bufferMax: number,
    close: (subscription: Subscription) => void,
  ) {
    this.topics = new Set(topics)
    this.position = position
    this.#lastId = lastId
    this.bufferMax = bufferMax
    this.#close = close
    const { promise, resolve } = Promise.withResolvers<void>()
    this.ready = promise
    this.markReady = resolve
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  /** How many events wait to be fetched. */
  get waiting(): number {
    return this.#line.length
  }

  get isFull(): boolean {
    return this.#line.length >= this.bufferMax
  }

  put(event: HubEvent): void {
    if (this.#isEnded) return
    this.#line.push(event)
    this.#changed()
  }

  /** Waiting events can still be fetched; the end event follows them. */
  end(reason: EndReason): void {
    if (this.#isEnded) return
    this.#line.push({ id: null, topics: [], event: 'end', data: { reason, after: this.#lastQueuedId() } })
    this.#finish()
  }

  async next(): Promise<IteratorResult<HubEvent>> {
    while (this.#line.length === 0) {
      if (this.#isEnded) return { done: true, value: undefined }
      await this.#change()
    }
    const value = this.#line.shift() as HubEvent
    if (value.id !== null) this.#lastId = value.id
    this.#changed()
    return { done: false, value }
  }

  /** All waiting events at once. Empty when only the end event is left. */
  takeWaiting(): HubEvent[] {
    const last = this.#line.at(-1)
    const taken = this.#line.splice(0, this.#line.length - (last?.event === 'end' && last.id === null ? 1 : 0))
    this.#lastId = taken.findLast(({ id }) => id !== null)?.id ?? this.#lastId
    if (taken.length > 0) this.#changed()
    return taken
  }

  /** The subscriber wants no more. */
  async return(): Promise<IteratorResult<HubEvent>> {
    this.#line.length = 0
    this.#finish()
    this.#changed()
    return { done: true, value: undefined }
  }

  [Symbol.asyncIterator](): this {
    this.isIterated = true
    return this
  }

  /** Resolves when at most `waitingMax` events wait. */
  async hasRoomFor(waitingMax: number): Promise<void> {
    while (this.#line.length > waitingMax && !this.#isEnded) await this.#change()
  }

  /** Resolves when the queue is empty and the end event is delivered. */
  async fetched(): Promise<void> {
    while (this.#line.length > 0) await this.#change()
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#onChange.add(resolve))
  }

  #changed(): void {
    const waiting = this.#onChange
    this.#onChange = new Set()
    for (const wake of waiting) wake()
  }

  #lastQueuedId(): string | null {
    return this.#line.findLast(({ id }) => id !== null)?.id ?? this.#lastId
  }

  #finish(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#close(this)
    this.markReady()
    this.#changed()
  }
}
