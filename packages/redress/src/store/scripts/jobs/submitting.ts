import { RedressError } from '../../../core/errors.ts'
import { alreadyRetried } from '../../../core/job/actions.ts'
import { failedEventData } from '../../../core/job/change.ts'
import type { EventData } from '../../../core/job/events.ts'
import { expiresAtMsOf } from '../../../core/job/merging.ts'
import type { Status } from '../../../core/job/states.ts'
import { NOTHING_SPENT, packSpent, spendFailure } from '../../../core/policy/budget.ts'
import type { ActorAndReason, BatchKey, JobKey, NewJob, RetriedFrom, Submitted } from '../../contract/store.ts'
import type { Batches } from '../batches.ts'
import { type AuditEntry, history } from '../history.ts'
import { letterMarks } from '../letters/dead-letters.ts'
import type { Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { NONE, sql } from '../tx/sql.ts'
import { hasLimitKeys, type KnownType } from './types.ts'

/** The failed job whose place in a batch a new one takes. */
interface Predecessor {
  key: JobKey
  batch: BatchKey
  permanent: number | null
}

/** A refused submission can be corrected and repeated, so it makes no dead letter. */
const NOT_IMPORTED = { attempts: 0, deadLetter: 'none' } as const

type Twin = Pick<Submitted, 'id' | 'status'>

/** Until the end of the transaction, no other transaction changes the rows that a statement has read. */
export const LOCK_JOB = { sqlite: NONE, postgres: sql`FOR UPDATE OF jobs, job_specs` }

/** A twin may end between the insert that it prevented and the look for it; this often is unlikely. */
export const LOOKS_MAX = 20

export const neverStill = (): RedressError =>
  new RedressError('STORE_BUSY', 'Jobs with the same dedupe key came and went while this one was submitted.')

/**
 * A job that is refused, that a person made, that takes another job's place, or that is merged with others by a key: each
 * driver submits all others in bulk.
 */
export const isSpecial = ({ rejected, retriedFrom, by, merge }: NewJob): boolean =>
  rejected !== null || retriedFrom !== null || by !== undefined || merge !== undefined

export const limitKeyOf = ({ limitKey }: Pick<NewJob, 'limitKey'>, type: KnownType): string | null =>
  limitKey ?? (hasLimitKeys(type) ? '' : null)

/** Until when a job holds its dedupe key whatever becomes of it; null if its scope decides. */
export const dedupeUntilMs = ({ dedupe }: NewJob, nowMs: number): number | null =>
  dedupe?.forMs === undefined ? null : nowMs + dedupe.forMs

/** The data of a job's first event: who or what made it, if it was not simply submitted. */
export function originOf({ retriedFrom, scheduled, imported }: NewJob): EventData | null {
  if (retriedFrom !== null) return { actor: retriedFrom.actor, reason: retriedFrom.reason }
  if (imported !== undefined) return { importedFrom: imported.from }
  if (scheduled === undefined) return null
  return { ...scheduled.by, schedule: scheduled.name, scheduledForMs: scheduled.atMs }
}

/** A job that a person made. A job that is part of a replay of many letters is in the trail with that replay. */
export function auditOf({ id, by, retriedFrom }: NewJob, atMs: number): [ActorAndReason, AuditEntry] | null {
  if (retriedFrom !== null && retriedFrom.replay === undefined) {
    const act = retriedFrom.act ?? 'jobs.retry'
    return [retriedFrom, { atMs, act, target: 'job', ids: [retriedFrom.id, id], data: { madeJob: id } }]
  }
  return by === undefined ? null : [by, { atMs, act: 'jobs.submit', target: 'job', ids: [id] }]
}

/** Adds a job inside the transaction of `tx`, or finds the one that has its id or its dedupe key; then `key` is null. */
export type MakeJob = (
  tx: Tx,
  job: NewJob,
  type: KnownType,
  dueAtMs: number | null,
  nowMs: number,
) => Script<{ submitted: Submitted; key: JobKey | null }>

/** Makes one special job (`isSpecial`) at a time. */
export function openMakeJob(batches: Pick<Batches, 'keyOf' | 'entered' | 'moved'>): MakeJob {
  /**
   * If several callers retry a failed job at once, only one makes a new job: the rows are locked until the end of the
   * transaction. Returns the key of the failed job, or the job that this same retry made before.
   */
  const lockOrigin = function* (tx: Tx, job: NewJob, retriedFrom: RetriedFrom): Script<JobKey | Submitted | null> {
    const origin = yield* tx.get<{ key: JobKey; status: Status; retried_as: string | null }>`
      SELECT job_specs.key, status, retried_as FROM job_specs JOIN jobs ON jobs.key = job_specs.key
      WHERE job_specs.id = ${retriedFrom.id} ${tx.dialect.choose(LOCK_JOB)}`
    // A separate statement sees rows that were committed while the one before it waited for a lock.
    const made = yield* jobById(tx, job.id)
    if (made !== undefined) return { ...made, isNew: false }
    if (origin === undefined) return null
    const { key, status, retried_as: retriedAs } = origin
    const { id, retriedAsSeen = null } = retriedFrom
    if (status !== 'failed') {
      throw new RedressError('JOB_WRONG_STATE', `Job ${id} is ${status} now, no longer failed. Nothing was done.`, {
        jobId: id,
      })
    }
    if (retriedAs !== null && retriedAs !== retriedAsSeen) {
      throw alreadyRetried(id, retriedAs, (yield* jobById(tx, retriedAs))?.status ?? null)
    }
    return key
  }

  /**
   * The job itself, or if it was retried before, the failed job that now has its place in the batch. Locked: until
   * the commit it can neither give up its place nor go back to the queue.
   */
  const lockPredecessor = (tx: Tx, id: string) => tx.get<Predecessor>`
    SELECT job_specs.key, batch, (SELECT permanent FROM failures WHERE seq = jobs.failure) AS permanent
    FROM job_specs JOIN jobs ON jobs.key = job_specs.key
    WHERE (id = ${id} OR retried_from = ${id}) AND batch IS NOT NULL AND left_batch IS NULL AND status = 'failed'
    ORDER BY job_specs.key DESC LIMIT 1 ${tx.dialect.choose(LOCK_JOB)}`

  /** Adds a row of `job_specs`, or finds the job that has its id or its dedupe key. */
  const addSpec = function* (
    tx: Tx,
    job: NewJob,
    type: KnownType,
    batch: BatchKey | null,
    dueAtMs: number | null,
    nowMs: number,
  ): Script<JobKey | Submitted> {
    const { dedupe } = job
    // A refused submission takes no key: the corrected one must be able to.
    const holdsKey = dedupe !== null && job.rejected === null
    for (let looks = 0; looks < LOOKS_MAX; looks++) {
      const spec = yield* tx.get<{ key: JobKey }>`
        INSERT INTO job_specs (id, type, payload, owner, created_at, dedupe_key, dedupe_scope, dedupe_held,
          dedupe_until, ttl_until, retried_from, batch, trace)
        VALUES (${job.id}, ${type.key}, ${job.payload}, ${job.owner}, ${nowMs}, ${dedupe?.key ?? null},
          ${dedupe?.scope ?? null}, ${holdsKey ? 1 : null}, ${dedupeUntilMs(job, nowMs)},
          ${job.rejected === null ? expiresAtMsOf(job, dueAtMs, nowMs) : null}, ${job.retriedFrom?.id ?? null}, ${batch},
          ${job.trace ?? null})
        ON CONFLICT DO NOTHING RETURNING key`
      if (spec !== undefined) return spec.key
      const twin = yield* findTwin(tx, job, type)
      if (twin === undefined) continue
      if (!isWindowOver(twin, job, nowMs)) return { id: twin.id, status: twin.status, isNew: false }
      yield* freePastKey(tx, type.key, dedupe?.key ?? '', nowMs)
    }
    throw neverStill()
  }

  /** Counts a new job in its batch: as a new member, or in the place of the job that it was made from. */
  const countInBatch = function* (
    tx: Tx,
    job: NewJob,
    type: KnownType,
    before: Predecessor | undefined,
    nowMs: number,
  ): Script<void> {
    const isRejected = job.rejected !== null
    if (before !== undefined) {
      yield* tx.run`UPDATE job_specs SET left_batch = 1 WHERE key = ${before.key}`
      yield* batches.moved(tx, before.batch, 'failed', 'queued', before.permanent === 1, nowMs)
      if (isRejected) yield* batches.moved(tx, before.batch, 'queued', 'failed', true, nowMs)
    } else if (job.batch !== null) {
      yield* batches.entered(tx, job.batch, type.policy, isRejected ? 'failed' : 'queued', isRejected, nowMs)
    }
  }

  return function* (tx, job, type, dueAtMs, nowMs) {
    const { id, retriedFrom, rejected, imported, priority } = job
    const origin = retriedFrom === null ? null : yield* lockOrigin(tx, job, retriedFrom)
    if (origin !== null && typeof origin !== 'number') return { submitted: origin, key: null }
    const before = retriedFrom === null ? undefined : yield* lockPredecessor(tx, retriedFrom.id)
    const batch = before?.batch ?? (job.batch === null ? null : yield* batches.keyOf(tx, job.batch))
    const key = yield* addSpec(tx, job, type, batch, dueAtMs, nowMs)
    if (typeof key !== 'number') return { submitted: key, key: null }
    const by = originOf(job)
    const act = auditOf(job, nowMs)
    if (act !== null) yield* history.audit(tx, ...act)
    const forwardOnly = sql`(SELECT forward_only FROM job_types WHERE key = ${type.key})`

    if (rejected !== null) {
      const failed = {
        key,
        atMs: nowMs,
        attempt: 0,
        worker: null,
        failure: rejected,
        from: null,
        to: 'failed',
      } as const
      const failure = yield* history.failure(tx, { ...failed, isPermanent: imported === undefined })
      // Attempts of another system do not count against the budget of the policy here.
      const spent = imported === undefined ? packSpent(spendFailure(NOTHING_SPENT, rejected.code)) : null
      const { attempts, deadLetter } = imported ?? NOT_IMPORTED
      const letter = yield* letterMarks.add(tx, key, failure, attempts, deadLetter, nowMs)
      yield* tx.run`
        INSERT INTO jobs (key, type, status, priority, queued_at, finished_at, failure, ended_with, spent, dead_letter,
          forward_only)
        VALUES (${key}, ${type.key}, 'failed', ${priority}, ${nowMs}, ${nowMs}, ${failure}, ${rejected.code},
          ${spent}, ${letter}, ${forwardOnly})`
      const offset = letter === null || letter === 0 ? {} : { deadLetterOffset: letter }
      const data = { ...by, failure, ...offset, ...failedEventData({ failure: rejected, spent }) }
      yield* history.event(tx, key, nowMs, 'failed', 0, null, null, data)
      yield* countInBatch(tx, job, type, before, nowMs)
      yield* history.notify(tx, job.notices, batch, nowMs)
      return { submitted: { id, isNew: true, status: 'failed' }, key }
    }

    // A retry that is refused at once does not count: the failed job and its letter still wait for one.
    if (origin !== null) {
      yield* tx.run`UPDATE job_specs SET retried_as = ${id} WHERE key = ${origin}`
      yield* letterMarks.replayed(tx, origin, id, nowMs)
    }
    yield* tx.run`
      INSERT INTO jobs (key, type, status, priority, queued_at, ready, due_at, counts_from, due_since, limit_key,
        forward_only)
      VALUES (${key}, ${type.key}, 'queued', ${priority}, ${nowMs}, ${dueAtMs === null ? 1 : null},
        ${dueAtMs}, ${dueAtMs}, ${dueAtMs}, ${limitKeyOf(job, type)}, ${forwardOnly})`
    yield* history.event(tx, key, nowMs, 'queued', 0, null, null, dueAtMs === null ? by : { ...by, dueAtMs })
    yield* countInBatch(tx, job, type, before, nowMs)
    return { submitted: { id, isNew: true, status: 'queued' }, key }
  }
}

export const jobById = (tx: Tx, id: string) => tx.get<Twin>`
  SELECT id, status FROM job_specs JOIN jobs ON jobs.key = job_specs.key WHERE id = ${id}`

/** The job with the same id, or else the one that holds the dedupe key. */
const findTwin = (tx: Tx, { id, dedupe }: NewJob, { key: type }: KnownType) => tx.get<TwinRow>`
  SELECT twin.id, status, dedupe_until FROM (
    SELECT key, id, dedupe_until, 1 AS choice FROM job_specs WHERE id = ${id}
    UNION ALL
    SELECT key, id, dedupe_until, 2 FROM job_specs
    WHERE type = ${type} AND dedupe_key = ${dedupe?.key ?? null} AND dedupe_held IS NOT NULL) AS twin
  JOIN jobs ON jobs.key = twin.key ORDER BY choice LIMIT 1`

export interface TwinRow extends Twin {
  dedupe_until: number | null
}

/** Whether the job that holds the dedupe key held it for a time, which is over. */
export const isWindowOver = ({ id, dedupe_until: untilMs }: TwinRow, job: NewJob, nowMs: number): boolean =>
  id !== job.id && untilMs !== null && untilMs <= nowMs

/** Frees a dedupe key whose time is over. It is freed when another job wants it, so that nothing must watch the time. */
export function* freePastKey(tx: Tx, type: number, dedupeKey: string, nowMs: number): Script<void> {
  yield* tx.run`
    UPDATE job_specs SET dedupe_held = NULL
    WHERE type = ${type} AND dedupe_key = ${dedupeKey} AND dedupe_held IS NOT NULL AND dedupe_until <= ${nowMs}`
}

// ---- submissions in a caller's transaction --------------------------------------------------------------------------

export const noTransaction = (cause?: unknown): RedressError =>
  new RedressError('TX_REQUIRED', 'No transaction is open on this connection. Nothing was submitted.', { cause })

export function refuseWriteAhead({ name, policy }: KnownType): void {
  if (policy.audit !== 'write-ahead') return
  const message = `${name} has audit 'write-ahead': its line must be on disk before the job is, and whether your transaction commits is known only after it.`
  throw new RedressError('TX_UNSUPPORTED', message, {
    action: 'Submit it after your transaction has committed, with a dedupe key in case you do so twice.',
  })
}
