import type { Clock } from '../../runtime/clock.ts'
import type { OfferedClaim, WorkerKey } from '../../store/contract/store.ts'
import type { Handler } from '../attempt/call-handler.ts'
import type { Flight } from '../attempt/flight.ts'
import { ANSWER_MS_MAX, answerWithin, NO_ANSWER } from '../store-calls.ts'
import type { Intake } from './intake.ts'

const WAKE_SOON_MS = 100

interface SlotPoolOptions {
  clock: Clock
  intake: Intake
  slots: number
  pollMs: number
  /** Jobs start only while this is true. */
  isRunning: () => boolean
  /** Every job that the worker holds. */
  held: () => Iterable<Flight>
  /**
   * A job was leased. A claim may also return jobs of other pools: those of an earlier claim whose answer was lost.
   */
  claimed: (flight: Flight) => void
  /** Jobs of any pool may now be waiting for a slot. */
  begin: () => void
  start: (flight: Flight) => void
  /** No job may start before the store has answered a query. */
  mustLookFirst: () => boolean
  /** More work is known: the loop must run at once. */
  scheduleCycle: () => void
  /** The loop should turn within this time, and want work for every pool. */
  poll: (withinMs: number) => void
  /** A claim ended, whatever it returned. */
  changed: () => void
}

/**
 * Some slots of a worker, and the jobs claimed for them. Most types share one pool. A type with its own slots has its
 * own pool: its jobs never wait behind other work.
 */
export class SlotPool {
  readonly #options: SlotPoolOptions
  readonly line = new WaitingLine()
  #running = 0
  #isWanted = true
  #isWoken = false
  #isClaiming = false
  #isFilling = false
  #isBeginScheduled = false

  constructor(options: SlotPoolOptions) {
    this.#options = options
  }

  get isClaiming(): boolean {
    return this.#isClaiming
  }

  /** From now on, jobs of these types run in these slots, too. */
  serve(handlers: readonly Handler[]): void {
    this.#options.intake.serve(handlers)
    this.#isWanted = true
  }

  /** A slot or work may be available: the next run of the loop claims. */
  want(): void {
    this.#isWanted = true
  }

  /** There is new work. Work that arrives during a claim may be missing from its answer. */
  wake(): void {
    this.#isWanted = true
    this.#isWoken = true
  }

  wakeSoon(): void {
    this.#options.poll(WAKE_SOON_MS)
  }

