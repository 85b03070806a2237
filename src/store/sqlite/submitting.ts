import { NOTHING_SPENT, packSpent, spendFailure } from '../../core/budget.ts'
import type { EventData } from '../../core/events.ts'
import { isLimited } from '../../core/policy.ts'
import type { NewJob, Submitted } from '../store.ts'
import type { Connection } from './connection.ts'
import type { History } from './history.ts'
import type { Types } from './types.ts'

export function openSubmitting(connection: Connection, types: Types, history: History) {
  // DO NOTHING covers both unique keys: the id (a submission repeated after an unknown commit) and the dedupe key.
  const addSpec = connection.prepare(`
    INSERT INTO job_specs (id, type, payload, owner, created_at, dedupe_key, dedupe_scope, dedupe_held, retried_from,
      batch)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
  // The direction is read here and not from what this process knows of the type: another one may have renewed it.
  const isForwardOnly = '(SELECT forward_only FROM job_types WHERE key = ?2)'
  const addJob = connection.prepare(`
    INSERT INTO jobs (key, type, status, priority, queued_at, ready, due_at, limit_key, forward_only)
    VALUES (?1, ?2, 'queued', ?3, ?4, ?5, ?6, ?7, ${isForwardOnly})`)
  const addRejectedJob = connection.prepare(`
    INSERT INTO jobs (key, type, status, priority, queued_at, finished_at, failure, spent, forward_only)
    VALUES (?1, ?2, 'failed', ?3, ?4, ?4, ?5, ?6, ${isForwardOnly})`)
  const findTwin = connection.prepare(`
    SELECT id, status FROM job_specs JOIN jobs USING (key)
    WHERE id = ?1 OR job_specs.type = ?2 AND dedupe_key = ?3 AND dedupe_held IS NOT NULL
    ORDER BY id = ?1 DESC LIMIT 1`)

  return {
    submit(job: NewJob, nowMs: number): Submitted {
      const type = types.needed(job.type)
      const { dedupe } = job
      // A refused submission takes no key: the corrected one must be able to.
      const holdsKey = dedupe !== null && job.rejected === null
      const added = addSpec.run(
        job.id,
        type.key,
        job.payload,
        job.owner,
        nowMs,
        dedupe?.key ?? null,
        dedupe?.scope ?? null,
        holdsKey ? 1 : null,
        job.retriedFrom?.id ?? null,
        null,
      )
      if (added.changes === 0) {
        const twin = findTwin.get(job.id, type.key, dedupe?.key ?? null) as unknown as Omit<Submitted, 'isNew'>
        return { id: twin.id, isNew: false, status: twin.status }
      }
      const key = Number(added.lastInsertRowid)
      const by: EventData | null = job.retriedFrom && { actor: job.retriedFrom.actor, reason: job.retriedFrom.reason }

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
        })
        const spent = packSpent(spendFailure(NOTHING_SPENT, rejected.code))
        addRejectedJob.run(key, type.key, job.priority, nowMs, failure, spent)
        history.event(key, nowMs, 'failed', 0, null, null, {
          ...by,
          failure: failure,
          code: rejected.code,
          spent: spent ?? '',
        })
        return { id: job.id, isNew: true, status: 'failed' }
      }

      const dueAtMs = job.delayMs > 0 ? nowMs + job.delayMs : null
      // A delayed job takes its place in the line when it becomes due, not when it was handed in.
      const limitKey = job.limitKey ?? (isLimited(type.policy) ? '' : null)
      addJob.run(key, type.key, job.priority, dueAtMs ?? nowMs, dueAtMs === null ? 1 : null, dueAtMs, limitKey)
      history.event(key, nowMs, 'queued', 0, null, null, dueAtMs === null ? by : { ...by, dueAtMs })
      return { id: job.id, isNew: true, status: 'queued' }
    },
  }
}
