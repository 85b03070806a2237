import type { Status } from '../../core/states.ts'
import { isOver, lettersKeptFor, REMOVED_EVENTS } from '../retention.ts'
import type { JobKey, Pruned, PruneRule } from '../store.ts'
import { openBatchPruning } from './batch-pruning.ts'
import type { Connection } from './connection.ts'
import { openLetterMarks } from './letter-marks.ts'
import type { Types } from './types.ts'

interface FinishedRow {
  key: JobKey
  type: number
  status: Status
  finished_at: number | null
  dead_letter: number | null
}

/**
 * Old jobs are found by walking the table in bounded steps. An index on the time of finishing would be quicker here
 * and would cost every job that completes.
 */
export function openPruning(connection: Connection, types: Types) {
  const walk = connection.prepare(
    'SELECT key, type, status, finished_at, dead_letter FROM jobs WHERE key > ? ORDER BY key LIMIT ?',
  )
  const hasUncountedFailure = connection.prepare(`
    SELECT 1 FROM failures
    WHERE job = ? AND seq > coalesce((SELECT position FROM cursors WHERE name = 'failure_groups'), 0)`)
  const lettersOf = connection.prepare('SELECT "offset", at FROM dead_letters WHERE job = ?')
  const letters = openLetterMarks(connection)
  // The one that stays is as good as gone without its job. Of the others, the database marks the removal itself.
  const markKept = connection.prepare(`
    INSERT INTO cursors (name, position) SELECT '${REMOVED_EVENTS}', max(seq) FROM events WHERE job = ? HAVING max(seq) > 0
    ON CONFLICT (name) DO UPDATE SET position = max(position, excluded.position)`)
  // The newest event stays: its number must not be given to another one, for somebody may be reading from there.
  const removeEvents = connection.prepare('DELETE FROM events WHERE job = ? AND seq < (SELECT max(seq) FROM events)')
  // So does the newest failure: what is counted of them is counted up to a number.
  const removals = [
    'DELETE FROM failures WHERE job = ? AND seq < (SELECT max(seq) FROM failures)',
    'DELETE FROM jobs WHERE key = ?',
    'DELETE FROM job_specs WHERE key = ?',
  ].map((sql) => connection.prepare(sql))
  const batches = openBatchPruning(connection)

  /** Removes the letters of a job whose time is over. Answers with how many went, and how many are still kept. */
  const expireLetters = (job: JobKey, keptMs: number | null, nowMs: number): { gone: number; kept: number } => {
    const found = lettersOf.all(job) as { offset: number; at: number }[]
    const over = keptMs === null ? [] : found.filter(({ at }) => at <= nowMs - keptMs)
    for (const { offset } of over) letters.remove(job, offset)
    return { gone: over.length, kept: found.length - over.length }
  }

  return {
    prune(rules: readonly PruneRule[], after: number, limit: number, nowMs: number): Pruned {
      const ruleOf = new Map(rules.map((rule) => [types.byName(rule.type)?.key, rule]))
      const rows = walk.all(after, limit) as unknown as FinishedRow[]
      let removed = 0
      let lettersRemoved = 0
      for (const row of rows) {
        const rule = ruleOf.get(row.type)
        const mayGo = isOver(row, rule, nowMs)
        if (!mayGo && !row.dead_letter) continue
        const { gone, kept } = expireLetters(row.key, lettersKeptFor(row, rule), nowMs)
        lettersRemoved += gone
        if (!mayGo || kept > 0) continue
        if (hasUncountedFailure.get(row.key) !== undefined) continue
        const place = batches.placeOf(row.key)
        if (place?.isNeeded) continue
        removeEvents.run(row.key)
        markKept.run(row.key)
        for (const removal of removals) removal.run(row.key)
        if (place !== undefined) batches.removeIfLast(place.batch)
        removed++
      }
      if (rows.length < limit) batches.removeEmpty(nowMs, limit)
      return { removed, letters: lettersRemoved, cursor: rows.length < limit ? null : (rows.at(-1)?.key ?? null) }
    },
  }
}
