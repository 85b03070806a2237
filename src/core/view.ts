import type { Action } from './actions.ts'
import { unpackSpent } from './budget.ts'
import { type Hold, type HoldView, viewHold } from './hold.ts'
import { isoTime, isoTimeOrNull } from './iso-time.ts'
import type { FailureRecord, JobRecord } from './record.ts'
import type { Status } from './states.ts'

/** A job as every door shows it. Times are ISO 8601 in UTC. */
export interface JobView {
  id: string
  type: string
  queue: string
  status: Status
  owner: string | null
  batchId: string | null
  /**
   * Dispatches since the job was submitted, or since a manual retry reset its budget. A snoozed dispatch did no work
   * and does not count.
   */
  attemptCount: number
  maxAttempts: number
  retryCount: number
  manualRetryCount: number
  lastAttemptAt: string | null
  /** Not before this time; null when it may go at once. */
  retryAfter: string | null
  createdAt: string
  queuedAt: string
  startedAt: string | null
  finishedAt: string | null
  failedAt: string | null
  /** From 0 to 1. */
  progress: number
  errorCode: string | null
  errorMessage: string | null
  /** The failed job that a person made this one from. */
  retriedFrom: string | null
  /** The newest job that a person made from this one since it failed. */
  retriedAs: string | null
  result: unknown
  priority: number
  worker: string | null
  leaseUntil: string | null
  orphanedAt: string | null
  cancelRequestedAt: string | null
  deadLettered: boolean
  /** What a retry by a person does, by its policy: then another input may be given where it makes a new job. */
  manualRetry: 'in-place' | 'new-job' | 'off'
  /** What keeps it back though it could go: a breaker, a paused queue, a limit. */
  held: HoldView[]
  actions: Action[]
}

export function viewJob(job: JobRecord, actions: Action[], holds: readonly Hold[] = []): JobView {
  const spent = unpackSpent(job.spent)
  const { max } = job.policy.retry
  const error = shownError(job)
  return {
    id: job.id,
    type: job.type,
    queue: job.queue,
    status: job.status,
    owner: job.owner,
    batchId: job.batchId,
    attemptCount: job.attempt - spent.attemptBase - spent.snoozes,
    maxAttempts: max,
    // The last failure is not followed by a retry, so max failures are max - 1 retries: "3/3", never "4/3".
    retryCount: retryCountOf(job, spent.failures),
    manualRetryCount: spent.manualRetries,
    lastAttemptAt: isoTimeOrNull(lastAttemptAtMs(job)),
    retryAfter: job.status === 'queued' ? isoTimeOrNull(job.dueAtMs) : null,
    createdAt: isoTime(job.createdAtMs),
    queuedAt: isoTime(job.queuedAtMs),
    startedAt: isoTimeOrNull(job.startedAtMs),
    finishedAt: isoTimeOrNull(job.finishedAtMs),
    failedAt: job.status === 'failed' ? isoTimeOrNull(job.finishedAtMs) : null,
    progress: job.progress,
    errorCode: error?.code ?? null,
    errorMessage: error?.message ?? null,
    retriedFrom: job.retriedFrom,
    retriedAs: job.retriedAs,
    result: job.result === null ? null : JSON.parse(job.result),
    priority: job.priority,
    worker: job.lease?.worker ?? null,
    leaseUntil: isoTimeOrNull(job.lease?.untilMs ?? null),
    orphanedAt: isoTimeOrNull(job.orphanedAtMs),
    cancelRequestedAt: isoTimeOrNull(job.cancelRequestedAtMs),
    deadLettered: job.isDeadLettered,
    manualRetry: job.policy.manualRetry.mode,
    held: holds.map(viewHold),
    actions,
  }
}

function shownError({ status, latestFailure, policy }: JobRecord): { code: string; message: string } | null {
  if (latestFailure === null) return null
  const { code, message, waiting, to } = latestFailure
  if (status === 'failed') return { code, message }
  // A failure that was final and was then retried by a person is history, and no longer the job's present trouble.
  const isBetweenAttempts = (status === 'queued' || status === 'processing') && to === 'queued'
  return isBetweenAttempts && policy.errors === 'latest' ? { code, message: waiting } : null
}

/** Counted when a retry is scheduled (W16): the failure that ended a job scheduled none. Never above max - 1. */
function retryCountOf({ status, latestFailure, policy }: JobRecord, failures: number): number {
  const budget = status === 'failed' ? latestFailure?.decision.budget : undefined
  const ended = budget?.name.startsWith('retry.') && budget.after > budget.before ? 1 : 0
  return Math.min(Math.max(0, failures - ended), policy.retry.max - 1)
}

/** Going back to the queue clears the claim; then the failure that sent it there knows when. */
function lastAttemptAtMs({ claimedAtMs, latestFailure, attempt }: JobRecord): number | null {
  if (claimedAtMs !== null || attempt === 0) return claimedAtMs
  return latestFailure === null || isBeforeDispatch(latestFailure) ? null : latestFailure.atMs
}

const isBeforeDispatch = ({ stage }: FailureRecord): boolean => stage === 'pre_dispatch'
