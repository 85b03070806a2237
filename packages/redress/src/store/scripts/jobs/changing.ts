import type { EventData } from '../../../core/job/events.ts'
import type { JobKey } from '../../contract/store.ts'
import { history } from '../history.ts'
import type { Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'

/** A queued job, as far as a change of it depends on the row. The transaction holds the locks of `LOCK_JOB`. */
export interface WaitingJob {
  key: JobKey
  attempt: number
  due_at: number | null
}

/** Fields that are left out stay as they are. */
export interface WaitingChange {
  /** When it may run; null, or a time that is over: at once. */
  dueAtMs?: number | null
  priority?: number
  /** The caller makes sure that no attempt has begun. A limit key is given as `limitKeyOf` answers. */
  input?: { payload: string; limitKey?: string | null }
}

/**
 * Changes a job that waits, and adds the events of the change. `by` is the beginning of their data: the actor and the reason,
 * or null. Both an act of a person and a submission that replaces a waiting job use it.
 */
export function* changeWaiting(
  tx: Tx,
  job: WaitingJob,
  change: WaitingChange,
  by: EventData | null,
  nowMs: number,
): Script<void> {
  const { key, attempt } = job
  const { priority, input } = change
  const dueAtMs = timeFor(job, change.dueAtMs, nowMs)
  const event = (kind: 'rescheduled' | 'reprioritised' | 'input-replaced', data: EventData): Script<void> =>
    history.event(tx, key, nowMs, kind, attempt, null, null, { ...by, ...data })

  if (dueAtMs !== undefined) yield* moveTo(tx, job, dueAtMs, nowMs)
  if (priority !== undefined) yield* tx.run`UPDATE jobs SET priority = ${priority} WHERE key = ${key}`
  if (input !== undefined) {
    const { payload, limitKey } = input
    yield* tx.run`UPDATE job_specs SET payload = ${payload} WHERE key = ${key}`
    // The row of the job is written also if its limit key stays: on PostgreSQL, a claim that began before this transaction
    // still sees the old input, and leases the job with it unless its row has changed.
    if (limitKey === undefined) yield* tx.run`UPDATE jobs SET limit_key = limit_key WHERE key = ${key}`
    else yield* tx.run`UPDATE jobs SET limit_key = ${limitKey} WHERE key = ${key}`
  }

  const isLater = typeof dueAtMs === 'number'
  if (priority !== undefined) yield* event('reprioritised', { priority })
  if (dueAtMs === null || (isLater && input === undefined)) yield* event('rescheduled', isLater ? { dueAtMs } : {})
  if (input !== undefined) yield* event('input-replaced', isLater ? { dueAtMs } : {})
}

/** undefined: the job stays as it is. One that is due already cannot be made due. */
function timeFor({ due_at: before }: WaitingJob, dueAtMs: WaitingChange['dueAtMs'], nowMs: number) {
  if (dueAtMs === undefined || (dueAtMs !== null && dueAtMs > nowMs)) return dueAtMs
  return before === null || before <= nowMs ? undefined : null
}

/**
 * Before its first attempt, the total time of a job begins when it is due, as after a submission with a delay. Later the total
 * time goes on, but time that a person adds to a backoff is not part of it: the next attempt would begin too late and fail.
 */
function* moveTo(tx: Tx, { key, attempt, due_at: before }: WaitingJob, dueAtMs: number | null, nowMs: number) {
  const sinceMs = dueAtMs ?? nowMs
  const addedMs = Math.max(0, sinceMs - Math.max(before ?? nowMs, nowMs))
  const ready = dueAtMs === null ? 1 : null
  // The time to live counts from when the job is due, so its end moves with that time.
  yield* tx.run`
    UPDATE job_specs SET ttl_until = ttl_until + ${sinceMs}
      - (SELECT coalesce(due_since, queued_at) FROM jobs WHERE jobs.key = job_specs.key)
    WHERE key = ${key} AND ttl_until IS NOT NULL`
  if (attempt === 0) {
    yield* tx.run`
      UPDATE jobs SET ready = ${ready}, due_at = ${dueAtMs}, due_since = ${sinceMs}, counts_from = ${sinceMs}
      WHERE key = ${key}`
  } else {
    yield* tx.run`
      UPDATE jobs SET ready = ${ready}, due_at = ${dueAtMs}, due_since = ${sinceMs},
        counts_from = coalesce(counts_from, queued_at) + ${addedMs} WHERE key = ${key}`
  }
  if (dueAtMs === null) tx.wakeWorkers()
}
