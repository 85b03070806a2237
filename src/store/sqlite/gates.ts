import { isLimited } from '../../core/policy.ts'
import type { KnownType } from '../known-type.ts'
import type { LanePermits, Permit } from '../permits.ts'
import type { JobKey } from '../store.ts'
import type { Connection } from './connection.ts'
import type { Types } from './types.ts'

/** What limits one lane during one claim. */
export interface LaneGate extends LanePermits {
  /** The jobs to choose from, in order, where those at the head of the line may all be held up by their keys. */
  candidates: ((max: number) => JobKey[]) | null
}

/** Adds its permits to the gate of a lane, and is told at the end what was taken. */
export interface Limiter {
  /** A claim begins: what an earlier one was given and did not settle is void. */
  begin?(): void
  limit(type: KnownType, gate: MutableGate, nowMs: number): void
  /** Called in the same transaction, once per claim that took something. */
  settle(nowMs: number): void
  /** What keeps the whole lane from being claimed, if anything does; asked before a claim, and nothing is written. */
  isShut?(type: KnownType, nowMs: number): Permit | null
}

export type MutableGate = { -readonly [Field in keyof LaneGate]: LaneGate[Field] } & { permits: Permit[] }

export type Gates = ReturnType<typeof openGates>

/** What stands between a lane and a worker: paused queues, breakers, limits. Lanes without any of them pay nothing. */
export function openGates(connection: Connection, types: Types, limiters: readonly Limiter[]) {
  const paused = connection.prepare('SELECT name FROM queues WHERE resume_at IS NULL OR resume_at > ?')
  const nextResume = connection.prepare('SELECT min(resume_at) AS at FROM queues WHERE resume_at > ?')
  let hasLimited = false

  return {
    pausedQueues(nowMs: number): ReadonlySet<string> {
      const rows = paused.all(nowMs) as { name: string }[]
      return rows.length === 0 ? NONE : new Set(rows.map(({ name }) => name))
    },

    nextResumeAtMs: (nowMs: number): number | null => (nextResume.get(nowMs) as { at: number | null }).at,

    begin(): void {
      for (const limiter of limiters) limiter.begin?.()
    },

    /** Some lane of this process is limited, so that the end of a job may let another one begin. */
    get hasLimited(): boolean {
      return hasLimited
    },

    /** null where nothing limits the lane. */
    gateOf(typeKey: number, nowMs: number): LaneGate | null {
      const type = types.byKey(typeKey)
      if (!isLimited(type.policy)) return null
      hasLimited = true
      const gate: MutableGate = { ...NO_LIMITS, permits: [] }
      for (const limiter of limiters) limiter.limit(type, gate, nowMs)
      return gate
    },

    /** What keeps a lane from being claimed from at all; null when nothing does. */
    shutBy(type: KnownType | undefined, nowMs: number): Permit | null {
      if (type === undefined || !isLimited(type.policy)) return null
      for (const limiter of limiters) {
        const permit = limiter.isShut?.(type, nowMs) ?? null
        if (permit !== null) return permit
      }
      return null
    },

    settle(nowMs: number): void {
      for (const limiter of limiters) limiter.settle(nowMs)
    },
  }
}

const NONE: ReadonlySet<string> = new Set()
const NO_LIMITS = { permitOfKey: null, candidates: null, keysOpenAtMs: null, callPermit: null, guard: null }
