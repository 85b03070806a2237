import type { ReplayStanding, ReplayState } from '../core/bulk-replay.ts'
import type { SkipCode } from '../core/replay-obstacle.ts'
import type { Status } from '../core/states.ts'
import type { ReplayCounts, ReplayItemState, StoredReplay, StoredReplayItem } from './replays.ts'
import type { By } from './store.ts'

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

/** Set since it was started: nothing else brings a replay under way. */
export const startedBy = ({ started_by, started_reason }: ReplayRow): By => ({
  actor: started_by as string,
  reason: started_reason as string,
})

export interface ReplayItemRow {
  position: number
  offset: number
  type: string
  state: ReplayItemState
  skip_code: SkipCode | null
  why: string | null
  job: string
  status: Status | null
}

export const toReplayItem = ({ skip_code, why, ...row }: ReplayItemRow): StoredReplayItem => ({
  ...row,
  skip: skip_code === null ? null : { code: skip_code, why: why ?? '' },
})

/** One row per status; none where the job is gone. */
export function toReplayJobs(rows: readonly { status: Status | null; n: number }[]): ReplayCounts['jobs'] {
  const jobs = { queued: 0, processing: 0, complete: 0, failed: 0, cancelled: 0, gone: 0 }
  for (const { status, n } of rows) jobs[status ?? 'gone'] = n
  return jobs
}
