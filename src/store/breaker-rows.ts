import {
  afterForcing,
  afterSettingBack,
  afterTime,
  type BreakerState,
  type BreakerStatus,
  bucketsOfCalls,
  type CallBucket,
  type CallCount,
  effectiveStatus,
  type ForcedState,
  isInForce,
  nextChangeAtMs,
  type Standing,
  whyHeld,
} from '../core/breaker.ts'
import type { SubjectEvents } from '../core/events.ts'
import type { BreakerPolicy } from '../core/policy-flow.ts'
import type { BreakerEvent, BreakerStanding, StoredBreaker } from './breakers.ts'
import type { StoredType } from './store.ts'

/** A row as every driver has it. */
export type BreakerRow = Record<string, number | string | null>

/** A row as it stands at a moment. */
export interface Breaker extends Standing {
  name: string
  epoch: number
  probe: number
  probeUntilMs: number | null
  proberUntilMs: number | null
  lastProbe: { atMs: number; passed: boolean; said: string } | null
}

/** What is told of a change. */
export const BREAKER_EVENT_OF: Readonly<Record<BreakerStatus, SubjectEvents['breaker'][number]>> = {
  open: 'opened',
  'half-open': 'half-open',
  closed: 'closed',
}

/** Reads rows. Their policies are parsed once. */
export function breakerReader(): (row: BreakerRow, nowMs: number) => Breaker {
  const policies = new Map<string, BreakerPolicy>()
  const policyOf = (text: string): BreakerPolicy => {
    const known = policies.get(text) ?? (JSON.parse(text) as BreakerPolicy)
    policies.set(text, known)
    return known
  }
  return (row, nowMs) => ({
    name: row.name as string,
    epoch: row.epoch as number,
    policy: policyOf(row.policy as string),
    state: {
      status: row.status as BreakerStatus,
      sinceMs: row.since as number,
      triesAtMs: row.tries_at as number | null,
      passed: row.passed as number,
      reason: row.reason as string,
    },
    forced: forcedOf(row),
    isProbed: row.prober_until !== null && (row.prober_until as number) > nowMs,
    probe: row.probe as number,
    probeUntilMs: row.probe_until as number | null,
    proberUntilMs: row.prober_until as number | null,
    lastProbe:
      row.probed_at === null
        ? null
        : { atMs: row.probed_at as number, passed: row.probe_passed === 1, said: (row.probe_said as string) ?? '' },
  })
}

function forcedOf(row: BreakerRow): ForcedState | null {
  if (row.forced_status === null) return null
  return {
    status: row.forced_status as 'open' | 'closed',
    actor: row.forced_by as string,
    reason: row.forced_reason as string,
    atMs: row.forced_at as number,
    untilMs: row.forced_until as number | null,
  }
}

export const callsFromRow = ({ at, succeeded, failed }: BreakerRow): CallBucket => ({
  atMs: at as number,
  succeeded: succeeded as number,
  failed: failed as number,
})

/** So many calls, or a little more, are told with a change. */
export const CALLS_TOLD = 20

/** What the history says of a change, with the calls that came before it. */
export function changeTold({ status, reason }: BreakerState, newestCalls: readonly CallBucket[]): BreakerEvent['data'] {
  const calls = bucketsOfCalls(newestCalls, CALLS_TOLD)
  return { status, reason, ...(calls.length > 0 && { calls }) }
}

export interface EventRow {
  seq: number
  at: number
  kind: BreakerEvent['kind']
  data: string
}

export const toBreakerEvent = ({ seq, at, kind, data }: EventRow): BreakerEvent => ({
  seq,
  atMs: at,
  kind,
  data: JSON.parse(data),
})

/** What time alone makes of it, also where the clock was set back. */
export function stateInTime(breaker: Breaker, nowMs: number): BreakerState {
  const state = afterSettingBack(breaker.state, breaker.lastProbe?.atMs ?? 0, nowMs)
  return afterTime({ ...breaker, state }, nowMs)
}

/** As it is at this moment, whether or not anybody has written that down yet; the same object where nothing changed. */
export function breakerAsOf(breaker: Breaker, nowMs: number): Breaker {
  const { forced } = breaker
  const isOver = forced !== null && !isInForce(forced, nowMs)
  const released = isOver ? { ...breaker, forced: null, state: afterForcing(breaker.state, forced, nowMs) } : breaker
  const state = stateInTime(released, nowMs)
  return state === released.state ? released : { ...released, state }
}

export function standingOf(breaker: Breaker, nowMs: number, window: CallCount | null = null): BreakerStanding {
  const { name, epoch } = breaker
  return {
    name,
    epoch,
    status: effectiveStatus(breaker, nowMs),
    why: whyHeld(breaker, nowMs),
    nextChangeAtMs: nextChangeAtMs(breaker, nowMs),
    window,
  }
}

/** Whether a health probe may be made now. */
export function isProbeDue({ state, forced, probeUntilMs }: Breaker, isAsked: boolean, nowMs: number): boolean {
  if (probeUntilMs !== null && probeUntilMs > nowMs) return false
  if (isAsked) return true
  return state.status !== 'closed' && !isInForce(forced, nowMs) && (state.triesAtMs ?? nowMs) <= nowMs
}

export function storedBreaker(
  breaker: Breaker,
  counted: Pick<StoredBreaker, 'nowMs' | 'window' | 'underWay'>,
  types: readonly StoredType[],
): StoredBreaker {
  const { name, epoch, policy, state, forced, isProbed, probeUntilMs, lastProbe } = breaker
  const guarded = types.flatMap((type) => {
    const of = type.policy.breaker
    return of?.guards === name ? [{ name: type.name, mode: of.mode }] : []
  })
  return { name, epoch, policy, state, forced, isProbed, probeUntilMs, lastProbe, ...counted, types: guarded }
}

/** Of a name that was given up nobody counts calls any more: it would be shown as open for ever. */
export const isShown = ({ types, forced }: StoredBreaker): boolean => types.length > 0 || forced !== null
