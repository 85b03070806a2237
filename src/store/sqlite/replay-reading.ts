import type { ReplayStanding, ReplayState } from '../../core/bulk-replay.ts'
import type { SkipCode } from '../../core/replay-obstacle.ts'
import type { Status } from '../../core/states.ts'
import type { ReplayCounts, ReplayItemState, StoredReplay, StoredReplayItem } from '../replays.ts'
import type { Connection } from './connection.ts'

export interface ReplayRow {
  key: number
  id: string
  state: ReplayState
  why: string
  selection: string
  patch: string | null
  per_second: number | null
  canary: number
  canary_failures_max: number
  canary_over: number
  actor: string
  reason: string
  started_by: string | null
  started_reason: string | null
  total: number
  submitted: number
  skipped: number
  created_at: number
  started_at: number | null
  ended_at: number | null
  anchor: number
  sent: number
}

/** What core decides the next step from. */
export function standingOf(row: ReplayRow): ReplayStanding {
  return {
    state: row.state,
    canary: row.canary,
    canaryFailuresMax: row.canary_failures_max,
    isCanaryOver: row.canary_over === 1,
    perSecond: row.per_second,
    submitted: row.submitted,
    waiting: row.total - row.submitted - row.skipped,
    pace: { anchorMs: row.anchor, sent: row.sent },
  }
}

export function toReplay(row: ReplayRow): StoredReplay {
  const { started_by, started_reason } = row
  return {
    key: row.key,
    id: row.id,
    state: row.state,
    why: row.why,
    selection: JSON.parse(row.selection),
    patch: row.patch,
    perSecond: row.per_second,
    canary: row.canary,
    canaryFailuresMax: row.canary_failures_max,
    isCanaryOver: row.canary_over === 1,
    plannedBy: { actor: row.actor, reason: row.reason },
    startedBy: started_by === null ? null : { actor: started_by, reason: started_reason ?? '' },
    total: row.total,
    submitted: row.submitted,
    skipped: row.skipped,
    createdAtMs: row.created_at,
    startedAtMs: row.started_at,
    endedAtMs: row.ended_at,
  }
}

interface ItemRow {
  position: number
  offset: number
  type: string
  state: ReplayItemState
  skip_code: SkipCode | null
  why: string | null
  job: string
  status: Status | null
}

/** What a replay came to so far. */
export function openReplayReading(connection: Connection) {
  const jobsByStatus = connection.prepare(`
    SELECT jobs.status, count(*) AS n FROM replay_items LEFT JOIN job_specs ON job_specs.id = replay_items.job
      LEFT JOIN jobs ON jobs.key = job_specs.key
    WHERE replay = ? AND state = 'submitted' GROUP BY jobs.status`)
  const skipped = connection.prepare(`
    SELECT skip_code AS code, count(*) AS n FROM replay_items WHERE replay = ? AND state = 'skipped'
    GROUP BY skip_code ORDER BY n DESC, code`)
  const waiting = connection.prepare(`
    SELECT type, count(*) AS n FROM replay_items WHERE replay = ? AND state = 'waiting'
    GROUP BY type ORDER BY n DESC, type`)
  const items = connection.prepare(`
    SELECT position, "offset", replay_items.type, state, skip_code, why, job, jobs.status
    FROM replay_items LEFT JOIN job_specs ON job_specs.id = replay_items.job
      LEFT JOIN jobs ON jobs.key = job_specs.key
    WHERE replay = ?1 AND position > ?2 AND (?3 IS NULL OR state = ?3) ORDER BY position LIMIT ?4`)

  const jobsOf = (key: number): ReplayCounts['jobs'] => {
    const jobs = { queued: 0, processing: 0, complete: 0, failed: 0, cancelled: 0, gone: 0 }
    for (const { status, n } of jobsByStatus.all(key) as { status: Status | null; n: number }[]) {
      jobs[status ?? 'gone'] = n
    }
    return jobs
  }

  return {
    jobsOf,

    list(params: { state?: ReplayState; beforeKey?: number; limit: number }): StoredReplay[] {
      const { state = null, beforeKey = Number.MAX_SAFE_INTEGER, limit } = params
      const sql = 'SELECT * FROM replays WHERE key < ?1 AND (?2 IS NULL OR state = ?2) ORDER BY key DESC LIMIT ?3'
      return (connection.prepare(sql).all(beforeKey, state, limit) as unknown as ReplayRow[]).map(toReplay)
    },

    items(
      key: number,
      { state, afterPosition, limit }: { state?: ReplayItemState; afterPosition: number; limit: number },
    ): StoredReplayItem[] {
      const rows = items.all(key, afterPosition, state ?? null, limit) as unknown as ItemRow[]
      return rows.map(({ skip_code, why, ...row }) => ({
        ...row,
        skip: skip_code === null ? null : { code: skip_code, why: why ?? '' },
      }))
    },

    counts(key: number): ReplayCounts {
      const skips = skipped.all(key) as { code: SkipCode; n: number }[]
      const waits = waiting.all(key) as { type: string; n: number }[]
      return {
        skipped: skips.map(({ code, n }) => ({ code, letters: n })),
        waiting: waits.map(({ type, n }) => ({ type, letters: n })),
        jobs: jobsOf(key),
      }
    },
  }
}
