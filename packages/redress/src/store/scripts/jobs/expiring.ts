import type { Status } from '../../../core/job/states.ts'
import type { JobKey, Store } from '../../contract/store.ts'
import type { ScriptContext } from '../tx/context.ts'
import { freeLiveKey } from './intervening.ts'

/** The files of a job are kept for a time. Their removal is part of the job's history. */
export function openExpiring({ history, write }: ScriptContext): Pick<Store, 'expire'> {
  return {
    expire: ({ id, reason }) =>
      write('noting what expired', function* (tx, nowMs) {
        // Locked: of two processes that remove the same file, one writes the event.
        const job = yield* tx.get<{ key: JobKey; status: Status; attempt: number }>`
          SELECT key, status, attempt FROM jobs
          WHERE key = (SELECT job_specs.key FROM job_specs WHERE id = ${id}) AND finished_at IS NOT NULL
          ${tx.dialect.forUpdate}`
        if (job === undefined) return false
        const { key, status, attempt } = job
        const events = yield* tx.all<{ data: string }>`SELECT data FROM events WHERE job = ${key} AND kind = 'expired'`
        if (events.some(({ data }) => JSON.parse(data).reason === reason)) return false
        yield* history.event(tx, key, nowMs, 'expired', attempt, null, null, { reason, status })
        yield* freeLiveKey(tx, key)
        return true
      }),
  }
}
