import { asForwardOnly, storedPolicy } from '../../core/policy/policy.ts'
import type { JobFacts, OrphanFact } from '../contract/doctor.ts'
import type { Tx } from './tx/context.ts'
import type { Script } from './tx/script.ts'

type Extent = JobFacts['orphans']

interface SilentRow extends OrphanFact {
  orphaned_at: number | null
  policy: string
  forward_only: number
}

/** The facts about jobs, workers, queues, breakers and notices. The transaction of `tx` only reads. */
export function* readJobFacts(tx: Tx, nowMs: number): Script<JobFacts> {
  const now = Math.floor(nowMs)
  // Also jobs that became due and that no claim has noticed yet.
  const types = yield* tx.all<JobFacts['types'][number]>`
    SELECT job_types.name AS type, job_types.queue, count(since) AS ready, min(since) AS "oldestReadyAtMs"
    FROM job_types LEFT JOIN (
      SELECT type, coalesce(due_since, queued_at) AS since FROM jobs WHERE ready IS NOT NULL
      UNION ALL
      SELECT type, due_at FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL AND due_at <= ${now}) AS waiting
      ON waiting.type = job_types.key
    GROUP BY job_types.name, job_types.queue ORDER BY job_types.name`
  const workers = yield* tx.all<Omit<JobFacts['workers'][number], 'types'> & { types: string }>`
    SELECT id, types, seen_at AS "seenAtMs", stopped_at AS "stoppedAtMs" FROM workers ORDER BY key`
  const orphans = yield* tx.get<Extent>`
    SELECT count(*) AS count, min(orphaned_at) AS "oldestAtMs" FROM jobs
    WHERE orphaned_at IS NOT NULL AND lease_until IS NOT NULL`
  const expired = yield* tx.get<Extent>`
    SELECT count(*) AS count, min(lease_until) AS "oldestAtMs" FROM jobs
    WHERE lease_until IS NOT NULL AND orphaned_at IS NULL AND lease_until <= ${now}`
  const silent = yield* tx.all<SilentRow>`
    SELECT job_specs.id, job_types.name AS type, workers.id AS worker, lease_until AS "silentSinceMs", orphaned_at,
      job_types.policy, jobs.forward_only
    FROM jobs JOIN job_specs ON job_specs.key = jobs.key JOIN job_types ON job_types.key = jobs.type
      JOIN workers ON workers.key = jobs.worker
    WHERE lease_until IS NOT NULL AND (orphaned_at IS NOT NULL OR lease_until <= ${now}) ORDER BY lease_until, jobs.key`
  const paused = yield* tx.all<JobFacts['paused'][number]>`
    SELECT name AS queue, paused_by AS by, paused_reason AS reason, paused_at AS "atMs", resume_at AS "untilMs" FROM queues
    WHERE resume_at IS NULL OR resume_at > ${now} ORDER BY name`
  const breakers = yield* tx.all<JobFacts['breakers'][number]>`
    SELECT name, CASE WHEN forced THEN forced_status ELSE status END AS status,
      CASE WHEN forced THEN forced_reason ELSE reason END AS reason, CASE WHEN forced THEN forced_at ELSE since END AS "sinceMs",
      CASE WHEN forced THEN forced_by END AS "forcedBy"
    FROM (SELECT breakers.*, forced_status IS NOT NULL AND (forced_until IS NULL OR forced_until > ${now}) AS forced
      FROM breakers) AS standing ORDER BY name`
  const waits = yield* tx.all<JobFacts['waits'][number]>`
    SELECT notice_waits.channel, count(*) AS notices, min(notices.at) AS "oldestAtMs"
    FROM notice_waits JOIN notices ON notices.seq = notice_waits.notice GROUP BY notice_waits.channel ORDER BY 1`
  return {
    nowMs,
    types,
    workers: workers.map((row) => ({ ...row, types: JSON.parse(row.types) as string[] })),
    orphans: orphans as Extent,
    orphaned: silent
      .filter(waitsForPerson)
      .map(({ id, type, worker, silentSinceMs }) => ({ id, type, worker, silentSinceMs })),
    expired: expired as Extent,
    paused,
    breakers,
    waits,
  }
}

function waitsForPerson({ orphaned_at, policy, forward_only }: SilentRow): boolean {
  if (orphaned_at !== null) return true
  const stored = storedPolicy(JSON.parse(policy))
  return (forward_only === 1 ? asForwardOnly(stored) : stored).orphan.action === 'report'
}
