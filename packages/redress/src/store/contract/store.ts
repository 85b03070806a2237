import type { Fault } from '../../core/failure/failure.ts'
import type { Change, DeadLetter, DecidedFailure, ReclaimExpectation } from '../../core/job/change.ts'
import type { JobEvent } from '../../core/job/events.ts'
import type { FailureRecord, JobRecord } from '../../core/job/record.ts'
import type { Status } from '../../core/job/states.ts'
import type { NewNotice } from '../../core/notice/notice.ts'
import type { Policy } from '../../core/policy/policy.ts'
import type { AccountStore } from './accounts.ts'
import type { ActivityStore } from './activity.ts'
import type { AuditStore } from './audit.ts'
import type { BatchStore } from './batches.ts'
import type { BreakerStanding, BreakerStore, LeaseGuard } from './breakers.ts'
import type { DeadLetterStore } from './dead-letters.ts'
import type { FailureGroupStore } from './failure-groups.ts'
import type { FeedStore } from './feed.ts'
import type { NoticeStore } from './notices.ts'
import type { QueueStore } from './queues.ts'
import type { ReplayStore } from './replays.ts'
import type { ScheduleStore } from './schedules.ts'
import type { TransactionalStore } from './transactional.ts'

/**
 * Durable state behind one interface. What every driver promises is written as sentences, and tested, in
 * `conformance/`. In short:
 *
 * - An answered call is durable. Time is the store's own; callers pass delays, never instants.
 * - One valid lease per job. Whatever a worker writes is compared with the attempt number; a stale write changes
 *   nothing, is answered with `lost`, and leaves an event.
 * - The event is written with the change it describes, in one transaction; the history replays to the row.
 * - Rules stay in core: the store persists a `Change` and never decides one.
 */
export interface Store
  extends AccountStore,
    ActivityStore,
    AuditStore,
    BatchStore,
    BreakerStore,
    DeadLetterStore,
    FailureGroupStore,
    FeedStore,
    NoticeStore,
    QueueStore,
    ReplayStore,
    ScheduleStore,
    TransactionalStore {
  /** Declares a job type, or renews its policy. Refuses to weaken one that is locked (P68). */
  register(params: { types: readonly TypeDeclaration[] }): Promise<void>
  types(): Promise<StoredType[]>

  /** Makes a worker known and gives it the number that its leases carry. */
  enlist(params: { id: string; host: string; pid: number; types: readonly string[] }): Promise<WorkerKey>
  /** The worker says that it stops; what it still holds is left to its leases. */
  dismiss(params: { worker: WorkerKey }): Promise<void>
  workers(): Promise<StoredWorker[]>

  submit(params: { jobs: readonly NewJob[] }): Promise<Submitted[]>
  /**
   * Leases due jobs, by priority and then by queue time. May also return leases of an earlier claim of this worker
   * whose answer was lost, in any lane.
   */
  claim(params: { worker: WorkerKey; lanes: readonly Lane[]; max: number }): Promise<Claimed>
  /** Marks attempts as really begun. Answers with the keys whose lease is gone. */
  start(params: { worker: WorkerKey; attempts: readonly Started[] }): Promise<{ lost: JobKey[] }>
  /** Extends leases in one call, with progress; says which are lost and which should stop because of a cancellation. */
  renew(params: { worker: WorkerKey; leases: readonly Renewal[] }): Promise<Renewed>
  /** Ends attempts. */
  close(params: { worker: WorkerKey; closes: readonly Close[] }): Promise<CloseAnswer[]>
  /** The same, before this call returns: only for the last moment of a process. Absent where a driver cannot. */
  closeNow?(params: { worker: WorkerKey; closes: readonly Close[] }): CloseAnswer[]
  /** The jobs this worker holds that somebody asked to cancel. Cheap enough to ask often. */
  cancellations(params: { worker: WorkerKey }): Promise<Cancellation[]>

  /**
   * Processing jobs whose lease expired (and that were not reported yet), that were claimed long ago without a start,
   * or that belong to a type in `stuck` and started too long ago.
   */
  stalled(params: { unstartedForMs: number; stuck?: readonly StuckAge[]; limit: number }): Promise<Stalled[]>
  /** Takes jobs back from lost workers, or reports them. Refused for one whose lease was renewed meanwhile. */
  reclaim(params: { reclaims: readonly Reclaim[] }): Promise<CloseAnswer[]>

  /** A person's act on one job, if the job still stands as that person saw it. */
  intervene(params: Intervention): Promise<'done' | 'moved-on' | 'dedupe-taken'>
  /**
   * Something that a job needed or made is gone by retention: an event of the job, once for each reason, and its live
   * dedupe key is free, because asking again must do the work again. False when it was told already, or the job is not over.
   */
  expire(params: Expiry): Promise<boolean>

  job(params: { id: string }): Promise<JobRow | null>
  /** The newest that fit, as many as asked for, however far apart they are: for programs, which know what they ask. */
  jobs(params: JobFilter): Promise<JobRow[]>
  /** The same for people, in bounded time: a page may have less than its limit, and yet not be the last. */
  jobPage(params: JobFilter): Promise<JobPage>
  /** In bounded time, too: counts up to `max`. */
  countJobs(params: Omit<JobFilter, 'beforeKey' | 'limit'> & { max: number }): Promise<JobCount>
  /** Failed jobs by how they ended: the newest that fit, `max` of them at most. In bounded time, too. */
  countFailed(
    params: Omit<JobFilter, 'status' | 'isActive' | 'beforeKey' | 'limit'> & { max: number },
  ): Promise<FailedCount>
  events(params: { id: string }): Promise<JobEvent[]>
  failures(params: { id: string }): Promise<StoredFailure[]>
  counts(): Promise<TypeCounts[]>

  /** Removes finished jobs past their retention, a bounded number per call; call again with the answered cursor. */
  prune(params: { rules: readonly PruneRule[]; after: number; limit: number }): Promise<Pruned>

  nowMs(): Promise<number>
  /** Calls back when work may have become ready through this process. A wake can be lost: polling is the bound. */
  onWake(listener: () => void): () => void
  /** Finishes what was begun and lets go of the store; later calls are refused. */
  stop(): Promise<void>
}

