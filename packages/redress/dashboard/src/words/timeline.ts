import type { EventView } from '../../../src/core/views/job.ts'
import { cutByHolds, type PastHold } from './past-holds.ts'

/** What a job did for a while. */
export interface Phase {
  kind: 'waiting' | 'delayed' | 'held' | 'running' | 'orphaned' | 'ended'
  fromMs: number
  toMs: number
  /** The attempt that ran. */
  attempt: number | null
  /** What held it back, where that is known. */
  by: string | null
  /** How the attempt ended; null while it goes on. */
  outcome: 'complete' | 'failed' | 'cancelled' | 'given back' | null
  /** It goes on. */
  isOpen: boolean
}

interface Now {
  nowMs: number
  /** Something keeps it back at present. */
  isHeld: boolean
  /** What kept jobs like it back in its time. */
  holds?: readonly PastHold[]
}

const OUTCOMES: Partial<Record<EventView['kind'], Phase['outcome']>> = {
  complete: 'complete',
  retry: 'failed',
  failed: 'failed',
  cancelled: 'cancelled',
  released: 'given back',
  snoozed: 'given back',
  reclaimed: 'given back',
}

const PHASES_MAX = 300

/** What a job did all its life, by its history: from one event to the next. What has no length is left out. */
export function phasesOf(events: readonly EventView[], { nowMs, isHeld, holds = [] }: Now): Phase[] {
  const phases: Phase[] = []
  let open: { kind: Phase['kind']; fromMs: number; attempt: number | null; dueMs: number } | null = null

  const close = (toMs: number, outcome: Phase['outcome'], isOpen = false): void => {
    if (open === null) return
    const { kind, fromMs, attempt, dueMs } = open
    const add = (as: Phase['kind'], from: number, to: number, isLast: boolean, by: string | null = null): void => {
      if (to > from || as === 'running') {
        phases.push({ kind: as, fromMs: from, toMs: to, attempt, by, outcome, isOpen: isOpen && isLast })
      }
    }
    if (kind === 'waiting') {
      const goesMs = Math.min(Math.max(dueMs, fromMs), toMs)
      add('delayed', fromMs, goesMs, goesMs === toMs)
      for (const piece of cutByHolds(goesMs, toMs, holds)) {
        const isLast = piece.toMs === toMs
        const isHeldNow = isOpen && isLast && isHeld
        add(piece.by !== null || isHeldNow ? 'held' : 'waiting', piece.fromMs, piece.toMs, isLast, piece.by)
      }
    } else add(kind, fromMs, toMs, true)
  }
  const begin = (kind: Phase['kind'], fromMs: number, attempt: number | null = null, dueMs = fromMs): void => {
    open = { kind, fromMs, attempt, dueMs }
  }

  for (const { kind, at, attempt, data } of events) {
    const atMs = Date.parse(at)
    const next = kind === 'input-replaced' && data.dueAt === undefined ? null : NEXT[kind]
    if (next === null) continue
    close(atMs, OUTCOMES[kind] ?? null)
    const dueMs = data.dueAt === undefined ? atMs : Date.parse(data.dueAt)
    begin(next, atMs, next === 'running' || next === 'orphaned' ? attempt : null, dueMs)
  }
  // What has ended does nothing any more, for as long as one likes to look.
  if ((open as { kind: Phase['kind'] } | null)?.kind !== 'ended')
    close(Math.max(nowMs, phases.at(-1)?.toMs ?? 0), null, true)
  return phases.slice(-PHASES_MAX)
}

/** What begins with an event; null where nothing does. */
const NEXT: Readonly<Record<EventView['kind'], Phase['kind'] | null>> = {
  queued: 'waiting',
  processing: 'running',
  started: null,
  complete: 'ended',
  retry: 'waiting',
  failed: 'ended',
  cancelled: 'ended',
  released: 'waiting',
  snoozed: 'waiting',
  reclaimed: 'waiting',
  orphaned: 'orphaned',
  recovered: 'running',
  'cancel-requested': null,
  'manual-retry': 'waiting',
  rescheduled: 'waiting',
  reprioritised: null,
  'input-replaced': 'waiting',
  expired: null,
  lost: null,
  deleted: null,
}
