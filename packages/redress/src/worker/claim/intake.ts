import { asForwardOnly, isLimited, type Policy } from '../../core/policy/policy.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Log } from '../../runtime/log.ts'
import type { BreakerStanding } from '../../store/contract/breakers.ts'
import type {
  Lane,
  Lease,
  OfferedClaim,
  Store,
  Claimed as StoreClaimed,
  WorkerKey,
} from '../../store/contract/store.ts'
import type { Handler } from '../attempt/call-handler.ts'
import { Flight } from '../attempt/flight.ts'
import type { StageRuntime } from '../attempt/stage.ts'
import { Trouble } from '../store-calls.ts'

export interface Claimed {
  flights: Flight[]
  /** The store had at least as many as we asked for. */
  hasMore: boolean
  /** When the next waiting job becomes due. */
  nextDueInMs: number
}

interface IntakeOptions extends StageRuntime {
  store: Store
  log: Log
  handlers: ReadonlyMap<string, Handler>
  prefetchMax: number
  /** The answer to a claim says how breakers stand. */
  onBreakers: (standings: readonly BreakerStanding[], askedMonoMs: number) => void
}

/** Claims for one worker: decides how many, and for which lanes. */
export class Intake {
  readonly #store: Store
  readonly #clock: Clock
  readonly #trouble: Trouble
  /** For a type with its own `slotsMax`: it must not keep other types from being claimed. */
  readonly #slotTrouble: Trouble
  readonly #handlers: ReadonlyMap<string, Handler>
  readonly #prefetch: Prefetch
  readonly #onBreakers: IntakeOptions['onBreakers']
  readonly #runtime: StageRuntime
  #served: readonly Handler[] = []
  #lanes: readonly Lane[] = []
  /** Types with a limit per worker. */
  #slotted: readonly Handler[] = []
  /** Jobs that can be given back, and take nothing from others while they wait, may be claimed before there is a slot. */
  #lanesAhead: readonly Lane[] = []

  constructor(options: IntakeOptions) {
    const { store, clock, log, handlers, prefetchMax, onBreakers } = options
    this.#store = store
    this.#clock = clock
    this.#runtime = options
    this.#trouble = new Trouble(clock, log)
    this.#slotTrouble = new Trouble(clock, log)
    this.#handlers = handlers
    this.#prefetch = new Prefetch(prefetchMax)
    this.#onBreakers = onBreakers
  }