/** The store's own short name for a job; never used again for another one. */
export type JobKey = number
export type WorkerKey = number
export type BatchKey = number

/** Who did something, and why; kept in the audit trail. */
export interface By {
  actor: string
  reason: string
}

export interface TypeDeclaration {
  name: string
  queue: string
  policy: Policy
}

export interface StoredType extends TypeDeclaration {
  registeredAtMs: number
}

export interface StoredWorker {
  id: string
  host: string
  pid: number
  /** The job types it runs. */
  types: string[]
  startedAtMs: number
  seenAtMs: number
  stoppedAtMs: number | null
}

/** The failed job that a person made a new one from. */
export interface RetriedFrom extends By {
  id: string
  /** The operation by which it was done: 'jobs.retry' when left out. */
  act?: 'dead-letters.replay' | 'replays.start'
  /** Of the replay that it is a part of. */
  replay?: string
  /** `retriedAs` of that job when the caller decided. If it has changed, nothing is made. null when left out. */
  retriedAsSeen?: string | null
}

export interface NewJob {
  /** Made by the submitter, so that submitting again after an unknown commit finds the job instead of doubling it. */
  id: string
  type: string
  /** JSON text. */
  payload: string
  owner: string | null
  priority: number
  delayMs: number
  dedupe: { key: string; scope: DedupeScope } | null
  /** The person who handed it in, where one did: then it is in the audit trail. */
  by?: By
  /** The failed job that a person made this one from. */
  retriedFrom: RetriedFrom | null
  /** Why it was refused before any dispatch, where the policy records refusals as failed jobs. */
  rejected: DecidedFailure | null
  /** To be told of the refusal, once the job is there. */
  notices?: readonly NewNotice[]
  /** Id of the batch it belongs to. A job made from a failed one takes that one's place in its batch by itself. */
  batch: string | null
  /** Jobs of one type with the same key share `concurrency.perKey` and a rate of scope 'key'. */
  limitKey: string | null
  /** The trace that the submission is part of (a W3C traceparent): it comes back with each lease. */
  trace?: string | null
  /** The schedule that makes it, the time it is made for, and who asked for it if that was a person. */
  scheduled?: { name: string; atMs: number; by?: By }
}

/** `live`: the key is free again when the job fails or is cancelled. `always`: as long as the job is kept. */
export interface Expiry {
  id: string
  /** What is gone, and why, in words for a person. */
  reason: string
}

export type DedupeScope = 'live' | 'always'

export interface Submitted {
  id: string
  /** False when a job with the same dedupe key (or the same id) was there already; `id` is then that job's. */
  isNew: boolean
  status: Status
}

/** A job type a worker serves. */
export interface Lane {
  type: string
  ttlMs: number
}

export interface Claimed {
  nowMs: number
  leases: Lease[]
  /** When the next waiting job of these lanes becomes due, if one waits. */
  nextDueAtMs: number | null
  /** The breakers of these lanes, as they stood in the claim; left out where no lane has one. */
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
  /** Since then it has waited for a worker: since it was submitted, or since its delay or its wait for a retry ended. */
  dueSinceMs: number
  retriedFrom: string | null
  /** Its type only went forward when it was submitted: then so does it, whatever the type's policy says by now. */
  isForwardOnly: boolean
  /** Its place in a batch; the worker hands it back with the close, so that no row need be read for it. */
  batch: BatchKey | null
  /** The trace that its submission was part of. */
  trace: string | null
  /** Where its type has a breaker. */
  guard?: LeaseGuard
}

