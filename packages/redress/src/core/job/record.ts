import type { Policy } from '../policy/policy.ts'
import type { DecidedFailure } from './change.ts'
import type { Status } from './states.ts'

/** The highest priority; the lowest is its negative. */
export const PRIORITY_MAX = 1_000_000

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
  /** What the handler of the newest attempt said of its progress; null if it gave at most a fraction. */
  progressDetail: { done: number | null; total: number | null; note: string | null } | null
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

type Held = Pick<JobRecord, 'status' | 'orphanedAtMs' | 'lease' | 'policy'>

/** Whether only the time decides if it is an orphan: no worker reported it, and its policy leaves it to a person. */
export const mayBeSilent = ({ status, orphanedAtMs, lease, policy }: Held): boolean =>
  status === 'processing' && orphanedAtMs === null && lease !== null && policy.orphan.action === 'report'

/**
 * Since when its worker is lost: when it was reported, or when its lease expired if no worker has looked yet. A
 * renewal makes it null again.
 */
export function orphanedSinceMs(job: Held, nowMs: number): number | null {
  if (!mayBeSilent(job)) return job.orphanedAtMs
  const untilMs = job.lease?.untilMs ?? nowMs
  return untilMs <= nowMs ? untilMs : null
}