  /** From now on, jobs of these types are claimed here, too. */
  serve(added: readonly Handler[]): void {
    const served = [...this.#served, ...added]
    this.#served = served
    this.#lanes = lanesOf(served)
    this.#slotted = served.filter(({ slotsMax }) => slotsMax !== null)
    this.#lanesAhead = lanesOf(served.filter(({ policy, slotsMax }) => slotsMax === null && mayWaitHere(policy)))
  }

  /** A job is done: the pace by which the next claim is measured. */
  done(): void {
    this.#prefetch.done()
  }

  /** The buffer is filled again when it is half empty. */
  isWorthAsking(freeSlots: number, buffered: number): boolean {
    if (this.#trouble.isWaiting) return false
    const ahead = this.#prefetch.size
    return freeSlots > 0 || (freeSlots + ahead > 0 && buffered <= ahead / 2)
  }

  /** The previous claim was not answered. */
  unanswered(waitedMs: number): void {
    this.#trouble.failed({ waited_ms: waitedMs }, 'a claim was not answered; will ask again')
  }

  /**
   * `freeSlots` is negative if more jobs are buffered than there are slots; `held` are the jobs that this worker
   * holds.
   */
  async claim(worker: WorkerKey, freeSlots: number, held: Iterable<Flight>): Promise<Claimed> {
    const askedMonoMs = this.#clock.monoMs()
    const claims = this.#claims(freeSlots, held)
    const answers = await Promise.allSettled(claims.map(({ lanes, max }) => this.#store.claim({ worker, lanes, max })))
    return this.#receive(claims, answers, askedMonoMs)
  }

  /** The claim of an idle worker, for a submission to make; null if none can be made now. `taken` gets the jobs. */
  offer(freeSlots: number, taken: (claimed: Claimed | null) => void): Omit<OfferedClaim, 'worker'> | null {
    if (this.#trouble.isWaiting) return null
    const [first] = this.#claims(freeSlots, [])
    if (first === undefined) return null
    const askedMonoMs = this.#clock.monoMs()
    return {
      ...first,
      taken: (value) =>
        taken(value === null ? null : this.#receive([first], [{ status: 'fulfilled', value }], askedMonoMs)),
    }
  }

  #receive(
    claims: readonly Claim[],
    answers: readonly PromiseSettledResult<StoreClaimed>[],
    askedMonoMs: number,
  ): Claimed {
    const taken: Claimed = { flights: [], hasMore: false, nextDueInMs: Number.POSITIVE_INFINITY }
    for (const [i, answer] of answers.entries()) {
      if (answer.status === 'rejected') {
        // The jobs of the other claim are leased to this worker and must run.
        this.#trouble.failed({ err: answer.reason }, 'claiming failed; will try again')
        continue
      }
      this.#trouble.ended()
      const { nowMs, leases, nextDueAtMs, breakers } = answer.value
      if (breakers !== undefined) this.#onBreakers(breakers, askedMonoMs)
      if (nextDueAtMs !== null) taken.nextDueInMs = Math.min(taken.nextDueInMs, nextDueAtMs - nowMs)
      if (leases.length >= (claims[i]?.max ?? 0)) taken.hasMore = true
      for (const lease of leases) {
        taken.flights.push(new Flight(lease, this.#handlerOf(lease), this.#runtime, nowMs, askedMonoMs))
      }
    }
    const payloadChars = taken.flights.reduce((sum, { lease }) => sum + lease.payload.length, 0)
    this.#prefetch.claimed(taken.flights.length, payloadChars, askedMonoMs)
    return taken
  }

  /** Slots go by priority, whatever the lane; only what can be given back is claimed beyond them. */
  #claims(freeSlots: number, held: Iterable<Flight>): Claim[] {
    const ahead = this.#prefetch.size
    const claims =
      this.#lanesAhead.length === this.#lanes.length
        ? [{ lanes: this.#lanes, max: freeSlots + ahead }]
        : [...this.#slotClaims(freeSlots, held), { lanes: this.#lanesAhead, max: Math.min(ahead, freeSlots + ahead) }]
    return claims.filter(({ lanes, max }) => lanes.length > 0 && max > 0)
  }

  /**
   * One claim for all lanes. But a type whose limit is below the number of free slots is claimed separately, with its
   * own share. Together the claims never return more than fits.
   */
  #slotClaims(freeSlots: number, held: Iterable<Flight>): Claim[] {
    if (this.#slotted.length === 0) return [{ lanes: this.#lanes, max: freeSlots }]
    const underWay = new Map<string, number>()
    for (const { lease, state } of held) {
      if (state.kind === 'running' || state.kind === 'buffered')
        underWay.set(lease.type, (underWay.get(lease.type) ?? 0) + 1)
    }
    const apart: Claim[] = []
    let rest = freeSlots
    for (const { type, slotsMax } of this.#slotted) {
      const max = Math.max(0, this.#slotsOf(type, slotsMax) - (underWay.get(type) ?? 0))
      if (max >= rest) continue
      apart.push({ lanes: this.#lanes.filter((lane) => lane.type === type), max })
      rest -= max
    }
    const isApart = new Set(apart.flatMap(({ lanes }) => lanes))
    return [{ lanes: this.#lanes.filter((lane) => !isApart.has(lane)), max: rest }, ...apart]
  }

  #slotsOf(type: string, slotsMax: Handler['slotsMax']): number {
    if (this.#slotTrouble.isWaiting) return 0
    try {
      const answer = slotsMax?.()
      if (typeof answer !== 'number' || !(answer >= 0)) {
        throw new TypeError(`slotsMax must return a number of at least 0; got ${String(answer)}`)
      }
      this.#slotTrouble.ended()
      return Math.floor(answer)
    } catch (error) {
      this.#slotTrouble.failed({ type, err: error }, `slotsMax of ${type} failed; its jobs are not claimed for now`)
      return 0
    }
  }

  #handlerOf({ type, isForwardOnly }: Lease): Handler {
    const handler = this.#handlers.get(type)
    if (handler === undefined) throw new Error(`claimed a job of type ${type}, for which this worker has no handler`)
    if (!isForwardOnly || handler.policy.forwardOnly) return handler
    return { ...handler, policy: asForwardOnly(handler.policy) }
  }
}

const lanesOf = (handlers: readonly Handler[]): Lane[] =>
  handlers.map(({ type, policy }) => ({ type, ttlMs: policy.lease.ttlMs }))

interface Claim {
  lanes: readonly Lane[]
  max: number
}

/**
 * Whether a job can be given back by a worker that stops, and requeued after one that dies. A dead worker may have begun
 * jobs without a recorded start. Where these are not requeued, a person must look at each, so none is claimed ahead.
 */
function mayBeGivenBack({ shutdown, orphan }: Policy): boolean {
  return shutdown === 'requeue' && orphan.action === 'requeue'
}

/**
 * A limited type may have only so many jobs under way, and one that waits in a buffer would use up a place. A breaker
 * is no such limit while it is closed, and waiting jobs are given back when it opens.
 */
const mayWaitHere = (policy: Policy): boolean => mayBeGivenBack(policy) && !isLimited({ ...policy, breaker: null })

const WORTH_MS = 100
const GROWTH_MAX = 4
/** Payloads that wait for a slot are in memory: with large ones, fewer wait. */
const PAYLOAD_CHARS_MAX = 16 * 1024 * 1024
const GROWTH_MIN_JOBS = 8
/** Guards the first division; a timer cannot tell less than this apart anyway. */
const ELAPSED_MS_MIN = 0.5

/**
 * How many jobs to claim ahead: about as many as the worker got done in the last tenth of a second. Short jobs are
 * fetched by the hundred, because that is where the speed is; long ones are left for workers that have a free slot.
 */
export class Prefetch {
  readonly #max: number
  #size = 0
  #done = 0
  #sinceMonoMs: number | null = null

  constructor(max: number) {
    this.#max = max
  }

  get size(): number {
    return this.#size
  }

  done(): void {
    this.#done++
  }

  claimed(jobs: number, payloadChars: number, nowMonoMs: number): void {
    if (this.#sinceMonoMs !== null && jobs > 0) {
      const elapsedMs = Math.max(ELAPSED_MS_MIN, nowMonoMs - this.#sinceMonoMs)
      const worth = Math.floor((this.#done / elapsedMs) * WORTH_MS)
      // Grown step by step, so that one quick job does not make a worker hoard five hundred slow ones.
      const allowed = Math.max(GROWTH_MIN_JOBS, this.#size * GROWTH_MAX)
      const affordable = Math.floor((PAYLOAD_CHARS_MAX * jobs) / Math.max(1, payloadChars))
      this.#size = Math.min(this.#max, allowed, worth, affordable)
    }
    this.#done = 0
    this.#sinceMonoMs = nowMonoMs
  }
}
