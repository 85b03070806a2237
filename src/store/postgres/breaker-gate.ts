import { callsAllowed, effectiveStatus, nextChangeAtMs, whyHeld } from '../../core/breaker.ts'
import type { BreakerPolicy } from '../../core/policy-flow.ts'
import { type Breaker, breakerAsOf, standingOf } from '../breaker-rows.ts'
import type { Permit } from '../permits.ts'
import { type BreakerRows, breakerLock } from './breaker-rows.ts'
import type { Sql, Tx } from './client.ts'
import type { PgContext } from './context.ts'
import type { Limiter } from './gates.ts'
import { tryLockName } from './locks.ts'

/** A breaker during one claim. All lanes that it guards share the permit. */
interface Asked {
  breaker: Breaker
  /** null where nothing is limited. */
  permit: Permit | null
  /** Another claim is counting at this moment, or the breaker has changed since this one began. */
  isBusy: boolean
}

/** So long after a claim that found another one counting it may come again. */
const AGAIN_MS = 5

/**
 * Asks the breaker of each lane inside the claim itself. Under `hold` there are only as many jobs as calls may be made;
 * under `fail-fast` there are all of them, and those without a permit are to fail.
 *
 * A breaker that is closed and lets everything through is only read. Where it limits, or time alone has changed it, one
 * claim at a time counts and takes; the others take nothing of its lanes and come again. Nobody waits.
 */
export function openBreakerGate(rows: BreakerRows, { now }: Pick<PgContext, 'now'>): Limiter {
  const permitOf = async (sql: Sql, breaker: Breaker, nowMs: number): Promise<Permit | null> => {
    const allowed = callsAllowed(breaker, nowMs)
    if (allowed === null) return null
    const opensAtMs = nextChangeAtMs(breaker, nowMs)
    if (allowed === 0) return { left: 0, opensAtMs }
    const isHalfOpen = breaker.state.status === 'half-open'
    const underWay = await rows.underWay(sql, breaker.name, nowMs, isHalfOpen ? breaker.state.sinceMs : 0)
    return { left: Math.max(0, allowed - underWay), opensAtMs }
  }

  /** It was changed after this claim began: what this one takes would seem to be from before the change. */
  const isOvertaken = async (tx: Tx, { state, lastProbe }: Breaker, nowMs: number): Promise<boolean> => {
    const heardAtMs = Math.max(state.sinceMs, lastProbe?.atMs ?? 0)
    // Otherwise the clock was set back.
    return heardAtMs > nowMs && (await now(tx)) >= heardAtMs
  }

  const ask = async (tx: Tx, policy: BreakerPolicy, nowMs: number): Promise<Asked> => {
    const { guards: name } = policy
    let written = await rows.written(tx, name, nowMs)
    if (written === null) {
      await rows.declare(tx, policy, nowMs)
      written = (await rows.written(tx, name, nowMs)) as Breaker
    }
    const breaker = breakerAsOf(written, nowMs)
    if (breaker === written && callsAllowed(breaker, nowMs) === null) return { breaker, permit: null, isBusy: false }
    const isMine = await tryLockName(tx, breakerLock(name))
    const locked = isMine ? ((await rows.written(tx, name, nowMs)) as Breaker) : written
    if (!isMine || (await isOvertaken(tx, locked, nowMs))) {
      return { breaker: locked, permit: { left: 0, opensAtMs: nowMs + AGAIN_MS }, isBusy: true }
    }
    const current = (await rows.current(tx, name, nowMs)) as Breaker
    return { breaker: current, permit: await permitOf(tx, current, nowMs), isBusy: false }
  }

  return {
    locksOf: () => [],

    begin(tx, nowMs) {
      const asked = new Map<string, Asked>()
      return {
        async limit({ policy }, gate) {
          if (policy.breaker === null) return
          const { guards, mode } = policy.breaker
          const one = asked.get(guards) ?? (await ask(tx, policy.breaker, nowMs))
          asked.set(guards, one)
          const { breaker, permit, isBusy } = one
          gate.guard = { epoch: breaker.epoch, why: whyHeld(breaker, nowMs) }
          if (permit === null) return
          // The ramp holds back in either mode: nothing is wrong any more, so no job should fail for it.
          const holds = mode === 'hold' || isBusy || effectiveStatus(breaker, nowMs) === 'closed'
          if (holds) gate.permits.push(permit)
          else gate.callPermit = permit
        },

        settle: async () => undefined,

        standings: () => [...asked.values()].map(({ breaker }) => standingOf(breaker, nowMs)),
      }
    },

    async isShut(sql, { policy }, nowMs) {
      if (policy.breaker === null) return null
      const written = await rows.written(sql, policy.breaker.guards, nowMs)
      if (written === null) return null
      const breaker = breakerAsOf(written, nowMs)
      const mayFail = policy.breaker.mode === 'fail-fast' && effectiveStatus(breaker, nowMs) !== 'closed'
      const permit = mayFail ? null : await permitOf(sql, breaker, nowMs)
      return permit === null || permit.left > 0 ? null : permit
    },
  }
}
