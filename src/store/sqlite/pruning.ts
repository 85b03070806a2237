import type { Status } from '../../core/states.ts'
import type { JobKey, Pruned, PruneRule } from '../store.ts'
import type { Connection } from './connection.ts'
import type { Types } from './types.ts'

interface FinishedRow {
  key: JobKey
  type: number
  status: Status
  finished_at: number | null
}

/**
 * Old jobs are found by walking the table in bounded steps. An index on the time of finishing would be quicker here
 * and would cost every job that completes.
 */
export function openPruning(connection: Connection, types: Types) {
  const walk = connection.prepare('SELECT key, type, status, finished_at FROM jobs WHERE key > ? ORDER BY key LIMIT ?')
  const hasDeadLetter = connection.prepare('SELECT 1 FROM dead_letters WHERE job = ?')
  // The newest event stays: its number must not be given to another one, for somebody may be reading from there.
  const removeEvents = connection.prepare('DELETE FROM events WHERE job = ? AND seq < (SELECT max(seq) FROM events)')
  const removals = [
    'DELETE FROM failures WHERE job = ?',
    'DELETE FROM jobs WHERE key = ?',
    'DELETE FROM job_specs WHERE key = ?',
  ].map((sql) => connection.prepare(sql))

  return {
    prune(rules: readonly PruneRule[], after: number, limit: number, nowMs: number): Pruned {
      const ruleOf = new Map(rules.map((rule) => [types.byName(rule.type)?.key, rule]))
      const rows = walk.all(after, limit) as unknown as FinishedRow[]
      let removed = 0
      for (const row of rows) {
        const keptMs = keptFor(row.status, ruleOf.get(row.type))
        if (keptMs === null || row.finished_at === null || row.finished_at > nowMs - keptMs) continue
        // A dead letter is kept for somebody to replay, with its job.
        if (row.status === 'failed' && hasDeadLetter.get(row.key) !== undefined) continue
        removeEvents.run(row.key)
        for (const removal of removals) removal.run(row.key)
        removed++
      }
      return { removed, cursor: rows.length < limit ? null : (rows.at(-1)?.key ?? null) }
    },
  }
}

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
