import type { Status } from '../../core/states.ts'
import type { Expiry, JobKey } from '../store.ts'
import type { Closing } from './closing.ts'
import type { PgContext } from './context.ts'
import { printable } from './text.ts'

/** What a job needed or made is kept for a time; that it is gone is part of the job's history. */
export function openExpiring({ history, write }: PgContext, closing: Closing) {
  return {
    expire: ({ id, reason }: Expiry): Promise<boolean> =>
      write('noting what expired', async (tx, nowMs) => {
        // Locked, so that of two processes that remove the same file one tells.
        const [job] = await tx<{ key: JobKey; status: Status; attempt: number }[]>`
          SELECT jobs.key, status, attempt FROM job_specs JOIN jobs ON jobs.key = job_specs.key
          WHERE job_specs.id = ${id} AND finished_at IS NOT NULL FOR UPDATE OF jobs`
        if (job === undefined) return false
        const told = await tx`
          SELECT 1 FROM events WHERE job = ${job.key} AND kind = 'expired' AND data::json ->> 'reason' = ${printable(reason)}`
        if (told.length > 0) return false
        await history.event(tx, job.key, nowMs, 'expired', job.attempt, null, null, { reason, status: job.status })
        await closing.freeDedupeKey(tx, job.key)
        return true
      }),
  }
}
