import { affordable, affordableAtMs, afterTaking, creditsAt, type Meter } from '../../core/limits/rate.ts'
import type { RatePolicy } from '../../core/policy/flow.ts'
import type { Clock } from '../../runtime/clock.ts'

const ADDRESSES_MAX = 10_000
const MINUTE_MS = 60_000

/** Wrong secrets cost: who shows too many of them has to wait. By address, of which a bounded number is remembered. */
export class WrongSecrets {
  readonly #clock: Clock
  readonly #rate: RatePolicy
  readonly #meters = new Map<string, Meter>()

  constructor(clock: Clock, perMinute: number) {
    this.#clock = clock
    this.#rate = { max: perMinute, perMs: MINUTE_MS, burst: perMinute, scope: 'type' }
  }

  /** How long this address must wait; 0 when it may try. */
  waitMs(address: string): number {
    const nowMs = this.#clock.nowMs()
    const credits = creditsAt(this.#meters.get(address) ?? null, this.#rate, nowMs)
    return affordable(credits, this.#rate) > 0 ? 0 : affordableAtMs(credits, this.#rate, nowMs) - nowMs
  }

  count(address: string): void {
    const nowMs = this.#clock.nowMs()
    const credits = creditsAt(this.#meters.get(address) ?? null, this.#rate, nowMs)
    this.#meters.delete(address)
    // The one that was quiet for longest goes first.
    if (this.#meters.size >= ADDRESSES_MAX) this.#meters.delete(this.#meters.keys().next().value as string)
    this.#meters.set(address, afterTaking(credits, 1, this.#rate, nowMs))
  }
}
