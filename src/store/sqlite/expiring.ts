import type { Status } from '../../core/states.ts'
import type { Expiry, JobKey } from '../store.ts'
import type { Closing } from './closing.ts'
import type { Connection } from './connection.ts'
import type { History } from './history.ts'

/** What a job needed or made is kept for a time; that it is gone is part of the job's history. */
export function openExpiring(connection: Connection, history: History, closing: Closing) {
  const select = connection.prepare(
    'SELECT key, status, attempt FROM job_specs JOIN jobs USING (key) WHERE id = ? AND finished_at IS NOT NULL',
  )
  const isTold = connection.prepare(`SELECT 1 FROM events WHERE job = ? AND kind = 'expired' AND data ->> 'reason' = ?`)

  return {
    expire({ id, reason }: Expiry, nowMs: number): boolean {
      const job = select.get(id) as { key: JobKey; status: Status; attempt: number } | undefined
      if (job === undefined || isTold.get(job.key, reason) !== undefined) return false
      history.event(job.key, nowMs, 'expired', job.attempt, null, null, { reason, status: job.status })
      closing.freeDedupeKey(job.key)
      return true
    },
  }
}