  async claim(worker: WorkerKey): Promise<void> {
    const { clock, intake, slots, pollMs, scheduleCycle, poll, changed } = this.#options
    const free = slots - this.#running - this.line.length
    if (this.#isClaiming || !this.#isWanted || !intake.isWorthAsking(free, this.line.length)) {
      poll(pollMs)
      return
    }
    this.#isClaiming = true
    this.#isWanted = false
    this.#isWoken = false
    const claimed = intake.claim(worker, free, this.#options.held()).then((taken) => {
      for (const flight of taken.flights) this.#options.claimed(flight)
      return taken
    })
    const taken = await answerWithin(clock, ANSWER_MS_MAX, claimed)
    this.#isClaiming = false
    if (taken === NO_ANSWER) {
      intake.unanswered(ANSWER_MS_MAX)
      // Jobs in a late answer are still leased to this worker.
      void claimed.then(() => this.#claimed())
      poll(pollMs)
      changed()
      return
    }
    this.#claimed()
    if (taken.hasMore) this.#isWanted = true
    if (taken.hasMore || this.#isWoken) scheduleCycle()
    else poll(Math.max(0, Math.min(pollMs, taken.nextDueInMs)))
  }

  /** The claim that a submission of this process may make; null unless these slots are idle. */
  offer(worker: WorkerKey): OfferedClaim | null {
    const { intake, slots, isRunning, scheduleCycle } = this.#options
    if (this.#isClaiming || this.#running > 0 || this.line.length > 0 || !isRunning()) return null
    const offered = intake.offer(slots, (taken) => {
      this.#isClaiming = false
      for (const flight of taken?.flights ?? []) this.#options.claimed(flight)
      this.#claimed()
      // The commit woke this worker while it was claiming: there may be more work.
      this.#isWanted = true
      scheduleCycle()
    })
    if (offered === null) return null
    this.#isClaiming = true
    return { worker, ...offered }
  }

  #claimed(): void {
    this.#options.begin()
    this.#options.changed()
  }

  /** Starts waiting attempts while slots are free. A handler that ends at once frees its slot inside this loop. */
  begin(): void {
    const { slots, isRunning, mustLookFirst, start } = this.#options
    if (this.#isFilling) return
    this.#isFilling = true
    while (this.#running < slots && isRunning() && !mustLookFirst()) {
      const flight = this.line.takeNext()
      if (flight === undefined) break
      start(flight)
    }
    this.#isFilling = false
  }

  take(): void {
    this.#running++
  }

  free(): void {
    this.#running--
    this.#options.intake.done()
    this.beginSoon()
  }

  /** Not called from the handler that just ended: its stack would appear below the next one's, in every error. */
  beginSoon(): void {
    if (this.#isBeginScheduled || this.#isFilling || this.line.length === 0) return
    this.#isBeginScheduled = true
    queueMicrotask(() => {
      this.#isBeginScheduled = false
      this.begin()
    })
  }
}

/** The pools of a worker: one per type with its own slots, and one for all other types. */
export class SlotPools {
  readonly #shared: SlotPool
  readonly #own: SlotPool[] = []
  readonly #byType = new Map<string, SlotPool>()
  readonly #makePool: (slots: number) => SlotPool

  constructor(concurrency: number, makePool: (slots: number) => SlotPool) {
    this.#makePool = makePool
    this.#shared = makePool(concurrency)
  }

  /** From now on, jobs of these types are claimed, too. */
  serve(handlers: readonly Handler[]): void {
    this.#shared.serve(handlers.filter(({ ownSlots }) => ownSlots === null))
    for (const handler of handlers) {
      const pool = handler.ownSlots === null ? this.#shared : this.#makePool(handler.ownSlots)
      this.#byType.set(handler.type, pool)
      if (pool === this.#shared) continue
      pool.serve([handler])
      this.#own.push(pool)
    }
  }

  get #all(): SlotPool[] {
    return [this.#shared, ...this.#own]
  }

  get isClaiming(): boolean {
    return this.#all.some((pool) => pool.isClaiming)
  }

  get isAnyWaiting(): boolean {
    return this.#all.some(({ line }) => line.length > 0)
  }

  of({ lease }: Flight): SlotPool {
    return this.#own.length === 0 ? this.#shared : (this.#byType.get(lease.type) as SlotPool)
  }

  want(): void {
    for (const pool of this.#all) pool.want()
  }

  /** Most wakes are about other work, so types with their own slots are claimed a moment later, together. */
  wake(): void {
    this.#shared.wake()
    this.#own[0]?.wakeSoon()
  }

  claim(worker: WorkerKey): void {
    for (const pool of this.#all) void pool.claim(worker)
  }

  /** Of the slots that most types share. Types with their own slots are claimed a moment later anyway. */
  offer(worker: WorkerKey): OfferedClaim | null {
    return this.#shared.offer(worker)
  }

  begin(): void {
    for (const pool of this.#all) pool.begin()
  }

  /** Removes the chosen jobs from the queues in which they wait for a slot. */
  takeWaiting(isChosen: (flight: Flight) => boolean): Flight[] {
    return this.#all.flatMap(({ line }) => line.take(isChosen))
  }

  clear(): void {
    for (const { line } of this.#all) line.clear()
  }
}

/** Attempts that are leased and wait for a slot of this worker, in order. */
class WaitingLine {
  #flights: Flight[] = []
  #next = 0
  /** Suspects that must wait until the one that runs has ended. */
  #suspects: Flight[] = []
  #runningSuspect: Flight | null = null

  get length(): number {
    return this.#flights.length - this.#next + this.#suspects.length
  }

  add(flight: Flight): void {
    this.#flights.push(flight)
  }

  /** The first that may begin now. */
  takeNext(): Flight | undefined {
    if (this.#runningSuspect === null && this.#suspects.length > 0) return this.#begin(this.#suspects.shift())
    while (this.#next < this.#flights.length) {
      const flight = this.#flights[this.#next++] as Flight
      if (!flight.isSuspect || this.#runningSuspect === null) return this.#begin(flight)
      this.#suspects.push(flight)
    }
    this.#flights = []
    this.#next = 0
    return undefined
  }

  #begin(flight: Flight | undefined): Flight | undefined {
    if (flight?.isSuspect) this.#runningSuspect = flight
    return flight
  }

  /** Takes those chosen out of the line. */
  take(isChosen: (flight: Flight) => boolean): Flight[] {
    const waiting = [...this.#suspects, ...this.#flights.slice(this.#next)]
    const chosen = waiting.filter(isChosen)
    if (chosen.length === 0) return chosen
    this.#flights = waiting.filter((flight) => !chosen.includes(flight))
    this.#next = 0
    this.#suspects = []
    return chosen
  }

  /** Its outcome is safe. True when that lets another one begin. */
  ended(flight: Flight): boolean {
    if (this.#runningSuspect !== flight) return false
    this.#runningSuspect = null
    return this.#suspects.length > 0
  }

  clear(): void {
    this.take(() => true)
    this.#runningSuspect = null
  }
}
