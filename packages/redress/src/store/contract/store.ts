import type { Fault } from '../../core/failure/failure.ts'
import type { Change, DeadLetter, DecidedFailure, ReclaimExpectation } from '../../core/job/change.ts'
import type { JobEvent } from '../../core/job/events.ts'
import type { Merge } from '../../core/job/merging.ts'
import type { FailureRecord, JobRecord } from '../../core/job/record.ts'
import type { Status } from '../../core/job/states.ts'
import type { NewNotice } from '../../core/notice/notice.ts'
import type { Policy } from '../../core/policy/policy.ts'
import type { AccountStore } from './accounts.ts'
import type { ActivityStore } from './activity.ts'
import type { AuditStore } from './audit.ts'
import type { BatchStore } from './batches.ts'
import type { BreakerStore } from './breakers.ts'
import type { Claimed, Lane, Lease, OfferedClaim } from './claims.ts'
import type { DeadLetterStore } from './dead-letters.ts'
import type { FailureGroupStore } from './failure-groups.ts'
import type { FeedStore } from './feed.ts'
import type { NoticeStore } from './notices.ts'
import type { QueueStore } from './queues.ts'
import type { ReplayStore } from './replays.ts'
import type { Report, ReportStore } from './reports.ts'
import type { ScheduleStore } from './schedules.ts'
import type { TransactionalStore } from './transactional.ts'
import type { WaitingStore } from './waiting.ts'

export type { Claimed, Lane, Lease, OfferedClaim }

/**
 * Durable state behind one interface. What every driver promises is written as sentences, and tested, in
 * `conformance/`. In short:
 *
 * - An answered call is durable. Time is the store's own; callers pass delays, never instants.
 * - One valid lease per job. Every write of a worker is compared with the attempt number; a stale write changes nothing, is
 *   answered with `lost`, and leaves an event.
 * - The event is written with the change it describes, in one transaction; the row can be rebuilt from the history. Only a claim
 *   is told by the next event of its attempt; until then the history reads it from the row.
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
    ReportStore,
    ScheduleStore,
    TransactionalStore,
    WaitingStore {
  /** Declares job types, or changes their policies. Refuses to weaken a locked policy (P68). */
  register(params: { types: readonly TypeDeclaration[] }): Promise<void>
  types(): Promise<StoredType[]>

  /** Registers a worker and returns its key, which its leases carry. */
  enlist(params: { id: string; host: string; pid: number; types: readonly string[] }): Promise<WorkerKey>
  /** The worker runs these types from now on; all else about it stays. Does nothing for a worker that is gone. */
  serve(params: { worker: WorkerKey; types: readonly string[] }): Promise<void>
  /** The worker stops. Jobs that it still holds wait until their leases expire. */
  dismiss(params: { worker: WorkerKey }): Promise<void>
  workers(): Promise<StoredWorker[]>

  submit(params: { jobs: readonly NewJob[] }): Promise<Submitted[]>
  /**
   * Leases due jobs, by priority and then by queue time. May also return leases of an earlier claim of this worker
   * whose answer was lost, in any lane.
   */
  claim(params: { worker: WorkerKey; lanes: readonly Lane[]; max: number }): Promise<Claimed>
  /** Marks attempts as started. Returns the keys whose lease is lost. */
  start(params: { worker: WorkerKey; attempts: readonly Started[] }): Promise<{ lost: JobKey[] }>
  /** Renews leases. Returns the keys whose lease is lost. */
  renew(params: { worker: WorkerKey; leases: readonly Renewal[] }): Promise<Renewed>
  /** Ends attempts. */
  close(params: { worker: WorkerKey; closes: readonly Close[] }): Promise<CloseAnswer[]>
  /** The same, synchronously: only for the last moment of a process. Absent if the driver cannot. */
  closeNow?(params: { worker: WorkerKey; closes: readonly Close[] }): CloseAnswer[]
  /** The jobs of this worker with a request to cancel. Cheap enough to call often. */
  cancellations(params: { worker: WorkerKey }): Promise<Cancellation[]>

  /**
   * Processing jobs whose lease expired and that were not reported yet, that were claimed long ago without a start, or that
   * belong to a type in `stuck` and started too long ago.
   */
  stalled(params: { unstartedForMs: number; stuck?: readonly StuckAge[]; limit: number }): Promise<Stalled[]>
  /** Takes jobs back from lost workers, or reports them as orphans. Refused if the lease was renewed meanwhile. */
  reclaim(params: { reclaims: readonly Reclaim[] }): Promise<CloseAnswer[]>

  /** A person's act on one job, if the job is still as that person saw it. */
  intervene(params: Intervention): Promise<'done' | 'moved-on' | 'dedupe-taken'>
  /**
   * Removes a finished job with its history, failures and dead letters, if it is still as the person saw it. The audit
   * entry stays, and the feed gets the event `deleted`. `letter-open`: its dead letter waits for a replay or a purge, and
   * the act is not forced. `uncounted`: its failures are not in their groups yet; count them and ask again.
   */
  deleteJob(params: Deletion): Promise<'done' | 'moved-on' | 'letter-open' | 'uncounted'>
  /**
   * Retention removed a file that a job needed or made: adds an event, once for each reason, and frees the live dedupe key,
   * because a new submission must do the work again. False if the event exists already or the job has not ended.
   */
  expire(params: Expiry): Promise<boolean>

  job(params: { id: string }): Promise<JobRow | null>
  /** The newest matching jobs up to the limit, however long the search takes: for programs. */
  jobs(params: JobFilter): Promise<JobRow[]>
  /** The same in bounded time, for people: a page may have fewer jobs than its limit and not be the last. */
  jobPage(params: JobFilter): Promise<JobPage>
  /** Counts up to `max`, in bounded time. */
  countJobs(params: Omit<JobFilter, 'beforeKey' | 'limit'> & { max: number }): Promise<JobCount>
  /** Counts the newest matching failed jobs by type and code, `max` of them at most, in bounded time. */
  countFailed(
    params: Omit<JobFilter, 'status' | 'isActive' | 'beforeKey' | 'limit'> & { max: number },
  ): Promise<FailedCount>
  /** The history of a job, without the reports of its handler. */
  events(params: { id: string }): Promise<JobEvent[]>
  failures(params: { id: string }): Promise<StoredFailure[]>
  counts(): Promise<TypeCounts[]>

  /** Removes finished jobs past their retention, a bounded number per call; call again with the answered cursor. */
  prune(params: { rules: readonly PruneRule[]; after: number; limit: number }): Promise<Pruned>

  nowMs(): Promise<number>
  /** Calls back when work may have become ready through this process. A wake can be lost: polling is the bound. */
  onWake(listener: () => void): () => void
  /**
   * `offer` is called at each submission of this process. If an idle worker offers a claim, the store makes it in the transaction
   * of the submission, so that the job begins one commit earlier. Left out by a store that cannot do this.
   */
  onSubmit?(offer: () => OfferedClaim | null): () => void
  /** Finishes pending calls and closes the store; later calls are refused. */
  stop(): Promise<void>
}

