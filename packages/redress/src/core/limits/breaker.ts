import type { Change } from '../job/change.ts'
import type { BreakerPolicy } from '../policy/flow.ts'
import { formatMs } from '../text/duration.ts'

/**
 * A circuit breaker's arithmetic. Workers count calls in buckets of a second and tell the store in batches; what the
 * counts mean is decided here, from arguments alone, so that every process comes to the same answer.
 */
export type BreakerStatus = 'closed' | 'open' | 'half-open'

export interface BreakerState {
  status: BreakerStatus
  sinceMs: number
  /** Open: when the next call may try. Half open: when its next health probe is due, where there is one. */
  triesAtMs: number | null
  /** Successes in a row since it began to try; what is left of them after closing says that it came back. */
  passed: number
  /** Why it stands as it does, for people. */
  reason: string
}

/** A state that a person forced. It wins over the computed state. */
export interface ForcedState {
  status: 'open' | 'closed'
  actor: string
  reason: string
  atMs: number
  untilMs: number | null
}

/** Calls that ended in one second. */
export interface CallBucket {
  atMs: number
  succeeded: number
  failed: number
}

export interface CallCount {
  calls: number
  failed: number
}

/** A breaker as it stands; `isProbed`: some process has a health probe for it, so that no job need be risked. */
export interface Standing {
  state: BreakerState
  forced: ForcedState | null
  policy: BreakerPolicy
  isProbed: boolean
}

const BUCKET_MS = 1_000
export const NO_CALLS: CallCount = { calls: 0, failed: 0 }
/** In how many doublings a ramp comes to full speed. */
const RAMP_STEPS = 8

export const bucketOf = (atMs: number): number => Math.floor(atMs / BUCKET_MS) * BUCKET_MS

export const closedFromTheStart = (nowMs: number): BreakerState => ({
  status: 'closed',
  sinceMs: nowMs,
  triesAtMs: null,
  passed: 0,
  reason: 'nothing has gone wrong yet',
})

/** A caller's mistake says nothing about the dependency, and neither does our own: only its own failures count. */
export function callOf(change: Change): 'succeeded' | 'failed' | null {
  if (change.to === 'complete') return 'succeeded'
  const failure = change.to === 'cancelled' ? null : change.failure
  return failure?.fault === 'dependency' ? 'failed' : null
}

/** The newest calls, as far back as both bounds of the window reach. The newest bucket comes first. */
export function sumWindow(newestFirst: Iterable<CallBucket>, policy: BreakerPolicy, nowMs: number): CallCount {
  const fromMs = nowMs - policy.windowMs
  let sum = NO_CALLS
  for (const { atMs, succeeded, failed } of newestFirst) {
    // The clock was set back since, so the elapsed time is unknown.
    if (atMs > nowMs) continue
    // A bucket counts while any of it is in the window: a call must not vanish early because its second began before.
    if (atMs + BUCKET_MS <= fromMs || sum.calls >= policy.windowCalls) break
    sum = withOlder(sum, { calls: succeeded + failed, failed }, policy)
  }
  return sum
}

/** The newest buckets, as many as it takes for so many calls. The newest comes first, in both. */
export function bucketsOfCalls(newestFirst: readonly CallBucket[], calls: number): CallBucket[] {
  let counted = 0
  return newestFirst.filter(({ succeeded, failed }) => {
    const isNeeded = counted < calls
    counted += succeeded + failed
    return isNeeded
  })
}

/** Of older calls that only partly fit, the same share of successes and failures is taken: their order is not known. */
export function withOlder(newer: CallCount, older: CallCount, { windowCalls }: BreakerPolicy): CallCount {
  const taken = Math.min(older.calls, Math.max(0, windowCalls - newer.calls))
  if (taken === 0) return newer
  return { calls: newer.calls + taken, failed: newer.failed + (older.failed * taken) / older.calls }
}

export function isTooBad({ calls, failed }: CallCount, { minCalls, ratio }: BreakerPolicy): boolean {
  // A hair less, because a share of a bucket is a fraction: 10 of 20 must be half.
  return calls >= minCalls && failed / calls >= ratio - 1e-9
}

