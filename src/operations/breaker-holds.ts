import { callsAllowed, effectiveStatus, nextChangeAtMs, whyHeld } from '../core/breaker.ts'
import type { StoredBreaker } from '../store/breakers.ts'
import type { FindHolds } from './holds.ts'

/** Jobs whose breaker lets no more of them through. Where they fail fast, only the ramp holds them. */
export const heldByBreakers: FindHolds = async (store, queued, nowMs) => {
  const isAnyGuarded = queued.some(({ policy }) => policy.breaker !== null)
  const breakers = new Map((isAnyGuarded ? await store.breakers() : []).map((breaker) => [breaker.name, breaker]))
  return ({ policy }) => {
    const breaker = policy.breaker === null ? undefined : breakers.get(policy.breaker.guards)
    if (breaker === undefined || !holds(breaker, policy.breaker?.mode ?? 'hold', nowMs)) return null
    const { name } = breaker
    return { by: 'breaker', name, why: whyHeld(breaker, nowMs), untilMs: nextChangeAtMs(breaker, nowMs) }
  }
}

/** Whether jobs of a type with this mode wait for it. */
export function holds(breaker: StoredBreaker, mode: 'hold' | 'fail-fast', nowMs: number): boolean {
  if (effectiveStatus(breaker, nowMs) !== 'closed') return mode === 'hold'
  const allowed = callsAllowed(breaker, nowMs)
  return allowed !== null && breaker.underWay >= allowed
}
