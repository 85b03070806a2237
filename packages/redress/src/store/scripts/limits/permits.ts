import { affordable, affordableAtMs, afterTaking, type Meter } from '../../../core/limits/rate.ts'
import type { RatePolicy } from '../../../core/policy/flow.ts'
import type { LeaseGuard } from '../../contract/breakers.ts'
import type { JobKey, Lease } from '../../contract/store.ts'

/** How many more jobs one limit allows to be claimed now. Lanes may share a permit. */
export interface Permit {
  left: number
  /** When more may be allowed, if that is known. */
  opensAtMs: number | null
}

/** The limits of one lane during one claim. */
export interface LanePermits {
  permits: readonly Permit[]
  /** If jobs with the same limit key limit each other. */
  permitOfKey: ((limitKey: string) => Permit) | null
  /** When a used-up key may allow a job again, if that is known. */
  keysOpenAtMs: (() => number | null) | null
  /** With `fail-fast`: the calls that are allowed. A job beyond them is claimed too, and fails at once. */
  callPermit: Permit | null
  /** The breaker of the lane, if it has one. */
  guard: Omit<LeaseGuard, 'mayCall'> | null
}

/** Takes one of each permit, or nothing. */
export function takePermits({ permits, permitOfKey }: LanePermits, limitKey: string | null): boolean {
  const ofKey = limitKey === null || limitKey === '' ? null : (permitOfKey?.(limitKey) ?? null)
  const all = ofKey === null ? permits : [...permits, ofKey]
  if (all.some(({ left }) => left < 1)) return false
  for (const permit of all) permit.left--
  return true
}

export const leftOf = ({ permits }: LanePermits): number =>
  permits.reduce((least, { left }) => Math.min(least, Math.max(0, left)), Number.POSITIVE_INFINITY)

/** When a shut lane may open; null if only the end of a job or another event can open it. */
export function opensAtMs({ permits, keysOpenAtMs }: LanePermits): number | null {
  const closed = permits.filter(({ left }) => left < 1)
  if (closed.length === 0) return keysOpenAtMs?.() ?? null
  if (closed.some((permit) => permit.opensAtMs === null)) return null
  return Math.max(...closed.map((permit) => permit.opensAtMs as number))
}

/** Adds the breaker at the time of the claim, and whether the dependency may be called. */
export function guarded(lease: Lease, lane: LanePermits | null): Lease {
  if (lane === null || lane.guard === null) return lease
  const { callPermit, guard } = lane
  const mayCall = callPermit === null || callPermit.left > 0
  if (callPermit !== null && mayCall) callPermit.left--
  return { ...lease, guard: { ...guard, mayCall } }
}

export const earliest = (one: number | null, other: number | null): number | null =>
  one === null ? other : other === null ? one : Math.min(one, other)

/** The permit of `concurrency` and `rate`, for a whole type or for one limit key. */
export class LimitPermit implements Permit {
  left: number
  readonly #first: number
  readonly #slots: number
  readonly #rate: { policy: RatePolicy; meter: string; credits: number; nowMs: number } | null

  /** `slots`: how many more may be under way. */
  constructor(slots: number, rate: { policy: RatePolicy; meter: string; credits: number; nowMs: number } | null) {
    this.#slots = slots
    this.#rate = rate
    this.#first = Math.min(slots, rate === null ? slots : affordable(rate.credits, rate.policy))
    this.left = this.#first
  }

  /** After the jobs taken so far. null if all slots are taken: only the end of a job frees one. */
  get opensAtMs(): number | null {
    const taken = this.#first - this.left
    if (this.#rate === null || this.#slots - taken < 1) return null
    const { policy, credits, nowMs } = this.#rate
    return affordableAtMs(credits - taken * policy.perMs, policy, nowMs)
  }

  /** The meter to write for the jobs taken, if any. */
  get settled(): { name: string; meter: Meter } | null {
    const taken = this.#first - this.left
    if (taken === 0 || this.#rate === null) return null
    const { policy, meter, credits, nowMs } = this.#rate
    return { name: meter, meter: afterTaking(credits, taken, policy, nowMs) }
  }
}

/** A due job. */
export interface ReadyRow {
  key: JobKey
  limit_key: string | null
  priority: number
  queued_at: number
}

export type PermitOfKey = (limitKey: string) => Permit

/** The rows that may be claimed. Jobs of a used-up key are skipped. */
export function fitting(rows: readonly ReadyRow[], max: number, permitOfKey: PermitOfKey): ReadyRow[] {
  const used = new Map<string, number>()
  const chosen: ReadyRow[] = []
  for (const row of rows) {
    const { limit_key } = row
    if (limit_key) {
      const before = used.get(limit_key) ?? 0
      if (permitOfKey(limit_key).left - before < 1) continue
      used.set(limit_key, before + 1)
    }
    chosen.push(row)
    if (chosen.length === max) break
  }
  return chosen
}

export const byTurn = (
  a: { priority: number; queued_at: number; key: JobKey },
  b: { priority: number; queued_at: number; key: JobKey },
): number => b.priority - a.priority || a.queued_at - b.queued_at || a.key - b.key
