import type { JobKey } from '../../contract/store.ts'
import { FILLING } from '../jobs/types.ts'
import type { Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { type Sql, sql } from '../tx/sql.ts'
import { byTurn, fitting, type PermitOfKey, type ReadyRow } from './permits.ts'

/** Rows at the head of the line that are read before the keys are visited one by one. */
const HEAD_ROWS = 200
/** SQLite reads this many more than wanted first: a claim for one job mostly finds it there. */
const FIRST_ROWS = 8
/** The most keys that one claim visits: other transactions wait for it. */
const KEYS_PER_WALK = 1_000

interface KeyPermits {
  /** PostgreSQL reads the permits of many rows in one round trip, before they are asked for. */
  load(rows: readonly ReadyRow[]): Script<void>
  of: PermitOfKey
}

const COLUMNS = sql`key, limit_key, priority, queued_at`
const READY_WITH_KEY = sql`limit_key IS NOT NULL AND ready IS NOT NULL`

/** Exported so that a test can ask for their plans. */
export const keySql = {
  /** In the order of the queue, with any keys. */
  head: (type: number, max: number): Sql => sql`
    SELECT ${COLUMNS} FROM jobs WHERE ready IS NOT NULL AND type = ${type}
    ORDER BY priority DESC, queued_at, key LIMIT ${max}`,
  /** The first job of each key: the search jumps from key to key over the jobs behind. */
  firstOfEach: (type: number, from: string, max: number): Sql => sql`
    WITH RECURSIVE first (key, n) AS (
      SELECT (SELECT key FROM jobs WHERE ${READY_WITH_KEY} AND type = ${type} AND limit_key >= ${from}
        ORDER BY limit_key, priority DESC, queued_at, key LIMIT 1), 1
      UNION ALL
      SELECT (SELECT next.key FROM jobs AS next WHERE next.limit_key IS NOT NULL AND next.ready IS NOT NULL
        AND next.type = ${type} AND next.limit_key > (SELECT limit_key FROM jobs WHERE jobs.key = first.key)
        ORDER BY next.limit_key, next.priority DESC, next.queued_at, next.key LIMIT 1), n + 1
      FROM first WHERE first.key IS NOT NULL AND n < ${max})
    SELECT jobs.key, limit_key, priority, queued_at, n FROM first CROSS JOIN jobs WHERE jobs.key = first.key`,
  ofKey: (type: number, limitKey: string, max: number): Sql => sql`
    SELECT ${COLUMNS} FROM jobs WHERE ${READY_WITH_KEY} AND type = ${type} AND limit_key = ${limitKey}
    ORDER BY priority DESC, queued_at, key LIMIT ${max}`,
  /** Jobs that are older than their type's limit; none once all of them have a key. */
  unkeyed: (type: number, max: number): Sql => sql`
    SELECT ${COLUMNS} FROM jobs WHERE ready IS NOT NULL AND type = ${type} AND limit_key IS NULL
      AND EXISTS (SELECT 1 FROM cursors WHERE name = ${FILLING + type})
    ORDER BY priority DESC, queued_at, key LIMIT ${max}`,
}

/** Chooses among the ready jobs of a type whose keys are limited. */
export function openLimitKeys() {
  /** Where the last walk stopped before it had visited every key. The next one continues there, so that none starves. */
  const stoppedAt = new Map<number, string>()

  const walk = function* (tx: Tx, type: number): Script<ReadyRow[]> {
    const from = stoppedAt.get(type)
    const rows = yield* tx.all<ReadyRow & { n: number }>`${keySql.firstOfEach(type, from ?? '', KEYS_PER_WALK)}`
    if (rows.length === KEYS_PER_WALK) {
      // Not simply the last row: PostgreSQL may join them in another order.
      stoppedAt.set(type, rows.find(({ n }) => n === KEYS_PER_WALK)?.limit_key ?? '')
      return rows
    }
    stoppedAt.delete(type)
    if (from === undefined) return rows
    const before = yield* tx.all<ReadyRow>`${keySql.firstOfEach(type, '', KEYS_PER_WALK - rows.length)}`
    const seen = new Set(rows.map(({ key }) => key))
    return [...rows, ...before.filter(({ key }) => !seen.has(key))]
  }

  const acrossKeys = function* (tx: Tx, type: number, max: number, permits: KeyPermits): Script<ReadyRow[]> {
    const firsts = yield* walk(tx, type)
    yield* permits.load(firsts)
    const leftOf = ({ limit_key }: ReadyRow) => Math.min(max, limit_key ? permits.of(limit_key).left : max)
    // A job among the best `max` has the first job of its key among the best `max` of these.
    const open = firsts
      .filter((row) => leftOf(row) >= 1)
      .toSorted(byTurn)
      .slice(0, max)
    const more = open.filter((row) => leftOf(row) > 1)
    const found = yield* tx.together(
      tx.all<ReadyRow>`${keySql.unkeyed(type, max)}`,
      ...more.map((row) => tx.all<ReadyRow>`${keySql.ofKey(type, row.limit_key ?? '', leftOf(row))}`),
    )
    return [...open.filter((row) => leftOf(row) === 1), ...found.flat()].toSorted(byTurn).slice(0, max)
  }

  return {
    /** At most `max` jobs whose keys allow them to run, in the order of the line. */
    *candidates(tx: Tx, type: number, max: number, permits: KeyPermits): Script<JobKey[]> {
      if (max < 1) return []
      const rowsMax = Math.max(HEAD_ROWS, 2 * max)
      for (const n of tx.dialect.choose({ sqlite: [max + FIRST_ROWS, rowsMax], postgres: [rowsMax] })) {
        const rows = yield* tx.all<ReadyRow>`${keySql.head(type, n)}`
        yield* permits.load(rows)
        const chosen = fitting(rows, max, permits.of)
        if (chosen.length === max || rows.length < n) return chosen.map(({ key }) => key)
      }
      // One key with a hundred thousand jobs in front must neither be read through nor block the others.
      const found = yield* acrossKeys(tx, type, max, permits)
      return found.map(({ key }) => key)
    },
  }
}