// ---- what follows ---------------------------------------------------------------------------------------------------

/** Calls that were begun while it stood like this have ended. `window` holds them already. */
export function afterCalls(
  state: BreakerState,
  ended: Pick<CallBucket, 'succeeded' | 'failed'>,
  window: CallCount,
  policy: BreakerPolicy,
  nowMs: number,
): BreakerState {
  switch (state.status) {
    case 'closed':
      return isTooBad(window, policy) ? opened(shareOf(window), policy.cooldownMs, nowMs) : state
    case 'open':
      return state
    case 'half-open':
      if (ended.failed > 0) return opened('the dependency failed again when it was tried', policy.cooldownMs, nowMs)
      return ended.succeeded === 0 ? state : passedMore(state, ended.succeeded, null, policy, nowMs)
  }
}

export interface ProbeOutcome {
  passed: boolean
  /** The error of the probe, for people; '' when it passed. */
  said: string
  /** How long until the next one. */
  everyMs: number
}

/** A health probe has ended. One that fails leaves the breaker open and is made again soon: it risks no job. */
export function afterProbe(
  state: BreakerState,
  { passed, said, everyMs }: ProbeOutcome,
  policy: BreakerPolicy,
  nowMs: number,
): BreakerState {
  if (state.status === 'closed') return state
  if (passed) return passedMore(state, 1, everyMs, policy, nowMs)
  if (state.status === 'open') return { ...state, triesAtMs: nowMs + everyMs }
  return opened(`its health probe failed again: ${said}`, everyMs, nowMs)
}

/** Time alone ends a cooldown. Where there is a health probe, that one goes first, and no job is risked. */
export function afterTime({ state, policy, isProbed }: Standing, nowMs: number): BreakerState {
  if (state.status === 'half-open' && !isProbed && state.triesAtMs !== null) return { ...state, triesAtMs: null }
  if (state.status !== 'open' || isProbed || nowMs < (state.triesAtMs ?? nowMs)) return state
  return halfOpen(`the cooldown of ${formatMs(policy.cooldownMs)} is over`, nowMs)
}

/**
 * The clock was set back to before the last that is known of it (`heardAtMs`): the time that it has waited is unknown, so
 * it waits no longer.
 */
export function afterSettingBack(state: BreakerState, heardAtMs: number, nowMs: number): BreakerState {
  const { sinceMs, triesAtMs } = state
  if (Math.max(sinceMs, heardAtMs) <= nowMs || (sinceMs <= nowMs && (triesAtMs ?? nowMs) <= nowMs)) return state
  return {
    ...state,
    sinceMs: Math.min(sinceMs, nowMs),
    triesAtMs: triesAtMs === null ? null : Math.min(triesAtMs, nowMs),
  }
}

/** A person wants it tried now. */
export function afterRequest({ state, isProbed }: Standing, why: string, nowMs: number): BreakerState {
  if (state.status === 'closed' || (state.status === 'half-open' && !isProbed)) return state
  return isProbed ? { ...state, triesAtMs: nowMs } : halfOpen(why, nowMs)
}

/** A backlog that was held by hand must not fall on the dependency at once either. */
export function afterForcing(state: BreakerState, forced: ForcedState, nowMs: number): BreakerState {
  if (forced.status !== 'open' || state.status !== 'closed') return state
  return { ...state, sinceMs: nowMs, passed: Math.max(1, state.passed), reason: 'it is no longer forced open' }
}

const opened = (reason: string, waitMs: number, nowMs: number): BreakerState => ({
  status: 'open',
  sinceMs: nowMs,
  triesAtMs: nowMs + waitMs,
  passed: 0,
  reason,
})

const halfOpen = (reason: string, nowMs: number): BreakerState => ({
  status: 'half-open',
  sinceMs: nowMs,
  triesAtMs: null,
  passed: 0,
  reason,
})

