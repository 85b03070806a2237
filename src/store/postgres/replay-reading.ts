import type { ReplayState } from '../../core/bulk-replay.ts'
import type { SkipCode } from '../../core/replay-obstacle.ts'
import type { Status } from '../../core/states.ts'
import { type ReplayItemRow, type ReplayRow, toReplay, toReplayItem, toReplayJobs } from '../replay-rows.ts'
import type { ReplayCounts, ReplayItemState, StoredReplay, StoredReplayItem } from '../replays.ts'
import type { Sql } from './client.ts'

/** What the jobs of a replay stand at. */
export async function replayJobs(sql: Sql, key: number): Promise<ReplayCounts['jobs']> {
  const rows = await sql<{ status: Status | null; n: number }[]>`
    SELECT jobs.status, count(*) AS n FROM replay_items LEFT JOIN job_specs ON job_specs.id = replay_items.job
      LEFT JOIN jobs ON jobs.key = job_specs.key
    WHERE replay = ${key} AND state = 'submitted' GROUP BY jobs.status`
  return toReplayJobs(rows)
}

export async function listReplays(
  sql: Sql,
  { state, beforeKey = Number.MAX_SAFE_INTEGER, limit }: { state?: ReplayState; beforeKey?: number; limit: number },
): Promise<StoredReplay[]> {
  const rows = await sql<ReplayRow[]>`
    SELECT * FROM replays WHERE key < ${beforeKey} ${state === undefined ? sql`` : sql`AND state = ${state}`}
    ORDER BY key DESC LIMIT ${limit}`
  return rows.map(toReplay)
}

export async function listReplayItems(
  sql: Sql,
  key: number,
  { state, afterPosition, limit }: { state?: ReplayItemState; afterPosition: number; limit: number },
): Promise<StoredReplayItem[]> {
  // Ordered by all columns of the index that is meant, as in lists of jobs.
  const page =
    state === undefined
      ? sql`
          SELECT * FROM replay_items WHERE replay = ${key} AND position > ${afterPosition}
          ORDER BY position LIMIT ${limit}`
      : sql`
          SELECT * FROM replay_items
          WHERE replay = ${key} AND (state, position) > (${state}, ${afterPosition}::bigint) AND state <= ${state}
          ORDER BY state, position LIMIT ${limit}`
  const rows = await sql<ReplayItemRow[]>`
    WITH page AS MATERIALIZED (${page})
    SELECT position, "offset", page.type, state, skip_code, why, job, jobs.status
    FROM page LEFT JOIN job_specs ON job_specs.id = page.job LEFT JOIN jobs ON jobs.key = job_specs.key`
  return rows.map(toReplayItem).sort((a, b) => a.position - b.position)
}

export async function countReplay(sql: Sql, key: number): Promise<ReplayCounts> {
  const skips = await sql<{ code: SkipCode; n: number }[]>`
    SELECT skip_code AS code, count(*) AS n FROM replay_items WHERE replay = ${key} AND state = 'skipped'
    GROUP BY skip_code ORDER BY n DESC, code`
  const waits = await sql<{ type: string; n: number }[]>`
    SELECT type, count(*) AS n FROM replay_items WHERE replay = ${key} AND state = 'waiting'
    GROUP BY type ORDER BY n DESC, type`
  return {
    skipped: skips.map(({ code, n }) => ({ code, letters: n })),
    waiting: waits.map(({ type, n }) => ({ type, letters: n })),
    jobs: await replayJobs(sql, key),
  }
}
