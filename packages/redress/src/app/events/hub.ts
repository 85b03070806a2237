import { RedressError } from '../../core/errors.ts'
import { optionNames, refuseUnknownOptions } from '../../core/text/options.ts'
import type { Timer } from '../../runtime/clock.ts'
import type { FeedEvent } from '../../store/contract/feed.ts'
import type { Store } from '../../store/contract/store.ts'
import type { AppHost } from '../host.ts'
import {
  filterOf,
  type HubEvent,
  isAfter,
  isStoreTopic,
  type Mapper,
  ownEvent,
  type Position,
  positionOf,
  WHOLE,
} from './hub-events.ts'
import { Subscription } from './subscription.ts'

/** The options of `app.hub.subscribe()`. */
export interface SubscribeOptions {
  /** `job:ID`, `log:ID` (the lines of a job), `batch:ID`, `type:NAME`, `owner:NAME`, `queue:NAME`, `breaker:NAME`, `schedule:NAME`, the app's own, or `*`. */
  topics: readonly string[]
  /** The id of the last event that was seen (Last-Event-ID); from now on when left out. */
  after?: string | number | null
  signal?: AbortSignal
  /** How many events may wait to be fetched before the subscriber is let go. */
  bufferMax?: number
  /**
   * How far the number `after` may lie behind that of the newest event. A subscriber further behind gets a gap event and goes on
   * from there.
   * Unlimited when left out.
   */
  behindMax?: number
}

const SUBSCRIBE_OPTIONS = optionNames<SubscribeOptions>({
  topics: true,
  after: true,
  signal: true,
  bufferMax: true,
  behindMax: true,
})

/** Events of other processes are found within this time; those of this one at once. */
const POLL_MS = 250
/** So long after the store did not answer it is asked again. */
const ASK_AGAIN_MS = 250
const PAGE = 500
/** How many times events are handed to subscribers before the event loop turns. */
const EVENTS_PER_TURN = 5_000
/** How many turns of the event loop a page waits for subscribers whose buffer is more than half full. */
const DRAIN_TURNS_MAX = 100
/** How long `stop` waits for the store, and for subscribers that still process events. */
const STOP_MS_MAX = 1_000
const BUFFER_MAX = 1_000
const BUFFER_MAX_MAX = 100_000
const TOPIC_CHARS_MAX = 400

/**
 * Tells subscribers of this process what happens in the store, whichever process it happens in. However many
 * subscribers there are, the store is asked once; while there are none, it is not asked at all.
 */
export class Hub {
  readonly #host: AppHost
  readonly #pollMs: number
  readonly #mappers: Mapper[] = []
  readonly #subscriptions = new Set<Subscription>()
  /** Subscribers that have caught up, and the same subscribers by topic. */
  readonly #caughtUp = new Set<Subscription>()
  readonly #live = new Map<string, Set<Subscription>>()
  /**
   * One page is read at a time, however many subscribers catch up, so that the store and the event loop stay
   * available.
   */
  readonly #pages = new OnePerTurn()
  #onProgress = new Set<() => void>()
  /** Subscribers that have caught up have everything up to here; null while there are none. */
  #seq: number | null = null
  #timer: Timer | null = null
  #forgetCommits: () => void = () => undefined
  #isReading = false
  #isAskedAgain = false
  #isStopped = false

  constructor(host: AppHost, pollMs: number = POLL_MS) {
    this.#host = host
    this.#pollMs = pollMs
  }

  get subscribers(): number {
    return this.#subscriptions.size
  }

  /**
   * Adds events of the app's own, made from the store's. The same event must always give the same ones: a
   * subscriber that comes back continues from its last event.
   */
  map(mapper: Mapper): void {
    this.#mappers.push(mapper)
  }

