import { dueAtMsOf, expiresAtMsOf } from '../../../core/job/merging.ts'
import type { NewJob, Submitted } from '../../contract/store.ts'
import type { Batches } from '../../scripts/batches.ts'
import type { openSubmitSpecial } from '../../scripts/jobs/merging.ts'
import {
  dedupeUntilMs,
  isSpecial,
  isWindowOver,
  limitKeyOf,
  originOf,
  type TwinRow,
} from '../../scripts/jobs/submitting.ts'
import type { KnownType } from '../../scripts/jobs/types.ts'
import { countWaiting, type Savepoint } from '../../scripts/limits/backlog.ts'
import type { Tx } from '../../scripts/tx/context.ts'
import { atOnce, finish, type Script } from '../../scripts/tx/script.ts'
import type { SqliteTx } from '../connection/tx.ts'
import { historyAtOnce, type Types } from './at-once.ts'

/** Submits on the connection of `tx`, inside its transaction. */
export function openSubmitting(
  tx: SqliteTx,
  types: Types,
  batchScripts: Batches,
  submitSpecial: ReturnType<typeof openSubmitSpecial>,
) {
  const { connection } = tx
  const batches = atOnce(tx, batchScripts)
  const { event } = historyAtOnce(tx)
  // DO NOTHING covers both unique keys: the id (a submission repeated after an unknown commit) and the dedupe key.
  const addSpec = connection.prepare(`
    INSERT INTO job_specs (id, type, payload, owner, created_at, dedupe_key, dedupe_scope, dedupe_held, batch, trace)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
  // `forward_only` is read from the table: another process may have declared the type again.
  const addJob = connection.prepare(`
    INSERT INTO jobs (key, type, status, priority, queued_at, ready, due_at, counts_from, due_since, limit_key,
      forward_only)
    VALUES (?1, ?2, 'queued', ?3, ?4, ?5, ?6, ?6, ?6, ?7, (SELECT forward_only FROM job_types WHERE key = ?2))`)
  const findTwin = connection.prepare(`
    SELECT id, status, dedupe_until FROM job_specs JOIN jobs USING (key)
    WHERE id = ?1 OR job_specs.type = ?2 AND dedupe_key = ?3 AND dedupe_held IS NOT NULL
    ORDER BY id = ?1 DESC LIMIT 1`)

  const setTimes = connection.prepare('UPDATE job_specs SET dedupe_until = ?2, ttl_until = ?3 WHERE key = ?1')
  const freePastKey = connection.prepare(`
    UPDATE job_specs SET dedupe_held = NULL
    WHERE type = ? AND dedupe_key = ? AND dedupe_held IS NOT NULL AND dedupe_until <= ?`)

  const submit = (job: NewJob, nowMs: number): Submitted => {
    const type = types.needed(job.type)
    if (isSpecial(job)) return finish(submitSpecial(tx, job, type, nowMs))
    const { id, dedupe } = job
    const [dedupeKey, scope, isHeld] = dedupe === null ? [null, null, null] : [dedupe.key, dedupe.scope, 1]
    const batch = job.batch === null ? null : batches.keyOf(job.batch)
    const { payload, owner, trace = null } = job
    const added = addSpec.run(id, type.key, payload, owner, nowMs, dedupeKey, scope, isHeld, batch, trace)
    if (added.changes === 0) {
      const twin = findTwin.get(id, type.key, dedupeKey) as unknown as TwinRow
      if (isWindowOver(twin, job, nowMs)) {
        freePastKey.run(type.key, dedupeKey, nowMs)
        return submit(job, nowMs)
      }
      return { id: twin.id, isNew: false, status: twin.status }
    }
    const key = Number(added.lastInsertRowid)
    const dueAtMs = dueAtMsOf(job, nowMs)
    if (job.ttlMs !== undefined || dedupe?.forMs !== undefined) {
      setTimes.run(key, dedupeUntilMs(job, nowMs), expiresAtMsOf(job, dueAtMs, nowMs))
    }
    // A delayed job enters the queue when it is due, and is ordered there by its creation time.
    addJob.run(key, type.key, job.priority, nowMs, dueAtMs === null ? 1 : null, dueAtMs, limitKeyOf(job, type))
    const by = originOf(job)
    event(key, nowMs, 'queued', 0, null, null, dueAtMs === null ? by : { ...by, dueAtMs })
    if (job.batch !== null) batches.entered(job.batch, type.policy, 'queued', false, nowMs)
    return { id, isNew: true, status: 'queued' }
  }
  return submit
}

/** An upper bound of the waiting jobs of each type, so that a queue is counted only when it may be full. */
export function openBacklogCount() {
  /** How many waited at most when the event of that number was the newest. */
  const counted = new Map<number, { atMost: number; seq: number }>()

  return {
    /**
     * No job enters the queue without an event. So a count stays an upper bound when the number of events since is added.
     */
    *count(tx: Tx, type: KnownType, max: number): Script<number> {
      const newest = yield* tx.get<{ seq: number }>`SELECT max(seq) AS seq FROM events`
      const seq = newest?.seq ?? 0
      const before = counted.get(type.key)
      const bound = before === undefined ? max + 1 : before.atMost + Math.max(0, seq - before.seq)
      if (bound <= max) return bound
      const atMost = yield* countWaiting(tx, type, max)
      counted.set(type.key, { atMost, seq })
      return atMost
    },

    /** After a rollback, event numbers are given again, so the counts say nothing. */
    forget: (): void => counted.clear(),
  }
}

export const SAVEPOINT: Savepoint = {
  *begin(tx) {
    yield* tx.run`SAVEPOINT submission`
  },
  *undo(tx) {
    yield* tx.run`ROLLBACK TO submission`
  },
  *end(tx) {
    yield* tx.run`RELEASE submission`
  },
}
