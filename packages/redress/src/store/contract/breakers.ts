import type { SubjectEvents } from '../../core/job/events.ts'
import type {
  BreakerStatus,
  CallBucket,
  CallCount,
  ForcedState,
  ProbeOutcome,
  Standing,
} from '../../core/limits/breaker.ts'
import type { By } from './store.ts'

/**
 * Circuit breakers, one per dependency, shared by every process on the store. A breaker is there as soon as a job type
 * that names it is declared, and stands as it stood after a restart. Claims ask it themselves: what it holds is not
 * given to any worker.
 */
export interface BreakerStore {
  breakers(): Promise<StoredBreaker[]>
  /** As much of each as a worker needs between two claims. Cheap enough to ask often. */
  standings(params: { names: readonly string[] }): Promise<BreakerStanding[]>
  /** Adds what a worker counted, and opens or closes what that opens or closes. */
  countCalls(params: { counts: readonly CallReport[] }): Promise<BreakerStanding[]>

  /** A person's word, stronger than what was computed. null when there is no such breaker. */
  forceBreaker(params: { name: string; status: 'open' | 'closed'; forMs: number | null; by: By }): Promise<true | null>
  /** 'free' when nothing was forced. */
  releaseBreaker(params: { name: string; by: By }): Promise<'released' | 'free' | null>
  /** A person wants it tried now instead of after its cooldown. 'closed' when there is nothing to try. */
  tryBreaker(params: { name: string; by: By }): Promise<'probe' | 'jobs' | 'closed' | 'forced' | null>

  /** This process has a health probe and will look after the breaker for so long: no job need be risked meanwhile. */
  offerProbe(params: { name: string; forMs: number }): Promise<void>
  /**
   * The right to make a health probe, for at most `ttlMs`: one process at a time, and only when one is due. With
   * `isAsked`, also when none is due.
   */
  beginProbe(params: { name: string; ttlMs: number; isAsked: boolean }): Promise<ProbeTicket | null>
  /** 'lost' when its time was over and somebody else may have begun another. */
  endProbe(params: { ticket: ProbeTicket; outcome: ProbeOutcome }): Promise<'counted' | 'lost'>

  /** What happened to a breaker after the given event, the oldest first. */
  breakerEvents(params: { name: string; afterSeq: number; limit: number }): Promise<BreakerEvent[]>
  /** Its last seconds with calls, and its last events: at most so many of each, the newest first. */
  breakerPast(params: { name: string; seconds: number; events: number }): Promise<BreakerPast>
  /** How many jobs of these types could be claimed, if nothing held them. */
  countReady(params: { types: readonly string[] }): Promise<number>
}

/** How a breaker stood at a moment, for whoever is about to call. */
export interface BreakerStanding {
  name: string
  /** Grows with each computed change. What was begun in an earlier epoch no longer says anything about this one. */
  epoch: number
  /** What holds: forced or computed. */
  status: BreakerStatus
  why: string
  /** When it changes by itself, or somebody should try; null when only an event can tell. */
  nextChangeAtMs: number | null
  /** What the store has counted; as of the last report, where it was not asked for. */
  window: CallCount | null
}

/** What a claim says of the breaker of a leased job. */
export interface LeaseGuard {
  epoch: number
  /** False under `fail-fast`, where there is no slot for a call: the job is to fail without one. */
  mayCall: boolean
  why: string
}

export interface CallReport {
  name: string
  /** In which the calls were begun. */
  epoch: number
  buckets: readonly { agoMs: number; succeeded: number; failed: number }[]
}

export interface StoredBreaker extends Standing {
  name: string
  epoch: number
  nowMs: number
  window: CallCount
  /** Attempts of the job types that it guards. */
  underWay: number
  types: { name: string; mode: 'hold' | 'fail-fast' }[]
  probeUntilMs: number | null
  lastProbe: { atMs: number; passed: boolean; said: string } | null
}

export interface ProbeTicket {
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
    /** Of a change: the newest calls before it, the newest first. Those are forgotten with it, and nobody could say why. */
    calls?: readonly CallBucket[]
  }
}

export interface BreakerPast {
  /** None from before the breaker last changed: a change makes a new beginning. */
  calls: CallBucket[]
  events: BreakerEvent[]
}

export type { ForcedState }
