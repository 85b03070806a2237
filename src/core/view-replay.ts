import type { ReplayState } from './bulk-replay.ts'
import { isoTime, isoTimeOrNull } from './iso-time.ts'
import type { SkipCode } from './replay-obstacle.ts'
import type { Status } from './states.ts'

/** The replay of many dead letters, as every door shows it. */
export interface ReplayView {
  id: string
  state: ReplayState
  /** Why it stands so. */
  why: string
  selection: {
    type?: string
    code?: string
    owner?: string
    fingerprint?: string
    since?: string
    until?: string
    replayed?: boolean
  }
  /** JSON merge patch for each input; null where they stay as they are. */
  patch: unknown
  perSecond: number | null
  canary: number
  canaryFailuresMax: number
  plannedBy: { actor: string; reason: string }
  startedBy: { actor: string; reason: string } | null
  total: number
  submitted: number
  skipped: number
  waiting: number
  createdAt: string
  startedAt: string | null
  endedAt: string | null
}

export interface ReplayItemView {
  position: number
  offset: number
  type: string
  state: 'waiting' | 'skipped' | 'submitted'
  skip: { code: SkipCode; why: string } | null
  jobId: string | null
  /** As it is now; null where there is no job, or none any more. */
  jobStatus: Status | null
}

export interface ReplayRecord {
  id: string
  state: ReplayState
  why: string
  selection: {
    type?: string
    code?: string
    owner?: string
    fingerprint?: string
    sinceMs?: number
    untilMs?: number
    isReplayed?: boolean
  }
  patch: string | null
  perSecond: number | null
  canary: number
  canaryFailuresMax: number
  plannedBy: { actor: string; reason: string }
  startedBy: { actor: string; reason: string } | null
  total: number
  submitted: number
  skipped: number
  createdAtMs: number
  startedAtMs: number | null
  endedAtMs: number | null
}

export function viewReplay(replay: ReplayRecord): ReplayView {
  const { total, submitted, skipped } = replay
  const { sinceMs, untilMs, isReplayed, type, code, owner, fingerprint } = replay.selection
  return {
    id: replay.id,
    state: replay.state,
    why: replay.why,
    selection: {
      ...(type !== undefined && { type }),
      ...(code !== undefined && { code }),
      ...(owner !== undefined && { owner }),
      ...(fingerprint !== undefined && { fingerprint }),
      ...(sinceMs !== undefined && { since: isoTime(sinceMs) }),
      ...(untilMs !== undefined && { until: isoTime(untilMs) }),
      ...(isReplayed !== undefined && { replayed: isReplayed }),
    },
    patch: replay.patch === null ? null : JSON.parse(replay.patch),
    perSecond: replay.perSecond,
    canary: replay.canary,
    canaryFailuresMax: replay.canaryFailuresMax,
    plannedBy: replay.plannedBy,
    startedBy: replay.startedBy,
    total,
    submitted,
    skipped,
    waiting: total - submitted - skipped,
    createdAt: isoTime(replay.createdAtMs),
    startedAt: isoTimeOrNull(replay.startedAtMs),
    endedAt: isoTimeOrNull(replay.endedAtMs),
  }
}
