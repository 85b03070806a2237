import type { Cancellation, Stalled, Store, WorkerKey } from '../store.ts'
import { numbers, texts } from './arrays.ts'
import type { Sql } from './client.ts'
import type { PgContext } from './context.ts'

interface StalledRow {
  key: number
  type: string
  attempt: number
  lease_until: number
  claimed_at: number
  started_at: number | null
  queued_at: number
  spent: string | null
  cancel_requested_at: number | null
  forward_only: number
  id: string
  owner: string | null
  created_at: number
  retried_from: string | null
  worker_id: string
}

/** What is asked again and again about jobs in workers' hands: whom to take them from, and whom to tell to stop. */
export function openStalled({ read }: PgContext) {
  return {
    stalled: ({ unstartedForMs, stuck = [], limit }: Parameters<Store['stalled']>[0]): Promise<Stalled[]> =>
      read('looking for stalled jobs', async (sql, clock) => {
        const nowMs = await clock()
        const stuckTypes = texts(stuck.map(({ type }) => type))
        const startedBefore = numbers(stuck.map(({ startedForMs }) => nowMs - startedForMs))
        const rows = await sql<StalledRow[]>`
          SELECT jobs.key, job_types.name AS type, attempt, lease_until, claimed_at, jobs.started_at,
            greatest(counts_from, queued_at) AS queued_at, spent,
            cancel_requested_at, jobs.forward_only, job_specs.id, job_specs.owner, job_specs.created_at,
            job_specs.retried_from, workers.id AS worker_id
          FROM jobs JOIN job_specs ON job_specs.key = jobs.key JOIN workers ON workers.key = jobs.worker
            JOIN job_types ON job_types.key = jobs.type
          WHERE lease_until IS NOT NULL AND orphaned_at IS NULL
            AND (lease_until <= ${nowMs} OR jobs.started_at IS NULL AND claimed_at <= ${nowMs - unstartedForMs} OR EXISTS (
              SELECT 1 FROM unnest(${stuckTypes}::text[], ${startedBefore}::bigint[]) AS stuck (type, before)
              WHERE stuck.type = job_types.name AND jobs.started_at <= stuck.before))
          ORDER BY lease_until, jobs.key LIMIT ${limit}`
        return rows.map((row) => ({
          key: row.key,
          id: row.id,
          type: row.type,
          attempt: row.attempt,
          worker: row.worker_id,
          leaseUntilMs: row.lease_until,
          claimedAtMs: row.claimed_at,
          startedAtMs: row.started_at,
          queuedAtMs: row.queued_at,
          createdAtMs: row.created_at,
          owner: row.owner,
          retriedFrom: row.retried_from,
          spent: row.spent,
          isExpired: row.lease_until <= nowMs,
          isCancelRequested: row.cancel_requested_at !== null,
          isForwardOnly: row.forward_only === 1,
          nowMs,
        }))
      }),

    cancellations: ({ worker }: { worker: WorkerKey }): Promise<Cancellation[]> =>
      read('looking for cancellations', (sql) => cancelledOf(sql, worker), { isImpatient: true }),
  }
}

async function cancelledOf(sql: Sql, worker: WorkerKey): Promise<Cancellation[]> {
  const rows = await sql<{ key: number; attempt: number; data: string | null }[]>`
    SELECT key, attempt, (
      SELECT data FROM events WHERE events.job = jobs.key AND kind = 'cancel-requested' ORDER BY seq DESC LIMIT 1
    ) AS data
    FROM jobs
    WHERE lease_until IS NOT NULL AND orphaned_at IS NULL AND cancel_requested_at IS NOT NULL AND worker = ${worker}`
  return rows.map(({ key, attempt, data }) => {
    const by = data === null ? { actor: '', reason: '' } : (JSON.parse(data) as { actor: string; reason: string })
    return { key, attempt, actor: by.actor, reason: by.reason }
  })
}
