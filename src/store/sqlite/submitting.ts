import { NOTHING_SPENT, packSpent, spendFailure } from '../../core/budget.ts'
import { isCounted } from '../../core/policy.ts'
import type { BatchKey, JobKey, NewJob, RetriedFrom, Submitted } from '../store.ts'
import { auditOf, type Origin, originOf, refuseIfRetried } from '../submission.ts'
import type { Batches } from './batches.ts'
import type { Connection } from './connection.ts'
import type { History } from './history.ts'
import { openLetterMarks } from './letter-marks.ts'
import type { Types } from './types.ts'

/** The failed job whose place in a batch a new one takes. */
interface Predecessor {
  key: JobKey
  batch: BatchKey
  permanent: number | null
}

export function openSubmitting(connection: Connection, types: Types, history: History, batches: Batches) {
  // DO NOTHING covers both unique keys: the id (a submission repeated after an unknown commit) and the dedupe key.
  const addSpec = connection.prepare(`
    INSERT INTO job_specs (id, type, payload, owner, created_at, dedupe_key, dedupe_scope, dedupe_held, retried_from,
      batch, trace)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
  // The direction is read here and not from what this process knows of the type: another one may have renewed it.
  const isForwardOnly = '(SELECT forward_only FROM job_types WHERE key = ?2)'
  const addJob = connection.prepare(`
    INSERT INTO jobs (key, type, status, priority, queued_at, ready, due_at, counts_from, due_since, limit_key,
      forward_only)
    VALUES (?1, ?2, 'queued', ?3, ?4, ?5, ?6, ?6, ?6, ?7, ${isForwardOnly})`)
  const addRejectedJob = connection.prepare(`
    INSERT INTO jobs (key, type, status, priority, queued_at, finished_at, failure, spent, ended_with, forward_only)
    VALUES (?1, ?2, 'failed', ?3, ?4, ?4, ?5, ?6, ?7, ${isForwardOnly})`)
  const findTwin = connection.prepare(`
    SELECT id, status FROM job_specs JOIN jobs USING (key)
    WHERE id = ?1 OR job_specs.type = ?2 AND dedupe_key = ?3 AND dedupe_held IS NOT NULL
    ORDER BY id = ?1 DESC LIMIT 1`)
  const findOrigin = connection.prepare(`
    SELECT jobs.status, retried_as AS retriedAs, (SELECT status FROM job_specs AS made JOIN jobs USING (key)
      WHERE made.id = job_specs.retried_as) AS retriedAsStatus
    FROM job_specs JOIN jobs USING (key) WHERE id = ?`)
  const nameSuccessor = connection.prepare('UPDATE job_specs SET retried_as = ?2 WHERE id = ?1')
  // The job itself, or if it was retried before, the failed job that now has its place in the batch.
  const findPredecessor = connection.prepare(`
    SELECT key, batch, (SELECT permanent FROM failures WHERE seq = jobs.failure) AS permanent
    FROM job_specs JOIN jobs USING (key)
    WHERE (id = ?1 OR retried_from = ?1) AND batch IS NOT NULL AND left_batch IS NULL AND status = 'failed'
    ORDER BY key DESC LIMIT 1`)
  const letters = openLetterMarks(connection)
  const leaveBatch = connection.prepare('UPDATE job_specs SET left_batch = 1 WHERE key = ?')

  /** Counts a job that was just made in its batch: as a new one, or in the place of the one it was made from. */
  const countInBatch = (job: NewJob, before: Predecessor | undefined, nowMs: number): void => {
    const isRejected = job.rejected !== null
    if (before !== undefined) {
      leaveBatch.run(before.key)
      batches.moved(before.batch, 'failed', 'queued', before.permanent === 1, nowMs)
      if (isRejected) batches.moved(before.batch, 'queued', 'failed', true, nowMs)
    } else if (job.batch !== null) {
      const { policy } = types.needed(job.type)
      batches.entered(job.batch, policy, isRejected ? 'failed' : 'queued', isRejected, nowMs)
    }
  }

  /** If several callers retry a failed job at once, only one makes a new job. */
  const checkOrigin = (retriedFrom: RetriedFrom): void => {
    const origin = findOrigin.get(retriedFrom.id) as Origin | undefined
    if (origin !== undefined) refuseIfRetried(origin, retriedFrom)
  }

  return {
    submit(job: NewJob, nowMs: number): Submitted {
      const type = types.needed(job.type)
      const { dedupe, retriedFrom } = job
      if (retriedFrom !== null) {
        // A retry repeated with the same id returns the job that it made, whatever was retried since.
        const made = findTwin.get(job.id, null, null) as Omit<Submitted, 'isNew'> | undefined
        if (made !== undefined) return { id: made.id, isNew: false, status: made.status }
        checkOrigin(retriedFrom)
      }
      // A refused submission takes no key: the corrected one must be able to.
      const holdsKey = dedupe !== null && job.rejected === null
      const before = retriedFrom === null ? undefined : (findPredecessor.get(retriedFrom.id) as Predecessor | undefined)
      const batch = before?.batch ?? (job.batch === null ? null : batches.keyOf(job.batch))
      const added = addSpec.run(
        job.id,
        type.key,
        job.payload,
        job.owner,
        nowMs,
        dedupe?.key ?? null,
        dedupe?.scope ?? null,
        holdsKey ? 1 : null,
        retriedFrom?.id ?? null,
        batch,
        job.trace ?? null,
      )
      if (added.changes === 0) {
        const twin = findTwin.get(job.id, type.key, dedupe?.key ?? null) as unknown as Omit<Submitted, 'isNew'>
        return { id: twin.id, isNew: false, status: twin.status }
      }
      const key = Number(added.lastInsertRowid)
      const by = originOf(job)
      const act = auditOf(job, nowMs)
      if (act !== null) history.audit(...act)
      // A retry that is refused at once does not count: the failed job and its letter still wait for one.
      if (retriedFrom !== null && job.rejected === null) {
        nameSuccessor.run(retriedFrom.id, job.id)
        letters.replayed(retriedFrom.id, job.id, nowMs)
      }

      if (job.rejected !== null) {
        const { rejected } = job
        const failure = history.failure({
          key,
          atMs: nowMs,
          attempt: 0,
          worker: null,
          failure: rejected,
          from: null,
          to: 'failed',
          isPermanent: true,
        })
        const spent = packSpent(spendFailure(NOTHING_SPENT, rejected.code))
        addRejectedJob.run(key, type.key, job.priority, nowMs, failure, spent, rejected.code)
        history.event(key, nowMs, 'failed', 0, null, null, {
          ...by,
          failure: failure,
          code: rejected.code,
          spent: spent ?? '',
        })
        countInBatch(job, before, nowMs)
        history.tell(job.notices, batch, nowMs)
        return { id: job.id, isNew: true, status: 'failed' }
      }

      const dueAtMs = job.delayMs > 0 ? nowMs + job.delayMs : null
      // A delayed job enters the queue when it is due, and is ordered there by its creation time.
      const limitKey = job.limitKey ?? (isCounted(type.policy) ? '' : null)
      addJob.run(key, type.key, job.priority, nowMs, dueAtMs === null ? 1 : null, dueAtMs, limitKey)
      history.event(key, nowMs, 'queued', 0, null, null, dueAtMs === null ? by : { ...by, dueAtMs })
      countInBatch(job, before, nowMs)
      return { id: job.id, isNew: true, status: 'queued' }
    },
  }
}
