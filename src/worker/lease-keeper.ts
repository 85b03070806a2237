import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'
import type { Renewal, Store, WorkerKey } from '../store/store.ts'
import { Attempt } from './attempt.ts'
import type { Flight } from './flight.ts'
import { Trouble } from './trouble.ts'

/** A lease is renewed when a third of it has passed: two renewals may fail before it is in danger. */
const RENEW_AT_SHARE = 1 / 3
const PROGRESS_EVERY_MS = 1_000
/** An idle worker shows itself this often. */
const SEEN_EVERY_MS = 10_000

/** Renews everything this worker holds in one call, and finds out what it no longer holds. */
export class LeaseKeeper {
  readonly #store: Store
  readonly #clock: Clock
  readonly #trouble: Trouble
  readonly #lost: (flight: Flight) => void
  #underWay: Promise<void> | null = null
  #seenMonoMs = Number.NEGATIVE_INFINITY
  #progressMonoMs = Number.NEGATIVE_INFINITY

  constructor(store: Store, clock: Clock, log: Log, lost: (flight: Flight) => void) {
    this.#store = store
    this.#clock = clock
    this.#trouble = new Trouble(clock, log)
    this.#lost = lost
  }

  /** One after the other: a store that is slow to answer must not be asked for the same leases again and again. */
  async keep(worker: WorkerKey, held: ReadonlyMap<number, Flight>, nowMonoMs: number): Promise<void> {
    const mustWait = this.#underWay !== null
    while (this.#underWay !== null) await this.#underWay.catch(() => undefined)
    try {
      this.#underWay = this.#keep(worker, held, mustWait ? this.#clock.monoMs() : nowMonoMs)
      await this.#underWay
    } finally {
      this.#underWay = null
    }
  }

  async #keep(worker: WorkerKey, held: ReadonlyMap<number, Flight>, nowMonoMs: number): Promise<void> {
    const renewals = this.#due(held, nowMonoMs)
    if (renewals.length === 0 && nowMonoMs - this.#seenMonoMs < SEEN_EVERY_MS) return
    let lost: readonly number[]
    try {
      lost = (await this.#store.renew({ worker, leases: renewals })).lost
    } catch (error) {
      this.#trouble.failed({ err: error, leases: renewals.length }, 'leases could not be renewed; will try again')
      this.#giveUpExpired(held, nowMonoMs)
      return
    }
    this.#trouble.isOver()
    this.#seenMonoMs = nowMonoMs
    for (const { key, attempt, ttlMs } of renewals) {
      const flight = held.get(key)
      if (flight === undefined || flight.lease.attempt !== attempt) continue
      flight.renewedMonoMs = nowMonoMs
      // From when we asked, as at the claim.
      flight.trustedUntilMonoMs = nowMonoMs + ttlMs
      if (lost.includes(key)) this.#lost(flight)
    }
  }

  #due(held: ReadonlyMap<number, Flight>, nowMonoMs: number): Renewal[] {
    const tellsProgress = nowMonoMs - this.#progressMonoMs >= PROGRESS_EVERY_MS
    if (tellsProgress) this.#progressMonoMs = nowMonoMs
    const renewals: Renewal[] = []
    for (const [key, flight] of held) {
      if (flight.isBeingRecorded) continue
      const { ttlMs } = flight.handler.policy.lease
      const progress = tellsProgress ? Attempt.takeProgress(flight.attempt) : null
      if (progress === null && nowMonoMs < flight.renewedMonoMs + ttlMs * RENEW_AT_SHARE) continue
      renewals.push({ key, attempt: flight.lease.attempt, ttlMs, progress })
    }
    return renewals
  }

  /** The store does not answer and the lease is over: somebody else may have the job by now. */
  #giveUpExpired(held: ReadonlyMap<number, Flight>, nowMonoMs: number): void {
    for (const flight of [...held.values()]) {
      // What has ended and only waits to be recorded does no harm: its outcome counts if the store still says so.
      if (flight.trustedUntilMonoMs <= nowMonoMs && flight.state !== 'closing') this.#lost(flight)
    }
  }
}
