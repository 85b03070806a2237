import type { Stalled, Store, StoredWorker } from '../contract/store.ts'
import { parse } from './jobs/rows.ts'
import type { ScriptContext } from './tx/context.ts'

type WorkerStore = Pick<Store, 'enlist' | 'serve' | 'dismiss' | 'workers' | 'stalled' | 'cancellations'>

interface StalledRow extends Omit<Stalled, 'type' | 'isCancelRequested' | 'isForwardOnly' | 'isExpired' | 'nowMs'> {
  type_key: number
  cancel_requested_at: number | null
  forward_only: number
}

/** The workers, the jobs that they lost, and the jobs that they must stop. */
export function openWorkers({ types, write, read }: ScriptContext): WorkerStore {
  return {
    enlist: ({ id, host, pid, types: served }) =>
      write(
        'enlisting a worker',
        function* (tx, nowMs) {
          // A worker with a configured name has the same name after a restart.
          const row = yield* tx.get<{ key: number }>`
            INSERT INTO workers (id, host, pid, started_at, seen_at, types)
            VALUES (${id}, ${host}, ${pid}, ${nowMs}, ${nowMs}, ${JSON.stringify(served)})
            ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, started_at = excluded.started_at,
              seen_at = excluded.seen_at, types = excluded.types, stopped_at = NULL
            RETURNING key`
          return (row as { key: number }).key
        },
        { mayRepeat: true },
      ),

    serve: ({ worker, types: served }) =>
      write(
        'listing the types of a worker',
        function* (tx) {
          yield* tx.run`UPDATE workers SET types = ${JSON.stringify(served)} WHERE key = ${worker}`
        },
        { mayRepeat: true, isImpatient: true },
      ),

    dismiss: ({ worker }) =>
      write(
        'dismissing a worker',
        function* (tx, nowMs) {
          yield* tx.run`UPDATE workers SET seen_at = ${nowMs}, stopped_at = ${nowMs} WHERE key = ${worker}`
        },
        // A worker that stops does not wait for the server: its silence has the same effect.
        { isImpatient: true },
      ),

    workers: () =>
      read('reading workers', function* (tx) {
        const rows = yield* tx.all<Omit<StoredWorker, 'types'> & { types: string }>`
          SELECT id, host, pid, types, started_at AS "startedAtMs", seen_at AS "seenAtMs", stopped_at AS "stoppedAtMs"
          FROM workers ORDER BY key`
        return rows.map((row) => ({ ...row, types: JSON.parse(row.types) as string[] }))
      }),

    stalled: ({ unstartedForMs, stuck = [], limit }) =>
      read('looking for stalled jobs', function* (tx) {
        const nowMs = yield* tx.now()
        const stuckTypes = stuck.map(({ type, startedForMs }) => ({ type, before: nowMs - startedForMs }))
        const rows = yield* tx.all<StalledRow>`
          SELECT jobs.key, jobs.type AS type_key, jobs.attempt, job_specs.id, job_specs.owner, spent, workers.id AS worker,
            lease_until AS "leaseUntilMs", claimed_at AS "claimedAtMs", jobs.started_at AS "startedAtMs",
            CASE WHEN counts_from > queued_at THEN counts_from ELSE queued_at END AS "queuedAtMs",
            job_specs.created_at AS "createdAtMs", job_specs.retried_from AS "retriedFrom", cancel_requested_at,
            jobs.forward_only
          FROM jobs JOIN job_specs ON job_specs.key = jobs.key JOIN workers ON workers.key = jobs.worker
          WHERE lease_until IS NOT NULL AND orphaned_at IS NULL
            AND (lease_until <= ${nowMs} OR jobs.started_at IS NULL AND claimed_at <= ${nowMs - unstartedForMs}
              OR EXISTS (
                SELECT 1 FROM ${tx.dialect.table({ type: 'text', before: 'bigint' }, stuckTypes)} AS stuck
                  JOIN job_types ON job_types.name = stuck.type
                WHERE job_types.key = jobs.type AND jobs.started_at <= stuck.before))
          ORDER BY lease_until, jobs.key LIMIT ${limit}`
        const stalled: Stalled[] = []
        for (const { type_key, cancel_requested_at, forward_only, ...row } of rows) {
          stalled.push({
            ...row,
            type: (yield* types.byKey(tx, type_key)).name,
            isExpired: row.leaseUntilMs <= nowMs,
            isCancelRequested: cancel_requested_at !== null,
            isForwardOnly: forward_only === 1,
            nowMs,
          })
        }
        return stalled
      }),

    cancellations: ({ worker }) =>
      read(
        'looking for cancellations',
        function* (tx) {
          const rows = yield* tx.all<{ key: number; attempt: number; data: string | null }>`
            SELECT key, attempt, (
              SELECT data FROM events WHERE events.job = jobs.key AND kind = 'cancel-requested' ORDER BY seq DESC LIMIT 1
            ) AS data
            FROM jobs WHERE lease_until IS NOT NULL AND orphaned_at IS NULL AND cancel_requested_at IS NOT NULL
              AND worker = ${worker}`
          return rows.map(({ key, attempt, data }) => {
            const { actor, reason } = parse(data, { actor: '', reason: '' })
            return { key, attempt, actor, reason }
          })
        },
        { isImpatient: true },
      ),
  }
}