export interface Held {
  key: JobKey
  attempt: number
}

export interface Started extends Held {
  /** How long ago, by the worker's monotonic clock. */
  agoMs: number
}

export interface Renewal extends Held {
  ttlMs: number
  progress: number | null
}

export interface Cancellation extends Held {
  actor: string
  reason: string
}

export interface Renewed {
  nowMs: number
  lost: JobKey[]
}

export interface Close extends Held {
  change: Change
  /** How long the handler ran; null when it never began. */
  ranMs: number | null
  /** The lease's. */
  batch?: BatchKey | null
  /** To be told if it counts. Absent where nobody is to be told, as for most jobs. */
  notices?: readonly NewNotice[]
}

export type CloseAnswer = 'closed' | 'lost'

/** Jobs of this type are stuck when their attempt started this long ago. */
export interface StuckAge {
  type: string
  startedForMs: number
}

export interface Stalled extends Held {
  id: string
  type: string
  worker: string
  leaseUntilMs: number
  claimedAtMs: number
  startedAtMs: number | null
  queuedAtMs: number
  createdAtMs: number
  owner: string | null
  retriedFrom: string | null
  spent: string | null
  isExpired: boolean
  isCancelRequested: boolean
  isForwardOnly: boolean
  nowMs: number
}

export interface Reclaim extends Held {
  /** The row must still be so, or it is left alone. */
  expect: ReclaimExpectation
  change: Exclude<Change, { to: 'complete' }> | { to: 'orphaned' }
  /** To be told if it is done. */
  notices?: readonly NewNotice[]
}

export interface Intervention {
  id: string
  actor: string
  reason: string
  /** The state that the decision was based on. `retriedAs` matters only to a retry, and is null when left out. */
  expect: { status: Status; attempt: number; retriedAs?: string | null }
  act:
    | { kind: 'retry-in-place'; spent: string | null }
    | {
        kind: 'mark-failed'
        failure: DecidedFailure
        spent: string | null
        deadLetter: DeadLetter
        notices?: readonly NewNotice[]
      }
    | { kind: 'cancel' }
    | { kind: 'request-cancel' }
}

/** What core reads of a job, and what only the store and its callers need. */
export interface JobRow extends JobRecord {
  key: JobKey
  /** The number of tries of its task: each attempt, and each further try of the stage that an attempt failed with. */
  tries: number
  payload: string
  dedupeKey: string | null
  batch: BatchKey | null
  limitKey: string | null
  /** `seq` of the failure that ended it; null unless it is failed. */
  failure: number | null
  /** The newest failure, whatever became of it; `failure` says whether the job failed for good. */
  latestFailure: StoredFailure | null
}

export interface StoredFailure extends FailureRecord {
  jobId: string
}

export interface JobFilter {
  status?: Status
  /** Queued or processing: not over yet. */
  isActive?: boolean
  type?: string
  /** The jobs of all types of this queue. */
  queue?: string
  owner?: string
  /** The code that a failed job ended with. */
  code?: string
  /**
   * Its worker is lost and a person must decide: it was reported, or its lease expired and its policy reports
   * orphans, even if no worker has noticed yet.
   */
  isOrphaned?: boolean
  /** Id of a batch: the jobs that have a place in it. */
  batch?: string
  /** What a person has in their hand, without saying what it is: see `Meaning` in `job-search.ts`. */
  q?: string
  createdSinceMs?: number
  createdBeforeMs?: number
  /** Id of a job: those that a person made from it. */
  retriedFrom?: string
  /** Newest first, older than this key. */
  beforeKey?: JobKey
  limit: number
}

export interface JobPage {
  jobs: JobRow[]
  /** Give it as `beforeKey` to go on; null when nothing is left. */
  nextKey: JobKey | null
}

export interface JobCount {
  count: number
  /** There are more, or there may be: counting ended before the jobs did. */
  isMore: boolean
}

export interface FailedCount {
  ends: FailedEnd[]
  /** There are more, or there may be. */
  isMore: boolean
}

/** Jobs of one type that failed with one code. */
export interface FailedEnd {
  type: string
  code: string
  isForwardOnly: boolean
  count: number
  /** Of the newest of them. */
  fault: Fault
  message: string
}

export interface TypeCounts {
  type: string
  queue: string
  queued: number
  waiting: number
  processing: number
  orphaned: number
  complete: number
  failed: number
  cancelled: number
}

export interface PruneRule {
  type: string
  completeMs: number | null
  failedMs: number | null
  cancelledMs: number | null
  /** A letter is kept with its job; only when it is gone may the job go. Left out: for ever. */
  deadLettersMs?: number | null
}

export interface Pruned {
  /** Jobs. */
  removed: number
  letters: number
  /** Where to go on; null when the end was reached. */
  cursor: number | null
}
