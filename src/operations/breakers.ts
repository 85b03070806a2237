import { z } from 'zod'
import { callsAllowed, effectiveStatus, nextChangeAtMs, whyHeld } from '../core/breaker.ts'
import { isoTime, isoTimeOrNull } from '../core/iso-time.ts'
import type { StoredBreaker } from '../store/breakers.ts'
import type { Store } from '../store/store.ts'
import { holds } from './breaker-holds.ts'
import { operation } from './operation.ts'
import { breakerListSchema } from './outputs/breaker.ts'

export type BreakerView = Awaited<ReturnType<typeof viewBreaker>>

export const listBreakers = operation('breakers.list', {
  input: z.strictObject({}),
  output: breakerListSchema,
  run: async ({ store }) => {
    const breakers = await store.breakers()
    return { breakers: await Promise.all(breakers.map((breaker) => viewBreaker(store, breaker))) }
  },
})

export async function viewBreaker(store: Store, breaker: StoredBreaker) {
  const { name, state, forced, window, policy, types, underWay, isProbed, lastProbe, nowMs } = breaker
  const modes = [...new Set(types.map(({ mode }) => mode))]
  const held = types.filter(({ mode }) => holds(breaker, mode, nowMs)).map((type) => type.name)
  return {
    name,
    /** What holds: what was forced, or else what was computed. */
    status: effectiveStatus(breaker, nowMs),
    why: whyHeld(breaker, nowMs),
    nextChangeAt: isoTimeOrNull(nextChangeAtMs(breaker, nowMs)),
    computed: {
      status: state.status,
      since: isoTime(state.sinceMs),
      reason: state.reason,
      triesAt: isoTimeOrNull(state.triesAtMs),
      passed: state.passed,
    },
    forced:
      forced === null
        ? null
        : {
            status: forced.status,
            actor: forced.actor,
            reason: forced.reason,
            at: isoTime(forced.atMs),
            until: isoTimeOrNull(forced.untilMs),
          },
    window: { calls: window.calls, failed: Math.round(window.failed), ratio: policy.ratio },
    mode: modes.length > 1 ? ('mixed' as const) : (modes[0] ?? policy.mode),
    underWay,
    /** How many may be under way at once; null for any number. */
    allowed: callsAllowed(breaker, nowMs),
    heldJobs: held.length === 0 ? 0 : await store.countReady({ types: held }),
    types,
    probe: {
      isDeclared: isProbed,
      last: lastProbe && { at: isoTime(lastProbe.atMs), passed: lastProbe.passed, said: lastProbe.said },
    },
  }
}
