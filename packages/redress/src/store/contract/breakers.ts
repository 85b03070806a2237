import type { SubjectEvents } from '../../core/job/events.ts'
import type { BreakerStatus, CallBucket, CallCount, ProbeOutcome, Standing } from '../../core/limits/breaker.ts'
import type { ActorAndReason } from './store.ts'

/**
 * Circuit breakers, one per dependency, shared by every process on the store. A breaker exists as soon as a job type that names
 * it is declared, and keeps its state after a restart. Each claim checks it: no worker gets a job that it holds.
 */
export interface BreakerStore {
  breakers(): Promise<StoredBreaker[]>
  /** What a worker needs of each between two claims. Cheap enough to call often. */
  standings(params: { names: readonly string[] }): Promise<BreakerStanding[]>
  /** Adds the calls that a worker counted. This may open or close breakers. */
  countCalls(params: { counts: readonly CallReport[] }): Promise<BreakerStanding[]>

  /** A person forces a state, which overrides the computed one. null if there is no such breaker. */
  forceBreaker(params: {
    name: string
    status: 'open' | 'closed'
    forMs: number | null
    by: ActorAndReason
  }): Promise<true | null>
  /** 'free' if no state was forced. */
  releaseBreaker(params: { name: string; by: ActorAndReason }): Promise<'released' | 'free' | null>
  /** A person starts a probe before the cooldown ends. 'closed' if the breaker is closed. */
  tryBreaker(params: { name: string; by: ActorAndReason }): Promise<'probe' | 'jobs' | 'closed' | 'forced' | null>

  /** This process offers a health probe for this time: no job is risked meanwhile. */
  offerProbe(params: { name: string; forMs: number }): Promise<void>
  /**
   * The right to make a health probe, for at most `ttlMs`: one process at a time, and only when one is due. With
   * `isAsked`, also when none is due.
   */
  beginProbe(params: { name: string; ttlMs: number; isAsked: boolean }): Promise<ProbeTicket | null>
  /** 'lost' if its time was over: another process may have begun a probe. */
  endProbe(params: { ticket: ProbeTicket; outcome: ProbeOutcome }): Promise<'counted' | 'lost'>

  /** The events of a breaker after the given one, the oldest first. */
  breakerEvents(params: { name: string; afterSeq: number; limit: number }): Promise<BreakerEvent[]>
  /** Its last seconds with calls and its last events, at most this many of each, the newest first. */
  breakerPast(params: { name: string; seconds: number; events: number }): Promise<BreakerPast>
  /** How many jobs of these types are ready. */
  countReady(params: { types: readonly string[] }): Promise<number>
}

/** The state of a breaker at a moment. */
export interface BreakerStanding {
  name: string
  /** Grows with each computed change. Calls that began in an earlier epoch do not count. */
  epoch: number
  /** The forced state, or else the computed one. */
  status: BreakerStatus
  why: string
  /** When time alone changes it, or a probe is due; null if only an event can change it. */
  nextChangeAtMs: number | null
  /** The calls that the store has counted. */
  window: CallCount | null
}

/** The breaker of a leased job, at the time of the claim. */
export interface LeaseGuard {
  epoch: number
  /** False under `fail-fast` if no call is allowed: the job must fail without one. */
  mayCall: boolean
  why: string
}

export interface CallReport {
  name: string
  /** The epoch in which the calls began. */
  epoch: number
  buckets: readonly { agoMs: number; succeeded: number; failed: number }[]
}

export interface StoredBreaker extends Standing {
  name: string
  epoch: number
  nowMs: number
  window: CallCount
  /** Running attempts of the job types that it guards. */
  underWay: number
  types: { name: string; mode: 'hold' | 'fail-fast' }[]
  probeUntilMs: number | null
  lastProbe: { atMs: number; passed: boolean; said: string } | null
}

interface ProbeTicket {
  name: string
  number: number
}

export interface BreakerEvent {
  seq: number
  atMs: number
  kind: SubjectEvents['breaker'][number]
  data: {
    reason: string
    status: BreakerStatus
    actor?: string
    untilMs?: number | null
    /** Of a change: the calls before it, the newest first. The change removes them, so the event keeps the reason. */
    calls?: readonly CallBucket[]
  }
}

interface BreakerPast {
  /** Only calls since the last change of the breaker. */
  calls: CallBucket[]
  events: BreakerEvent[]
}
