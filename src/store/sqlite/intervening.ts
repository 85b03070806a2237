import { triesOfTask } from '../../core/budget.ts'
import type { Status } from '../../core/states.ts'
import { OPERATION_OF, type StandingRow, standsAsSeen } from '../intervention.ts'
import type { Intervention } from '../store.ts'
import type { Batches } from './batches.ts'
import type { Closing } from './closing.ts'
import type { Connection } from './connection.ts'
import type { History } from './history.ts'
import { openLetterMarks } from './letter-marks.ts'

/** A person's acts. Unlike a worker's they have no lease; they are compared with what that person saw. */
export function openIntervening(connection: Connection, history: History, closing: Closing, batches: Batches) {
  const select = connection.prepare(`
    SELECT key, status, attempt, worker, cancel_requested_at, dedupe_key, dedupe_held, jobs.type, spent, retried_as,
      CASE WHEN left_batch IS NULL THEN batch END AS batch,
      (SELECT permanent FROM failures WHERE seq = jobs.failure) AS permanent
    FROM job_specs JOIN jobs USING (key) WHERE id = ?`)
  const isKeyTaken = connection.prepare(
    'SELECT 1 FROM job_specs WHERE type = ? AND dedupe_key = ? AND dedupe_held IS NOT NULL',
  )
  const takeKey = connection.prepare('UPDATE job_specs SET dedupe_held = 1 WHERE key = ? AND dedupe_key IS NOT NULL')
  const forgetSuccessor = connection.prepare(
    'UPDATE job_specs SET retried_as = NULL WHERE key = ? AND retried_as IS NOT NULL',
  )
  const requeue = connection.prepare(`
    UPDATE jobs SET status = 'queued', ready = 1, due_at = NULL, counts_from = ?2, due_since = ?2, claimed_at = NULL,
      started_at = NULL,
      finished_at = NULL, failure = NULL, ended_with = NULL, dead_letter = NULL, progress = NULL,
      cancel_requested_at = NULL, orphaned_at = NULL, spent = ?3 WHERE key = ?1`)
  const fail = connection.prepare(`
    UPDATE jobs SET status = 'failed', ready = NULL, due_at = NULL, worker = NULL, lease_until = NULL, finished_at = ?2,
      failure = ?3, spent = ?4, dead_letter = ?5, ended_with = ?6 WHERE key = ?1`)
  const cancel = connection.prepare(`
    UPDATE jobs SET status = 'cancelled', ended_with = '', ready = NULL, due_at = NULL, finished_at = ?2 WHERE key = ?1`)
  const letters = openLetterMarks(connection)
  const requestCancel = connection.prepare('UPDATE jobs SET cancel_requested_at = ?2 WHERE key = ?1')

  return {
    intervene(intervention: Intervention, nowMs: number): 'done' | 'moved-on' | 'dedupe-taken' {
      const { id, act, actor, reason } = intervention
      const row = select.get(id) as StandingRow | undefined
      if (row === undefined || !standsAsSeen(row, intervention)) return 'moved-on'
      const { key, attempt, worker } = row
      const by = { actor, reason }
      const move = (to: Status, isPermanent: boolean) => {
        if (row.batch !== null) batches.moved(row.batch, row.status, to, isPermanent, nowMs)
      }
      const done = () => {
        history.audit(by, { atMs: nowMs, act: OPERATION_OF[act.kind], target: 'job', ids: [id] })
        return 'done' as const
      }

      switch (act.kind) {
        case 'retry-in-place': {
          const needsKey = row.dedupe_key !== null && row.dedupe_held === null
          if (needsKey && isKeyTaken.get(row.type, row.dedupe_key) !== undefined) return 'dedupe-taken'
          takeKey.run(key)
          // The failure that a new job was made from is history now.
          forgetSuccessor.run(key)
          history.event(key, nowMs, 'manual-retry', attempt, null, null, { ...by, spent: act.spent ?? '' })
          requeue.run(key, nowMs, act.spent)
          letters.replayed(key, id, nowMs)
          move('queued', row.permanent === 1)
          return done()
        }
        case 'mark-failed': {
          const failure = history.failure({
            key,
            atMs: nowMs,
            attempt,
            worker,
            failure: act.failure,
            from: row.status,
            to: 'failed',
            isPermanent: true,
          })
          const letter = closing.setAside(key, failure, triesOfTask(attempt, act.spent), act.deadLetter, nowMs)
          history.event(key, nowMs, 'failed', attempt, worker, null, {
            ...by,
            failure,
            code: act.failure.code,
            spent: act.spent ?? '',
            ...(letter ? { deadLetterOffset: letter } : {}),
          })
          fail.run(key, nowMs, failure, act.spent, letter, act.failure.code)
          closing.freeDedupeKey(key)
          move('failed', true)
          history.tell(act.notices, row.batch, nowMs)
          return done()
        }
        case 'cancel':
          history.event(key, nowMs, 'cancelled', attempt, null, null, by)
          cancel.run(key, nowMs)
          closing.freeDedupeKey(key)
          move('cancelled', false)
          return done()
        case 'request-cancel':
          if (row.cancel_requested_at !== null) return done()
          history.event(key, nowMs, 'cancel-requested', attempt, worker, null, by)
          requestCancel.run(key, nowMs)
          return done()
      }
    },
  }
}
