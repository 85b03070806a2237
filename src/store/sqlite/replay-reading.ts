import type { ReplayState } from '../../core/bulk-replay.ts'
import type { SkipCode } from '../../core/replay-obstacle.ts'
import type { Status } from '../../core/states.ts'
import { type ReplayItemRow, type ReplayRow, toReplay, toReplayItem, toReplayJobs } from '../replay-rows.ts'
import type { ReplayCounts, ReplayItemState, StoredReplay, StoredReplayItem } from '../replays.ts'
import type { Connection } from './connection.ts'

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

  const jobsOf = (key: number): ReplayCounts['jobs'] =>
    toReplayJobs(jobsByStatus.all(key) as { status: Status | null; n: number }[])

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
      const rows = items.all(key, afterPosition, state ?? null, limit) as unknown as ReplayItemRow[]
      return rows.map(toReplayItem)
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
