import { byTurn, fitting, type PermitOfKey, type ReadyRow } from '../permits.ts'
import type { JobKey } from '../store.ts'
import type { Connection } from './connection.ts'

/** Rows at the head of the line that are looked at before the keys are gone through one by one. */
const HEAD_ROWS = 200
/** Beyond those wanted, looked at before them: a claim for one job mostly finds it among the first. */
const FIRST_ROWS = 8
/** Keys that one claim goes through at most: a bound on how long it holds up everybody else. */
const KEYS_PER_WALK = 1_000

const READY_WITH_KEY = 'limit_key IS NOT NULL AND ready IS NOT NULL'

/** Exported so that a test can ask SQLite how it finds these rows. */
export const KEY_SQL = {
  /** In the order of the line, whatever their keys. */
  head: `SELECT key, limit_key, priority, queued_at FROM jobs WHERE ready IS NOT NULL AND type = ?1
    ORDER BY priority DESC, queued_at, key LIMIT ?2`,
  /** The first job of each key, from one key to the next: what stands behind it is jumped over, not read. */
  firstOfEach: `
    WITH RECURSIVE first (key, n) AS (
      SELECT (SELECT key FROM jobs WHERE ${READY_WITH_KEY} AND type = ?1 AND limit_key >= ?2
        ORDER BY limit_key, priority DESC, queued_at, key LIMIT 1), 1
      UNION ALL
      SELECT (SELECT next.key FROM jobs AS next WHERE next.limit_key IS NOT NULL AND next.ready IS NOT NULL
        AND next.type = ?1 AND next.limit_key > (SELECT limit_key FROM jobs WHERE jobs.key = first.key)
        ORDER BY next.limit_key, next.priority DESC, next.queued_at, next.key LIMIT 1), n + 1
      FROM first WHERE first.key IS NOT NULL AND n < ?3)
    SELECT key, limit_key, priority, queued_at FROM first CROSS JOIN jobs USING (key)`,
  /** Jobs older than their type's limit; empty once all of them have a key. */
  unkeyed: `SELECT key, limit_key, priority, queued_at FROM jobs
    WHERE ready IS NOT NULL AND type = ?1 AND limit_key IS NULL
      AND EXISTS (SELECT 1 FROM cursors WHERE name = 'limiting ' || ?1)
    ORDER BY priority DESC, queued_at, key LIMIT ?2`,
  ofKey: `SELECT key, limit_key, priority, queued_at FROM jobs
    WHERE ${READY_WITH_KEY} AND type = ?1 AND limit_key = ?2 ORDER BY priority DESC, queued_at, key LIMIT ?3`,
}

/** Chooses among the ready jobs of a type whose keys limit each other. */
export function openLimitKeys(connection: Connection) {
  const head = connection.prepare(KEY_SQL.head)
  const firstOfEach = connection.prepare(KEY_SQL.firstOfEach)
  const ofKey = connection.prepare(KEY_SQL.ofKey)
  const unkeyed = connection.prepare(KEY_SQL.unkeyed)
  /** Where the last walk stopped before it had seen every key; the next one goes on from there, so that none starves. */
  const stoppedAt = new Map<number, string>()

  /** At most `max` jobs that may go, in the order of the line. */
  const candidates = (type: number, max: number, permitOfKey: PermitOfKey): JobKey[] => {
    if (max < 1) return []
    const first = head.all(type, max + FIRST_ROWS) as unknown as ReadyRow[]
    const fits = fitting(first, max, permitOfKey)
    if (fits.length === max || first.length < max + FIRST_ROWS) return fits.map(({ key }) => key)
    const rowsMax = Math.max(HEAD_ROWS, 2 * max)
    const rows = head.all(type, rowsMax) as unknown as ReadyRow[]
    const chosen = fitting(rows, max, permitOfKey)
    // One key with a hundred thousand jobs in front must neither be walked through nor block the others.
    const found = chosen.length < max && rows.length === rowsMax ? acrossKeys(type, max, permitOfKey) : chosen
    return found.map(({ key }) => key)
  }

  const acrossKeys = (type: number, max: number, permitOfKey: PermitOfKey): ReadyRow[] => {
    const leftOf = ({ limit_key }: ReadyRow) => (limit_key ? permitOfKey(limit_key).left : max)
    // Whatever is among the best `max` jobs has the first of its key among the best `max` of those.
    const open = walk(type)
      .filter((row) => leftOf(row) >= 1)
      .toSorted(byTurn)
      .slice(0, max)
    return open
      .flatMap((row) => {
        const left = Math.min(max, leftOf(row))
        return left === 1 ? [row] : (ofKey.all(type, row.limit_key, left) as unknown as ReadyRow[])
      })
      .concat(unkeyed.all(type, max) as unknown as ReadyRow[])
      .toSorted(byTurn)
      .slice(0, max)
  }

  const walk = (type: number): ReadyRow[] => {
    const from = stoppedAt.get(type)
    const rows = firstOfEach.all(type, from ?? '', KEYS_PER_WALK) as unknown as ReadyRow[]
    if (rows.length === KEYS_PER_WALK) {
      stoppedAt.set(type, rows.at(-1)?.limit_key ?? '')
      return rows
    }
    stoppedAt.delete(type)
    if (from === undefined) return rows
    const before = firstOfEach.all(type, '', KEYS_PER_WALK - rows.length) as unknown as ReadyRow[]
    const seen = new Set(rows.map(({ key }) => key))
    return [...rows, ...before.filter(({ key }) => !seen.has(key))]
  }

  return { candidates }
}