function passedMore(
  state: BreakerState,
  more: number,
  everyMs: number | null,
  { probesToClose }: BreakerPolicy,
  nowMs: number,
): BreakerState {
  const passed = state.passed + more
  const sinceMs = state.status === 'half-open' ? state.sinceMs : nowMs
  if (passed < probesToClose) {
    const triesAtMs = everyMs === null ? null : nowMs + everyMs
    return { status: 'half-open', sinceMs, triesAtMs, passed, reason: `${passed} of ${probesToClose} tries passed` }
  }
  const reason = passed === 1 ? 'it passed when it was tried' : `it passed ${passed} times in a row`
  return { status: 'closed', sinceMs: nowMs, triesAtMs: null, passed, reason }
}

function shareOf({ calls, failed }: CallCount): string {
  return `${Math.round((100 * failed) / calls)} % of the last ${calls} calls failed`
}

// ---- what may be done -----------------------------------------------------------------------------------------------

export const isInForce = (forced: ForcedState | null, nowMs: number): forced is ForcedState =>
  forced !== null && (forced.untilMs === null || nowMs < forced.untilMs)

/** A forced state wins over the computed one, until it expires. */
export function effectiveStatus({ state, forced }: Pick<Standing, 'state' | 'forced'>, nowMs: number): BreakerStatus {
  return isInForce(forced, nowMs) ? forced.status : state.status
}

/**
 * How many calls may be under way at once; null for any number. After closing, the limit doubles in equal steps of the
 * ramp, so that a backlog does not knock over what has just come back.
 */
export function callsAllowed(standing: Standing, nowMs: number): number | null {
  const { state, policy, isProbed } = standing
  switch (effectiveStatus(standing, nowMs)) {
    case 'open':
      return 0
    case 'half-open':
      return isProbed ? 0 : policy.halfOpenProbes
    case 'closed':
      return isRamping(standing, nowMs) ? policy.halfOpenProbes * 2 ** (1 + rampStep(state, policy, nowMs)) : null
  }
}

function isRamping({ state, forced, policy }: Standing, nowMs: number): boolean {
  if (state.status !== 'closed' || state.passed === 0 || isInForce(forced, nowMs)) return false
  return nowMs < state.sinceMs + policy.rampMs
}

const rampStep = ({ sinceMs }: BreakerState, { rampMs }: BreakerPolicy, nowMs: number): number =>
  Math.floor((RAMP_STEPS * Math.max(0, nowMs - sinceMs)) / rampMs)

/** When it next changes by itself, or a call may try; null when that is now, or only an event can tell. */
export function nextChangeAtMs(standing: Standing, nowMs: number): number | null {
  const { state, forced, policy } = standing
  if (isInForce(forced, nowMs)) return forced.untilMs
  if (state.status !== 'closed') return state.triesAtMs !== null && state.triesAtMs > nowMs ? state.triesAtMs : null
  if (!isRamping(standing, nowMs)) return null
  return state.sinceMs + Math.ceil(((rampStep(state, policy, nowMs) + 1) * policy.rampMs) / RAMP_STEPS)
}

// ---- what is said of it ---------------------------------------------------------------------------------------------

/** The reason that a waiting job shows: '60 % of the last 20 calls failed; tries again in 25 s'. */
export function whyHeld(standing: Standing, nowMs: number): string {
  const { state, forced, policy, isProbed } = standing
  const inTime = (atMs: number | null): string =>
    atMs === null || atMs <= nowMs ? 'now' : `in ${formatMs(atMs - nowMs)}`
  if (isInForce(forced, nowMs)) {
    const end = forced.untilMs === null ? 'until somebody releases it' : `ends ${inTime(forced.untilMs)}`
    return `forced ${forced.status} by ${forced.actor}: ${forced.reason}; ${end}`
  }
  switch (state.status) {
    case 'open':
      return `${state.reason}; tries again ${inTime(state.triesAtMs)}`
    case 'half-open':
      return isProbed
        ? `${state.reason}; next health probe ${inTime(state.triesAtMs)}`
        : `${state.reason}; trying with ${policy.halfOpenProbes} at a time`
    case 'closed': {
      const allowed = callsAllowed(standing, nowMs)
      if (allowed === null) return state.reason
      const rest = formatMs(state.sinceMs + policy.rampMs - nowMs)
      return `it closed ${formatMs(nowMs - state.sinceMs)} ago; ${allowed} at a time, full speed in ${rest}`
    }
  }
}
