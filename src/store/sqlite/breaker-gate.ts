import { callsAllowed, effectiveStatus, nextChangeAtMs, whyHeld } from '../../core/breaker.ts'
import type { BreakerPolicy } from '../../core/policy-flow.ts'
import { type Breaker, standingOf } from '../breaker-rows.ts'
import type { BreakerStanding } from '../breakers.ts'
import type { Permit } from '../permits.ts'
import type { BreakerRows } from './breaker-rows.ts'
import type { Limiter } from './gates.ts'

/** A breaker during one claim. All lanes that it guards share the permit. */
interface Asked {
  breaker: Breaker
  /** null where nothing is limited. */
  permit: Permit | null
}

/**
 * Asks the breaker of each lane inside the claim itself. Under `hold` there are only as many jobs as calls may be made;
 * under `fail-fast` there are all of them, and those without a permit are to fail.
 */
export function openBreakerGate(rows: BreakerRows): Limiter & { standings(nowMs: number): BreakerStanding[] } {
  const asked = new Map<string, Asked>()

  const permitOf = (breaker: Breaker, nowMs: number): Permit | null => {
    const allowed = callsAllowed(breaker, nowMs)
    if (allowed === null) return null
    const opensAtMs = nextChangeAtMs(breaker, nowMs)
    if (allowed === 0) return { left: 0, opensAtMs }
    const isHalfOpen = breaker.state.status === 'half-open'
    const underWay = rows.underWay(breaker.name, nowMs, isHalfOpen ? breaker.state.sinceMs : 0)
    return { left: Math.max(0, allowed - underWay), opensAtMs }
  }

  const ask = (policy: BreakerPolicy, nowMs: number): Asked => {
    const known = asked.get(policy.guards)
    if (known !== undefined) return known
    let breaker = rows.current(policy.guards, nowMs)
    if (breaker === null) {
      rows.declare(policy, nowMs)
      breaker = rows.current(policy.guards, nowMs) as Breaker
    }
    const first = { breaker, permit: permitOf(breaker, nowMs) }
    asked.set(policy.guards, first)
    return first
  }

  return {
    begin: () => asked.clear(),

    limit({ policy }, gate, nowMs) {
      if (policy.breaker === null) return
      const { breaker, permit } = ask(policy.breaker, nowMs)
      gate.guard = { epoch: breaker.epoch, why: whyHeld(breaker, nowMs) }
      if (permit === null) return
      // The ramp holds back in either mode: nothing is wrong any more, so no job should fail for it.
      if (policy.breaker.mode === 'hold' || effectiveStatus(breaker, nowMs) === 'closed') gate.permits.push(permit)
      else gate.callPermit = permit
    },

    settle: () => undefined,

    isShut({ policy }, nowMs) {
      if (policy.breaker === null) return null
      const breaker = rows.peek(policy.breaker.guards, nowMs)
      if (breaker === null) return null
      const mayFail = policy.breaker.mode === 'fail-fast' && effectiveStatus(breaker, nowMs) !== 'closed'
      const permit = mayFail ? null : permitOf(breaker, nowMs)
      return permit === null || permit.left > 0 ? null : permit
    },

    standings: (nowMs) => [...asked.values()].map(({ breaker }) => standingOf(breaker, nowMs)),
  }
}