  subscribe(options: SubscribeOptions): Subscription {
    refuseUnknownOptions('hub.subscribe()', options, SUBSCRIBE_OPTIONS)
    const { topics, after, signal, bufferMax = BUFFER_MAX, behindMax } = options ?? {}
    if (!Array.isArray(topics) || topics.length === 0 || !topics.every(isTopic)) {
      throw invalid("topics must be a list such as ['job:ID', 'owner:NAME'], or ['*'] for everything")
    }
    if (!Number.isSafeInteger(bufferMax) || bufferMax < 1 || bufferMax > BUFFER_MAX_MAX) {
      throw invalid(`bufferMax must be a whole number from 1 to ${BUFFER_MAX_MAX}`)
    }
    if (behindMax !== undefined && (!Number.isSafeInteger(behindMax) || behindMax < 0)) {
      throw invalid('behindMax must be a whole number of at least 0')
    }
    const from = after === undefined || after === null || after === '' ? null : positionOf(after)
    if (from === null && after !== undefined && after !== null && after !== '') {
      throw invalid(`after must be the id of an event, not ${JSON.stringify(after)}`)
    }
    const lastId = from === null ? null : String(after)
    const close = (ended: Subscription) => {
      signal?.removeEventListener('abort', leave)
      this.#remove(ended)
    }
    const subscription = new Subscription(topics, from ?? { seq: 0, part: WHOLE }, lastId, bufferMax, close)
    const leave = () => void subscription.return()
    this.#subscriptions.add(subscription)
    signal?.addEventListener('abort', leave)
    if (signal?.aborted) leave()
    else if (this.#isStopped) subscription.end('stopped')
    void this.#catchUp(subscription, from === null, behindMax)
    return subscription
  }

  /**
   * Delivers everything committed so far, then ends every subscription with an end event. Subscribers that read in a
   * loop get a moment to finish, because the store closes next. Both waits are bounded.
   */
  async stop({ graceMs = STOP_MS_MAX }: { graceMs?: number } = {}): Promise<void> {
    this.#isStopped = true
    await this.#within(STOP_MS_MAX, (isLate) => this.#publishRest(isLate))
    const reading = [...this.#subscriptions].filter(({ isIterated }) => isIterated)
    for (const subscription of [...this.#subscriptions]) subscription.end('stopped')
    if (graceMs <= 0) return
    await this.#within(Math.min(graceMs, STOP_MS_MAX), () => Promise.all(reading.map((one) => one.fetched())))
  }

  async #publishRest(isLate: () => boolean): Promise<void> {
    if (this.#subscriptions.size === 0) return
    try {
      const toSeq = await (await this.#host.store()).lastSeq()
      if (this.#seq !== null) this.#ask()
      const isBehind = (one: Subscription) =>
        this.#caughtUp.has(one)
          ? this.#seq !== null && this.#seq < toSeq
          : one.position.seq < toSeq && (one.isIterated || one.waiting <= halfOf(one))
      while (!isLate() && [...this.#subscriptions].some(isBehind)) {
        await new Promise<void>((resolve) => this.#onProgress.add(resolve))
      }
    } catch (error) {
      // A subscriber that comes back later gets the rest.
      if (!isStoreStopped(error))
        this.#host.log.error({ err: error }, 'the last events of the store could not be published')
    }
  }

  async #within(ms: number, run: (isLate: () => boolean) => Promise<unknown>): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<void>()
    let isLate = false
    const timer = this.#host.clock.setTimer(ms, () => {
      isLate = true
      resolve()
    })
    await Promise.race([run(() => isLate), late])
    timer.cancel()
  }

  #progressed(): void {
    const waiting = this.#onProgress
    this.#onProgress = new Set()
    for (const wake of waiting) wake()
  }

  // ---- catching up ------------------------------------------------------------------------------------------------

  /** Reads for one subscriber what was before, as fast as they fetch it, and lets them join the others at the end. */
  async #catchUp(subscription: Subscription, isFromNow: boolean, behindMax = Number.POSITIVE_INFINITY): Promise<void> {
    const only = filterOf(subscription.topics)
    let isPlaced = false
    let reportedRemovedTo = 0
    while (!subscription.isEnded) {
      try {
        const store = await this.#host.store()
        if (!isPlaced) {
          const isAtEnd = await this.#place(store, subscription, isFromNow, behindMax)
          isPlaced = true
          subscription.markReady()
          // No `await` may come between the check for the end and `#join`.
          if (isAtEnd && (this.#seq === null || subscription.position.seq >= this.#seq)) {
            this.#join(store, subscription)
            return
          }
        }
        await subscription.hasRoomFor(halfOf(subscription))
        // The event that the subscriber has a part of is read again.
        const { seq, part } = subscription.position
        const afterSeq = part === WHOLE ? seq : seq - 1
        const limit = Math.max(1, Math.min(PAGE, Math.floor(subscription.bufferMax / 4)))
        const { events, nextSeq, hasMore, removedToSeq } = await this.#pages.run(() =>
          store.feed({ afterSeq, limit, ...(only !== undefined && { only }) }),
        )
        if (removedToSeq !== null && removedToSeq > reportedRemovedTo) {
          reportedRemovedTo = removedToSeq
          subscription.put(gap('removed', subscription.position, removedToSeq))
        }
        for (const event of events) {
          for (const made of await this.#eventsOf(store, event)) offer(subscription, made.at, made.event)
        }
        if (nextSeq > subscription.position.seq) subscription.position = { seq: nextSeq, part: WHOLE }
        // From here to `#join` nothing is awaited, so no event can be published in between.
        if (this.#seq === null ? !hasMore : subscription.position.seq >= this.#seq) {
          this.#join(store, subscription)
          return
        }
        this.#progressed()
      } catch (error) {
        if (isStoreStopped(error)) subscription.end('stopped')
        else await this.#wait(error)
      }
    }
  }

  /** Returns whether there is nothing left to catch up with. */
  async #place(store: Store, subscription: Subscription, isFromNow: boolean, behindMax: number): Promise<boolean> {
    const lastSeq = await store.lastSeq()
    if (isFromNow) subscription.position = { seq: lastSeq, part: WHOLE }
    else if (subscription.position.seq < lastSeq - behindMax) {
      subscription.put(gap('behind', subscription.position, lastSeq - behindMax))
      subscription.position = { seq: lastSeq - behindMax, part: WHOLE }
    } else if (subscription.position.seq > lastSeq) {
      // An id of another store, or of this one before it was restored: waiting for its number would lose all before it.
      subscription.put(gap('unknown', subscription.position, lastSeq))
      subscription.position = { seq: lastSeq, part: WHOLE }
    }
    return subscription.position.seq === lastSeq && subscription.position.part === WHOLE
  }

  async #wait(error: unknown): Promise<void> {
    this.#host.log.error({ err: error }, 'the events of the store cannot be read; will try again')
    await new Promise<void>((resolve) => this.#host.clock.setTimer(ASK_AGAIN_MS, resolve))
  }

  // ---- subscribers that have caught up -----------------------------------------------------------------------------------

  #join(store: Store, subscription: Subscription): void {
    if (subscription.isEnded) return
    for (const topic of subscription.topics) {
      const others = this.#live.get(topic) ?? new Set()
      this.#live.set(topic, others.add(subscription))
    }
    this.#caughtUp.add(subscription)
    this.#progressed()
    if (this.#seq !== null) return
    this.#seq = subscription.position.seq
    this.#forgetCommits = store.onCommit(() => this.#ask())
    // Events that were committed since the last page was read, before there was a subscriber.
    this.#ask()
  }

  #remove(subscription: Subscription): void {
    this.#subscriptions.delete(subscription)
    for (const topic of subscription.topics) {
      const others = this.#live.get(topic)
      others?.delete(subscription)
      if (others?.size === 0) this.#live.delete(topic)
    }
    if (this.#caughtUp.delete(subscription) && this.#caughtUp.size === 0) this.#rest()
    this.#progressed()
  }

  #rest(): void {
    this.#seq = null
    this.#forgetCommits()
    this.#timer?.cancel()
    this.#timer = null
  }

  #ask(): void {
    this.#isAskedAgain = true
    if (this.#isReading) return
    this.#isReading = true
    // Commits of one turn are read together.
    setImmediate(() => void this.#read())
  }

  async #read(): Promise<void> {
    this.#timer?.cancel()
    let nextMs = this.#pollMs
    try {
      while (this.#isAskedAgain && this.#seq !== null) {
        this.#isAskedAgain = false
        await this.#letDrain()
        if (await this.#readPage()) this.#isAskedAgain = true
      }
    } catch (error) {
      if (isStoreStopped(error)) for (const subscription of this.#subscriptions) subscription.end('stopped')
      else this.#host.log.error({ err: error }, 'the events of the store cannot be read; will try again')
      nextMs = ASK_AGAIN_MS
    }
    this.#isReading = false
    if (this.#seq === null) return
    this.#timer = this.#host.clock.setTimer(nextMs, () => this.#ask())
  }

  /**
   * A socket takes what was written only between two turns. Without them a burst of several pages would fill the buffer of a
   * reader that keeps up, and end it as slow. A reader that does not read delays the others by a bounded number of turns.
   */
  async #letDrain(): Promise<void> {
    const isHalfFull = (one: Subscription) => one.waiting > halfOf(one)
    for (let turn = 0; turn < DRAIN_TURNS_MAX && [...this.#caughtUp].some(isHalfFull); turn++) await nextTurn()
  }

  /** Answers whether there is more. */
  async #readPage(): Promise<boolean> {
    const store = await this.#host.store()
    const startSeq = this.#seq
    if (startSeq === null) return false
    const { events, nextSeq, hasMore } = await store.feed({ afterSeq: startSeq, limit: PAGE })
    let readSeq = startSeq
    let published = 0
    for (const event of events) {
      const made = await this.#eventsOf(store, event)
      if (published >= EVENTS_PER_TURN) {
        published = 0
        await nextTurn()
      }
      // All subscribers left meanwhile. A new one may have come, at another position.
      if (this.#seq !== readSeq) return this.#seq !== null
      for (const one of made) published += this.#publish(one.at, one.event)
      if (this.#seq !== readSeq) return this.#seq !== null
      readSeq = event.seq
      this.#seq = readSeq
    }
    if (this.#seq === readSeq) this.#seq = Math.max(readSeq, nextSeq)
    this.#progressed()
    return hasMore
  }

  /** Returns the number of subscribers. */
  #publish(at: Position, event: HubEvent): number {
    const receivers = new Set<Subscription>()
    for (const topic of [...event.topics, '*']) for (const one of this.#live.get(topic) ?? []) receivers.add(one)
    for (const subscription of receivers) {
      if (!isAfter(at, subscription.position)) continue
      // The event is not delivered, so the position stays: a new subscription continues from here.
      if (subscription.isFull) subscription.end('slow')
      else offer(subscription, at, event)
    }
    return receivers.size
  }

  // ---- the events made from one event of the store -----------------------------------------------------------------

  /** The app's own events first: the bare number comes last and stands for all of them. */
  async #eventsOf(store: Store, event: FeedEvent): Promise<{ at: Position; event: HubEvent }[]> {
    const own = ownEvent(event)
    const mapped: HubEvent[] = []
    let storeError: unknown = null
    const input = async (): Promise<unknown> => {
      if (event.subject !== null) return null
      try {
        const job = await store.job({ id: event.jobId })
        return job === null ? null : (JSON.parse(job.payload) as unknown)
      } catch (error) {
        storeError = error
        throw error
      }
    }
    for (const mapper of this.#mappers) {
      try {
        for (const { topics, event: name, data } of (await mapper({ ...event, input })) ?? []) {
          const strange = topics.find((topic) => isStoreTopic(topic) && !own.topics.includes(topic))
          if (strange !== undefined) throw new Error(`${strange} is not a topic of event ${event.seq}, nor of the app`)
          mapped.push({ id: `${event.seq}.${mapped.length + 1}`, topics, event: name, data })
        }
      } catch (error) {
        // A store that does not answer is not the mapper's fault: all of it is tried again.
        if (storeError !== null) throw storeError
        this.#host.log.error({ err: error, seq: event.seq }, 'a mapper of the hub failed; its events are not published')
      }
    }
    const parts = mapped.map((one, i) => ({ at: { seq: event.seq, part: i + 1 }, event: one }))
    return [...parts, { at: { seq: event.seq, part: WHOLE }, event: own }]
  }
}

/** Each event once, in order, and only what was asked for. */
function offer(subscription: Subscription, at: Position, event: HubEvent): void {
  if (!isAfter(at, subscription.position)) return
  subscription.position = at
  const { topics } = subscription
  if (topics.has('*') || event.topics.some((topic) => topics.has(topic))) subscription.put(event)
}

const halfOf = ({ bufferMax }: Subscription): number => Math.floor(bufferMax / 2)

function gap(reason: 'removed' | 'unknown' | 'behind', { seq }: Position, toSeq: number): HubEvent {
  return { id: null, topics: [], event: 'gap', data: { reason, after: String(seq), to: String(toSeq) } }
}

const isTopic = (topic: unknown): boolean =>
  topic === '*' || (typeof topic === 'string' && topic.length <= TOPIC_CHARS_MAX && /^[a-z][\w.-]*:./is.test(topic))

const isStoreStopped = (error: unknown): boolean => error instanceof RedressError && error.code === 'STORE_STOPPED'

const invalid = (message: string): RedressError => new RedressError('OPTION_INVALID', `${message}.`)

/**
 * Resolves after timers, sockets and other requests had a turn. Awaiting a settled promise, such as an answer of the
 * embedded store, only lets other promises run: a loop of those blocks the whole process.
 */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Runs tasks one at a time, in order of arrival, each in its own turn of the event loop. */
export class OnePerTurn {
  #last: Promise<unknown> = Promise.resolve()

  run<T>(task: () => Promise<T>): Promise<T> {
    const done = this.#last.then(nextTurn).then(task)
    this.#last = done.catch(() => undefined)
    return done
  }
}
