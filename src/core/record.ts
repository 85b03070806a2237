import type { DecidedFailure } from './change.ts'
import type { Policy } from './policy.ts'
import type { Status } from './states.ts'

/** A job as a store hands it out, as far as core reads it to show, judge or explain it. */
export interface JobRecord {
  id: string
  type: string
  queue: string
  status: Status
  result: string | null
  owner: string | null
  priority: number
  attempt: number
  spent: string | null
  progress: number
  createdAtMs: number
  queuedAtMs: number
  dueAtMs: number | null
  claimedAtMs: number | null
  startedAtMs: number | null
  finishedAtMs: number | null
  lease: { worker: string; untilMs: number } | null
  orphanedAtMs: number | null
  cancelRequestedAtMs: number | null
  retriedFrom: string | null
  /** The newest job that a person made from this one since it failed. */
  retriedAs: string | null
  /** The status of that job; null if there is none, or if retention has removed it. */
  retriedAsStatus: Status | null
  batchId: string | null
  latestFailure: FailureRecord | null
  isForwardOnly: boolean
  isDeadLettered: boolean
  policy: Policy
}

export interface FailureRecord extends DecidedFailure {
  /** Position among all failures of the store. */
  seq: number
  attempt: number
  atMs: number
  worker: string | null
  from: Status | null
  to: Status
}
