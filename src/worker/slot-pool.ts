import type { Clock } from '../runtime/clock.ts'
import type { WorkerKey } from '../store/store.ts'
import type { Flight } from './flight.ts'
import type { Handler } from './handler.ts'
import type { Intake } from './intake.ts'
import { answerWithin, PATIENCE_MS, SILENCE } from './patience.ts'
import { WaitingLine } from './waiting-line.ts'

const HINT_SOON_MS = 100

interface SlotPoolOptions {
  clock: Clock
  intake: Intake
  slots: number
  pollMs: number
  /** Only while it does are jobs begun. */
  isRunning: () => boolean
  /** Every job that the worker holds. */
  held: () => Iterable<Flight>
  /** A job is leased. A claim may also bring jobs of other pools: those of an earlier claim whose answer was lost. */
  claimed: (flight: Flight) => void
  /** Jobs of any pool may wait for a slot now. */
  begin: () => void
  start: (flight: Flight) => void
  /** Nothing may begin before the store has answered a question. */
  mustLookFirst: () => boolean
  /** There is more: the loop should turn at once. */
  turn: () => void
  /** The loop should turn within this time, and want work for every pool. */
  poll: (withinMs: number) => void
  /** A claim ended, whatever it brought. */
  changed: () => void
}

/**
 * Some slots of a worker, and the jobs claimed for them. Most types share one pool. A type with slots of its own has a
 * pool of its own: its jobs never wait for a slot behind other work, however long that takes.
 */
export class SlotPool {
  readonly #options: SlotPoolOptions
  readonly line = new WaitingLine()
  #running = 0
  #isWanted = true
  #hasHint = false
  #isClaiming = false
  #isFilling = false
  #isBeginScheduled = false

  constructor(options: SlotPoolOptions) {
    this.#options = options
  }

  get isClaiming(): boolean {
    return this.#isClaiming
  }

  /** There may be a slot, or work for one: the next turn of the loop claims. */
  want(): void {
    this.#isWanted = true
  }

  /** There is new work. What comes while a claim is under way may be missing in its answer. */
  hint(): void {
    this.#isWanted = true
    this.#hasHint = true
  }

  hintSoon(): void {
    this.#options.poll(HINT_SOON_MS)
  }

  async claim(worker: WorkerKey): Promise<void> {
    const { clock, intake, slots, pollMs, turn, poll, changed } = this.#options
    const free = slots - this.#running - this.line.length
    if (this.#isClaiming || !this.#isWanted || !intake.isWorthAsking(free, this.line.length)) {
      poll(pollMs)
      return
    }
    this.#isClaiming = true
    this.#isWanted = false
    this.#hasHint = false
    const claimed = intake.claim(worker, free, this.#options.held()).then((taken) => {
      for (const flight of taken.flights) this.#options.claimed(flight)
      return taken
    })
    const taken = await answerWithin(clock, PATIENCE_MS, claimed)
    this.#isClaiming = false
    if (taken === SILENCE) {
      intake.isSilent(PATIENCE_MS)
      // Jobs of an answer that comes after all are leased to this worker.
      void claimed.then(() => this.#claimed())
      poll(pollMs)
      changed()
      return
    }
    this.#claimed()
    if (taken.hasMore) this.#isWanted = true
    if (taken.hasMore || this.#hasHint) turn()
    else poll(Math.max(0, Math.min(pollMs, taken.nextDueInMs)))
  }

  #claimed(): void {
    this.#options.begin()
    this.#options.changed()
  }

  /** Begins waiting attempts while there are slots. A handler that ends at once frees its slot inside this loop. */
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

  /** Not from inside the handler that just ended: its stack would stand below the next one's, in every error. */
  beginSoon(): void {
    if (this.#isBeginScheduled || this.#isFilling || this.line.length === 0) return
    this.#isBeginScheduled = true
    queueMicrotask(() => {
      this.#isBeginScheduled = false
      this.begin()
    })
  }
}

/** The pools of a worker: one for each type with slots of its own, and one for all others. */
export class SlotPools {
  readonly #shared: SlotPool
  readonly #own: readonly SlotPool[]
  readonly #byType: ReadonlyMap<string, SlotPool>

  constructor(
    handlers: Iterable<Handler>,
    concurrency: number,
    makePool: (served: readonly Handler[], slots: number) => SlotPool,
  ) {
    const all = [...handlers]
    const own = all.filter(({ ownSlots }) => ownSlots !== null)
    const shared = all.filter(({ ownSlots }) => ownSlots === null)
    this.#shared = makePool(shared, concurrency)
    this.#own = own.map((handler) => makePool([handler], handler.ownSlots as number))
    this.#byType = new Map([
      ...shared.map(({ type }) => [type, this.#shared] as const),
      ...own.map(({ type }, i) => [type, this.#own[i] as SlotPool] as const),
    ])
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
    return this.#byType.get(lease.type) as SlotPool
  }

  want(): void {
    for (const pool of this.#all) pool.want()
  }

  /** Most hints are about other work, so types with slots of their own are claimed a moment later, for all of them. */
  hint(): void {
    this.#shared.hint()
    this.#own[0]?.hintSoon()
  }

  claim(worker: WorkerKey): void {
    for (const pool of this.#all) void pool.claim(worker)
  }

  begin(): void {
    for (const pool of this.#all) pool.begin()
  }

  /** Takes those chosen out of the lines in which they wait for a slot. */
  takeWaiting(isChosen: (flight: Flight) => boolean): Flight[] {
    return this.#all.flatMap(({ line }) => line.take(isChosen))
  }

  clear(): void {
    for (const { line } of this.#all) line.clear()
  }
}
