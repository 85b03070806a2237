import { isLimited } from '../../core/policy.ts'
import type { BreakerStanding } from '../breakers.ts'
import type { KnownType } from '../known-type.ts'
import type { LanePermits, Permit } from '../permits.ts'
import type { JobKey } from '../store.ts'
import type { Sql, Tx } from './client.ts'

/** What limits one lane during one claim. */
export interface LaneGate extends LanePermits {
  /** The jobs to choose from, in order, where those at the head of the line may all be held up by their keys. */
  candidates: ((max: number) => Promise<JobKey[]>) | null
}

export type MutableGate = { -readonly [Field in keyof LaneGate]: LaneGate[Field] } & { permits: Permit[] }

/** One of the things that limit lanes. It keeps nothing itself: several claims of one process may be under way at once. */
export interface Limiter {
  /**
   * The names of what claims of this type must not count and take from at the same time: the claim holds the lock of
   * each before it asks anything else.
   */
  locksOf(type: KnownType): readonly string[]
  /** A claim begins, in its own transaction and with its locks held. */
  begin(tx: Tx, nowMs: number): ClaimLimiter
  /** What keeps the whole lane from being claimed, if anything does; asked before a claim, and nothing is written. */
  isShut?(sql: Sql, type: KnownType, nowMs: number): Promise<Permit | null>
}

/** A limiter during one claim: adds its permits to the gates of the lanes, and is told at the end what was taken. */
export interface ClaimLimiter {
  limit(type: KnownType, gate: MutableGate): Promise<void>
  /** Called in the same transaction, once per claim that took something. */
  settle(): Promise<void>
  /** The breakers that were asked, as they stood. */
  standings?(): BreakerStanding[]
}

export type Gates = ReturnType<typeof openGates>

/** What stands between a lane and a worker: breakers and limits. Lanes without any of them pay nothing. */
export function openGates(limiters: readonly Limiter[]) {
  let hasLimited = false

  return {
    /** Some lane of this process is limited, so that the end of a job may let another one begin. */
    get hasLimited(): boolean {
      return hasLimited
    },

    /** What a claim must hold before it asks for the gate of the lane. */
    locksOf: (type: KnownType): string[] =>
      isLimited(type.policy) ? limiters.flatMap((limiter) => limiter.locksOf(type)) : [],

    begin(tx: Tx, nowMs: number) {
      const begun = limiters.map((limiter) => limiter.begin(tx, nowMs))
      return {
        /** null where nothing limits the lane. */
        async gateOf(type: KnownType): Promise<LaneGate | null> {
          if (!isLimited(type.policy)) return null
          hasLimited = true
          const gate: MutableGate = { ...NO_LIMITS, permits: [] }
          for (const limiter of begun) await limiter.limit(type, gate)
          return gate
        },

        async settle(): Promise<void> {
          for (const limiter of begun) await limiter.settle()
        },

        standings: (): BreakerStanding[] => begun.flatMap((limiter) => limiter.standings?.() ?? []),
      }
    },

    /** What keeps a lane from being claimed from at all; null when nothing does. */
    async shutBy(sql: Sql, type: KnownType, nowMs: number): Promise<Permit | null> {
      if (!isLimited(type.policy)) return null
      for (const limiter of limiters) {
        const permit = (await limiter.isShut?.(sql, type, nowMs)) ?? null
        if (permit !== null) return permit
      }
      return null
    },
  }
}

const NO_LIMITS = { permitOfKey: null, candidates: null, keysOpenAtMs: null, callPermit: null, guard: null }
