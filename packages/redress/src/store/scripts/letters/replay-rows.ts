import type { ReplayStanding, ReplayState, SkipCode } from '../../../core/dead-letter/replay.ts'
import type { Status } from '../../../core/job/states.ts'
import type { ReplayCounts, ReplayItemState, StoredReplay, StoredReplayItem } from '../../contract/replays.ts'
import type { ActorAndReason } from '../../contract/store.ts'
import type { Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { NONE, sql } from '../tx/sql.ts'

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

/** The facts from which core decides the next step. */
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

/** Set since it was started: nothing else brings a replay under way. */
export const startedBy = ({ started_by, started_reason }: ReplayRow): ActorAndReason => ({
  actor: started_by as string,
  reason: started_reason as string,
})

interface ReplayItemRow {
  position: number
  offset: number
  type: string
  state: ReplayItemState
  skip_code: SkipCode | null
  why: string | null
  job: string
  status: Status | null
}

const toReplayItem = ({ skip_code, why, ...row }: ReplayItemRow): StoredReplayItem => ({
  ...row,
  skip: skip_code === null ? null : { code: skip_code, why: why ?? '' },
})

/** The statuses of the jobs of a replay; `gone` if the job was removed. */
export function* replayJobs(tx: Tx, key: number): Script<ReplayCounts['jobs']> {
  const rows = yield* tx.all<{ status: Status | null; n: number }>`
    SELECT jobs.status, count(*) AS n FROM replay_items LEFT JOIN job_specs ON job_specs.id = replay_items.job
      LEFT JOIN jobs ON jobs.key = job_specs.key
    WHERE replay = ${key} AND state = 'submitted' GROUP BY jobs.status`
  const jobs = { queued: 0, processing: 0, complete: 0, failed: 0, cancelled: 0, gone: 0 }
  for (const { status, n } of rows) jobs[status ?? 'gone'] = n
  return jobs
}

export function* listReplays(
  tx: Tx,
  { state, beforeKey = Number.MAX_SAFE_INTEGER, limit }: { state?: ReplayState; beforeKey?: number; limit: number },
): Script<StoredReplay[]> {
  const rows = yield* tx.all<ReplayRow>`
    SELECT * FROM replays WHERE key < ${beforeKey} ${state === undefined ? NONE : sql`AND state = ${state}`}
    ORDER BY key DESC LIMIT ${limit}`
  return rows.map(toReplay)
}

export function* listReplayItems(
  tx: Tx,
  key: number,
  { state, afterPosition, limit }: { state?: ReplayItemState; afterPosition: number; limit: number },
): Script<StoredReplayItem[]> {
  const byPosition = sql`position > ${afterPosition} ${state === undefined ? NONE : sql`AND state = ${state}`}
    ORDER BY position`
  // PostgreSQL: ordered by all columns of the index that is meant, as in lists of jobs.
  const byState = sql`(state, position) > (${state ?? null}, CAST(${afterPosition} AS bigint)) AND state <= ${state ?? null}
    ORDER BY state, position`
  const found = state === undefined ? byPosition : tx.dialect.choose({ sqlite: byPosition, postgres: byState })
  const rows = yield* tx.all<ReplayItemRow>`
    WITH page AS MATERIALIZED (SELECT * FROM replay_items WHERE replay = ${key} AND ${found} LIMIT ${limit})
    SELECT position, "offset", page.type, state, skip_code, why, job, jobs.status
    FROM page LEFT JOIN job_specs ON job_specs.id = page.job LEFT JOIN jobs ON jobs.key = job_specs.key`
  return rows.map(toReplayItem).sort((a, b) => a.position - b.position)
}

export function* countReplay(tx: Tx, key: number): Script<ReplayCounts> {
  const skipped = yield* tx.all<{ code: SkipCode; letters: number }>`
    SELECT skip_code AS code, count(*) AS letters FROM replay_items WHERE replay = ${key} AND state = 'skipped'
    GROUP BY skip_code ORDER BY letters DESC, code`
  const waiting = yield* tx.all<{ type: string; letters: number }>`
    SELECT type, count(*) AS letters FROM replay_items WHERE replay = ${key} AND state = 'waiting'
    GROUP BY type ORDER BY letters DESC, type`
  return {
    skipped: skipped.map(({ code, letters }) => ({ code, letters })),
    waiting: waiting.map(({ type, letters }) => ({ type, letters })),
    jobs: yield* replayJobs(tx, key),
  }
}
