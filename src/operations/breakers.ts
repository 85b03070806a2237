import { z } from 'zod'
import { bucketsOfCalls, callsAllowed, effectiveStatus, nextChangeAtMs, whyHeld } from '../core/breaker.ts'
import { RedressError } from '../core/errors.ts'
import { isoTime, isoTimeOrNull } from '../core/iso-time.ts'
import type { BreakerEvent, StoredBreaker } from '../store/breakers.ts'
import type { Store } from '../store/store.ts'
import { holds } from './breaker-holds.ts'
import { operation } from './operation.ts'
import { breakerDetailSchema, breakerListSchema } from './outputs/breaker.ts'

export type BreakerView = Awaited<ReturnType<typeof viewBreaker>>

export const listBreakers = operation('breakers.list', {
  input: z.strictObject({}),
  output: breakerListSchema,
  run: async ({ store }) => {
    const breakers = await store.breakers()
    return { breakers: await Promise.all(breakers.map((breaker) => viewBreaker(store, breaker))) }
  },
})

const CALLS_MIN = 20
const EVENTS_MAX = 50

export interface BreakerDetail extends BreakerView {
  /** Its thresholds: those of the type that was declared last. */
  policy: Omit<StoredBreaker['policy'], 'guards' | 'mode' | 'code'>
  /** Calls that ended in one second, the newest second last: so many seconds that there are at least 20 calls. */
  calls: { at: string; succeeded: number; failed: number }[]
  /** What happened to it, the newest first. */
  history: BreakerEventView[]
}

export interface BreakerEventView {
  at: string
  kind: BreakerEvent['kind']
  /** How it stood after it. */
  status: BreakerEvent['data']['status']
  /** null where nobody did it. */
  actor: string | null
  reason: string
  until: string | null
}

export const breakerNameField = z.string().min(1).describe('name of the breaker: of the dependency that it guards')

export const showBreaker = operation('breakers.show', {
  input: z.strictObject({ name: breakerNameField }),
  output: breakerDetailSchema,
  run: async ({ store }, { name }): Promise<BreakerDetail> => {
    const breaker = await neededBreaker(store, name)
    // A second without calls is not counted: so many seconds have so many calls.
    const { calls, events } = await store.breakerPast({ name, seconds: CALLS_MIN, events: EVENTS_MAX })
    const { windowCalls, windowMs, minCalls, ratio, cooldownMs, halfOpenProbes, probesToClose, rampMs } = breaker.policy
    return {
      ...(await viewBreaker(store, breaker)),
      policy: { windowCalls, windowMs, minCalls, ratio, cooldownMs, halfOpenProbes, probesToClose, rampMs },
      calls: bucketsOfCalls([...calls, ...events.flatMap(({ data }) => data.calls ?? [])], CALLS_MIN)
        .map(({ atMs, succeeded, failed }) => ({ at: isoTime(atMs), succeeded, failed }))
        .reverse(),
      history: events.map(({ atMs, kind, data }) => ({
        at: isoTime(atMs),
        kind,
        status: data.status,
        actor: data.actor ?? null,
        reason: data.reason,
        until: isoTimeOrNull(data.untilMs ?? null),
      })),
    }
  },
})

export async function neededBreaker(store: Store, name: string): Promise<StoredBreaker> {
  const breakers = await store.breakers()
  const found = breakers.find((breaker) => breaker.name === name)
  if (found !== undefined) return found
  const names = breakers.map((breaker) => breaker.name).join(', ') || 'none'
  throw new RedressError('BREAKER_NOT_FOUND', `There is no breaker ${name}; there are: ${names}.`)
}

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
