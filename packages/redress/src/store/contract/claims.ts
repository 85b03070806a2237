import type { BreakerStanding, LeaseGuard } from './breakers.ts'
import type { BatchKey, JobKey, WorkerKey } from './store.ts'

/** A job type that a worker runs. */
export interface Lane {
  type: string
  ttlMs: number
}

/** A claim that a submission of the same process may make. */
export interface OfferedClaim {
  worker: WorkerKey
  lanes: readonly Lane[]
  max: number
  /** Called once: with what was claimed after the commit, or with null if nothing was tried or committed. */
  taken(claimed: Claimed | null): void
}

export interface Claimed {
  nowMs: number
  leases: Lease[]
  /** When the next waiting job of these lanes becomes due, if any. */
  nextDueAtMs: number | null
  /** The breakers of these lanes at the time of the claim; left out if no lane has one. */
  breakers?: BreakerStanding[]
}

/** A worker's expiring right to close one attempt. */
export interface Lease {
  key: JobKey
  id: string
  type: string
  attempt: number
  payload: string
  spent: string | null
  owner: string | null
  priority: number
  createdAtMs: number
  queuedAtMs: number
  /** Since when it has waited for a worker: its submission, or the end of its delay or backoff. */
  dueSinceMs: number
  /** The job expired at this time, unless its first attempt has begun before. */
  expiresAtMs: number | null
  retriedFrom: string | null
  /** Its type was `forwardOnly` when it was submitted; a later change of the policy does not matter. */
  isForwardOnly: boolean
  /** Its batch. The worker passes it back with the close, so that the store need not read it. */
  batch: BatchKey | null
  /** The trace of its submission. */
  trace: string | null
  /** If its type has a breaker. */
  guard?: LeaseGuard
}
