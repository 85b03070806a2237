import { asForwardOnly, storedPolicy } from '../core/policy.ts'
import type { JobFacts } from './doctor.ts'
import type { Row } from './rows.ts'

/** The same on every driver: both have these tables and understand these statements. */
export async function readJobFacts(all: (sql: string) => Promise<Row[]>, nowMs: number): Promise<JobFacts> {
  const now = Math.floor(nowMs)
  const ready = await all(`
    SELECT job_types.name, job_types.queue, count(jobs.key) AS jobs, min(coalesce(jobs.due_since, jobs.queued_at)) AS oldest
    FROM job_types LEFT JOIN jobs ON jobs.type = job_types.key AND jobs.ready IS NOT NULL
    GROUP BY job_types.name, job_types.queue ORDER BY job_types.name`)
  // Their time has come, and nobody has noticed yet.
  const due = await all(`
    SELECT job_types.name, count(*) AS jobs, min(jobs.due_at) AS oldest
    FROM jobs JOIN job_types ON job_types.key = jobs.type
    WHERE jobs.due_at IS NOT NULL AND jobs.ready IS NULL AND jobs.due_at <= ${now} GROUP BY job_types.name`)
  const workers = await all(`SELECT id, types, seen_at, stopped_at FROM workers ORDER BY key`)
  const [orphans] = await all(
    `SELECT count(*) AS jobs, min(orphaned_at) AS oldest FROM jobs WHERE orphaned_at IS NOT NULL AND lease_until IS NOT NULL`,
  )
  const [expired] = await all(`
    SELECT count(*) AS jobs, min(lease_until) AS oldest FROM jobs
    WHERE lease_until IS NOT NULL AND orphaned_at IS NULL AND lease_until <= ${now}`)
  const silent = await all(`
    SELECT job_specs.id, job_types.name, job_types.policy, jobs.forward_only, workers.id AS worker, lease_until, orphaned_at
    FROM jobs JOIN job_specs ON job_specs.key = jobs.key JOIN job_types ON job_types.key = jobs.type
      JOIN workers ON workers.key = jobs.worker
    WHERE lease_until IS NOT NULL AND (orphaned_at IS NOT NULL OR lease_until <= ${now}) ORDER BY lease_until, jobs.key`)
  const paused = await all(`
    SELECT name, paused_by, paused_reason, paused_at, resume_at FROM queues
    WHERE resume_at IS NULL OR resume_at > ${now} ORDER BY name`)
  const breakers = await all(`
    SELECT name, CASE WHEN forced_status IS NOT NULL AND (forced_until IS NULL OR forced_until > ${now})
        THEN forced_status ELSE status END AS stands, reason, since,
      CASE WHEN forced_until IS NULL OR forced_until > ${now} THEN forced_by END AS by_whom,
      forced_reason, forced_at
    FROM breakers ORDER BY name`)
  const waits = await all(`
    SELECT notice_waits.channel, count(*) AS notices, min(notices.at) AS oldest
    FROM notice_waits JOIN notices ON notices.seq = notice_waits.notice GROUP BY notice_waits.channel ORDER BY 1`)
  return {
    nowMs,
    types: ready.map((row) => {
      const late = due.find(({ name }) => name === row.name)
      return {
        type: text(row.name),
        queue: text(row.queue),
        ready: count(row.jobs) + count(late?.jobs),
        oldestReadyAtMs: earlier(row.oldest, late?.oldest),
      }
    }),
    workers: workers.map((row) => ({
      id: text(row.id),
      types: JSON.parse(text(row.types)) as string[],
      seenAtMs: Number(row.seen_at),
      stoppedAtMs: orNull(row.stopped_at),
    })),
    orphans: { count: count(orphans?.jobs), oldestAtMs: orNull(orphans?.oldest) },
    orphaned: silent.filter(waitsForPerson).map((row) => ({
      id: text(row.id),
      type: text(row.name),
      worker: text(row.worker),
      silentSinceMs: Number(row.lease_until),
    })),
    expired: { count: count(expired?.jobs), oldestAtMs: orNull(expired?.oldest) },
    paused: paused.map((row) => ({
      queue: text(row.name),
      by: text(row.paused_by),
      reason: text(row.paused_reason),
      atMs: Number(row.paused_at),
      untilMs: orNull(row.resume_at),
    })),
    breakers: breakers.map((row) => ({
      name: text(row.name),
      status: text(row.stands),
      reason: text(row.by_whom === null ? row.reason : row.forced_reason),
      sinceMs: Number(row.by_whom === null ? row.since : row.forced_at),
      forcedBy: row.by_whom === null ? null : text(row.by_whom),
    })),
    waits: waits.map((row) => ({
      channel: text(row.channel),
      notices: count(row.notices),
      oldestAtMs: Number(row.oldest),
    })),
  }
}

function waitsForPerson({ orphaned_at, policy, forward_only }: Row): boolean {
  if (orphaned_at !== null) return true
  const stored = storedPolicy(JSON.parse(text(policy)))
  return (Number(forward_only) === 1 ? asForwardOnly(stored) : stored).orphan.action === 'report'
}

const text = (value: unknown): string => String(value ?? '')
const count = (value: unknown): number => Number(value ?? 0)
const orNull = (value: unknown): number | null => (value === null || value === undefined ? null : Number(value))

function earlier(one: unknown, other: unknown): number | null {
  const times = [orNull(one), orNull(other)].filter((ms) => ms !== null)
  return times.length === 0 ? null : Math.min(...times)
}
