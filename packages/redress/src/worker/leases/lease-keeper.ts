import type { Clock } from '../../runtime/clock.ts'
import type { Log } from '../../runtime/log.ts'
import type { Renewal, Store, WorkerKey } from '../../store/contract/store.ts'
import type { Handler } from '../attempt/call-handler.ts'
import type { Flight } from '../attempt/flight.ts'
import { ANSWER_MS_MAX, answerWithin, NO_ANSWER, Trouble } from '../store-calls.ts'

/** A lease is renewed when a third of it has passed: two renewals may fail before it is in danger. */
const RENEW_AT_SHARE = 1 / 3
/** An idle worker shows itself this often. */
const SEEN_EVERY_MS = 10_000

/** Renews everything this worker holds in one call, and finds out what it no longer holds. */
export class LeaseKeeper {
  readonly #store: Store
  readonly #clock: Clock
  readonly #trouble: Trouble
  #answerMsMax = ANSWER_MS_MAX
  readonly #lost: (flight: Flight) => void
  #underWay: Promise<void> | null = null
  #next: Promise<void> | null = null
  #seenMonoMs = Number.NEGATIVE_INFINITY

  constructor(store: Store, clock: Clock, log: Log, lost: (flight: Flight) => void) {
    this.#store = store
    this.#clock = clock
    this.#trouble = new Trouble(clock, log)
    this.#lost = lost
  }

  /** From now on, jobs of these types may be held: the shortest lease may need a renewal while an answer is pending. */
  serve(handlers: readonly Handler[]): void {
    const leasesMs = handlers.map(({ policy }) => policy.lease.ttlMs * RENEW_AT_SHARE)
    this.#answerMsMax = Math.min(this.#answerMsMax, ...leasesMs)
  }

  /**
   * One round at a time: a slow store must not get the same renewals again and again. Callers that ask meanwhile
   * share the next round.
   */
  keep(worker: WorkerKey, held: ReadonlyMap<number, Flight>): Promise<void> {
    if (this.#underWay === null) {
      this.#underWay = this.#keep(worker, held).finally(() => {
        this.#underWay = null
      })
      return this.#underWay
    }
    this.#next ??= this.#underWay.then(() => {
      this.#next = null
      return this.keep(worker, held)
    })
    return this.#next
  }

  /** Never rejects, and ends in a bounded time whatever the store does. */
  async #keep(worker: WorkerKey, held: ReadonlyMap<number, Flight>): Promise<void> {
    const askedMonoMs = this.#clock.monoMs()
    const renewals = this.#due(held, askedMonoMs)
    if (renewals.length === 0 && askedMonoMs - this.#seenMonoMs < SEEN_EVERY_MS) return
    try {
      const asked = this.#store.renew({ worker, leases: renewals })
      const renewed = asked.then(({ lost }) => this.#renewed(held, renewals, lost, askedMonoMs))
      if ((await answerWithin(this.#clock, this.#answerMsMax, renewed)) !== NO_ANSWER) return
      const waited_ms = Math.round(this.#answerMsMax)
      this.#trouble.failed({ waited_ms, leases: renewals.length }, 'a renewal was not answered; will renew again')
    } catch (error) {
      this.#trouble.failed({ err: error, leases: renewals.length }, 'leases could not be renewed; will try again')
    }
  }

  /** Also handles an answer that came after its round timed out. */
  #renewed(
    held: ReadonlyMap<number, Flight>,
    renewals: readonly Renewal[],
    lost: readonly number[],
    askedMonoMs: number,
  ): void {
    this.#trouble.ended()
    this.#seenMonoMs = Math.max(this.#seenMonoMs, askedMonoMs)
    for (const { key, attempt, ttlMs } of renewals) {
      const flight = held.get(key)
      if (flight === undefined || flight.lease.attempt !== attempt) continue
      // The lease counts from the request, as at the claim. Answers may overtake each other; a lease is never
      // shortened.
      flight.renewedMonoMs = Math.max(flight.renewedMonoMs, askedMonoMs)
      flight.trustedUntilMonoMs = Math.max(flight.trustedUntilMonoMs, askedMonoMs + ttlMs)
      if (lost.includes(key)) this.#lost(flight)
    }
  }

  #due(held: ReadonlyMap<number, Flight>, nowMonoMs: number): Renewal[] {
    const renewals: Renewal[] = []
    for (const [key, flight] of held) {
      const { state } = flight
      if (state.kind === 'closing' && state.record === 'sent') continue
      const { ttlMs } = flight.handler.policy.lease
      if (nowMonoMs < flight.renewedMonoMs + ttlMs * RENEW_AT_SHARE) continue
      renewals.push({ key, attempt: flight.lease.attempt, ttlMs })
    }
    return renewals
  }
}