/** The store's own number for a job. It is never reused. */
export type JobKey = number
export type WorkerKey = number
export type BatchKey = number

/** The actor of a change and the reason, as the audit trail keeps them. */
export interface ActorAndReason {
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
export interface RetriedFrom extends ActorAndReason {
  id: string
  /** The operation: 'jobs.retry' when left out. */
  act?: 'dead-letters.replay' | 'replays.start'
  /** The id of the replay that it is a part of. */
  replay?: string
  /** `retriedAs` of that job when the caller decided. If it has changed, nothing is made. null when left out. */
  retriedAsSeen?: string | null
}

/** A job to be submitted, as the store takes it. */
export interface NewJob {
  /** Made by the submitter: a submission repeated after an unknown commit finds the job instead of making another. */
  id: string
  type: string
  /** JSON text. */
  payload: string
  owner: string | null
  priority: number
  delayMs: number
  /** Not before this time of the store's clock, instead of a delay. */
  runAtMs?: number
  /** It expires if no attempt has begun this long after it was due. */
  ttlMs?: number
  /** `forMs`: for this long after the submission the key is held, whatever becomes of the job. The scope is `always` then. */
  dedupe: { key: string; scope: DedupeScope; forMs?: number } | null
  /** Which waiting job of the type it is merged with, if any. */
  merge?: Merge
  /** The person who submitted it, if any: then the submission is in the audit trail. */
  by?: ActorAndReason
  /** The failed job that a person made this one from. */
  retriedFrom: RetriedFrom | null
  /** Why it was refused, if the policy records refusals as failed jobs. */
  rejected: DecidedFailure | null
  /** Notices of the refusal. */
  notices?: readonly NewNotice[]
  /** If it comes from another job system. Then `rejected` is the failure that it had there, not a refused submission. */
  imported?: ImportedOrigin
  /** The id of its batch. A job made from a failed one takes the place of that one in its batch by itself. */
  batch: string | null
  /** Jobs of one type with the same key share `concurrency.perKey` and a rate of scope 'key'. */
  limitKey: string | null
  /** The trace of the submission (a W3C traceparent). Each lease has it. */
  trace?: string | null
  /** The schedule that makes it, the tick, and the person who triggered it, if any. */
  scheduled?: { name: string; atMs: number; by?: ActorAndReason }
}

interface ImportedOrigin {
  /** For people: 'BullMQ, queue mail, job 17'. */
  from: string
  /** Attempts that the other system made. */
  attempts: number
  /** Whether an imported failure becomes a dead letter. */
  deadLetter: DeadLetter
}

interface Expiry {
  id: string
  /** What was removed and why, for people. */
  reason: string
}

/** `live`: the key is free again when the job fails or is cancelled. `always`: the key is taken while the job is kept. */
export type DedupeScope = 'live' | 'always'

/** The answer to a submission. */
export interface Submitted {
  id: string
  /** False if a job with the same id or dedupe key exists already; `id` is then that job's. */
  isNew: boolean
  /** The job waited, and its input is now that of this submission: see `debounce` and `throttle`. */
  isReplaced?: true
  status: Status
}

export interface Held {
  key: JobKey
  attempt: number
}

export interface Started extends Held {
  /** How long ago, by the worker's monotonic clock. */
  agoMs: number
  /** The job has a time to live, which ends with the start of its first attempt. */
  hasTtl?: boolean
}

export interface Renewal extends Held {
  ttlMs: number
}

interface Cancellation extends Held {
  actor: string
  reason: string
}

export interface Renewed {
  nowMs: number
  lost: JobKey[]
}

export interface Close extends Held {
  change: Change
  /** How long the handler ran; null if it never started. */
  ranMs: number | null
  /** The batch of the lease. */
  batch?: BatchKey | null
  /** What the handler reported and may not be in the store yet. It is kept if the close is accepted. Most have none. */
  report?: Omit<Report, keyof Held>
  /** Stored if the close is accepted. Most jobs have none. */
  notices?: readonly NewNotice[]
}

export type CloseAnswer = 'closed' | 'lost'

/** Jobs of this type are stuck when their attempt started this long ago. */
interface StuckAge {
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
  /** What the reclaiming worker saw. If the row has changed, it is left alone. */
  expect: ReclaimExpectation
  change: Exclude<Change, { to: 'complete' }> | { to: 'orphaned' }
  /** Stored if the reclaim is accepted. */
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
    /** A time that is over makes the job due at once. */
    | { kind: 'reschedule'; to: { atMs: number } | { delayMs: number } }
    | { kind: 'promote' }
    | { kind: 'reprioritise'; priority: number }
    /** Only before the first attempt: what ran must stay the record of the input that it ran with. */
    | { kind: 'replace-input'; payload: string /** Left out: it keeps the one it has. */; limitKey?: string | null }
}

export interface Deletion extends ActorAndReason {
  id: string
  /** The state that the decision was based on. */
  expect: { status: Status; attempt: number }
  /** Also if its dead letter is open. */
  isForced: boolean
  /** A job that is submitted in the same transaction: it removes the files of the deleted one. */
  cleanup: NewJob | null
}

/** The job as core reads it, and what only the store and its callers need. */
export interface JobRow extends JobRecord {
  key: JobKey
  /** The number of tries of its task: each attempt, and each further try of the stage that an attempt failed with. */
  tries: number
  payload: string
  dedupeKey: string | null
  batch: BatchKey | null
  limitKey: string | null
  /** The `seq` of the failure that ended it; null unless it failed. */
  failure: number | null
  /** The newest failure, also one that was retried. */
  latestFailure: StoredFailure | null
}

export interface StoredFailure extends FailureRecord {
  jobId: string
}

export interface JobFilter {
  status?: Status
  /** Queued or processing. */
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
  /** The id of a batch: the jobs that belong to it. */
  batch?: string
  /** A text whose kind is not known, such as an id or a code: see `Meaning` in `job-search.ts`. */
  q?: string
  createdSinceMs?: number
  createdBeforeMs?: number
  /** The id of a job: the jobs that a person made from it. */
  retriedFrom?: string
  /** Only jobs older than this key. */
  beforeKey?: JobKey
  limit: number
}

export interface JobPage {
  jobs: JobRow[]
  /** The `beforeKey` of the next page; null if there is none. */
  nextKey: JobKey | null
}

export interface JobCount {
  count: number
  /** There are or may be more: the count stopped early. */
  isMore: boolean
}

interface FailedCount {
  ends: FailedEnd[]
  /** There are or may be more. */
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
  /** How long a dead letter is kept; its job is removed only after it. Left out: for ever. */
  deadLettersMs?: number | null
}

export interface Pruned {
  /** Jobs. */
  removed: number
  letters: number
  /** Where to continue; null at the end. */
  cursor: number | null
}
