import type { Status } from '../core/states.ts'
import type { PruneRule } from './store.ts'

/** Under this name `cursors` has the highest number of an event that is gone: who reads from before it missed something. */
export const REMOVED_EVENTS = 'removed_events'

/** What of a job decides whether its time is over. */
interface Finished {
  status: Status
  finished_at: number | null
}

export function isOver({ status, finished_at }: Finished, rule: PruneRule | undefined, nowMs: number): boolean {
  const keptMs = keptFor(status, rule)
  return keptMs !== null && finished_at !== null && finished_at <= nowMs - keptMs
}

/**
 * A dead letter is kept for somebody to replay, with its job; about a job that ended otherwise there is nothing to replay
 * any more. null: for ever.
 */
export const lettersKeptFor = ({ status }: Finished, rule: PruneRule | undefined): number | null =>
  status === 'failed' ? (rule?.deadLettersMs ?? null) : 0

function keptFor(status: Status, rule: PruneRule | undefined): number | null {
  if (rule === undefined) return null
  switch (status) {
    case 'complete':
      return rule.completeMs
    case 'failed':
      return rule.failedMs
    case 'cancelled':
      return rule.cancelledMs
    default:
      return null
  }
}
