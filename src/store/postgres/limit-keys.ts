import { byTurn, fitting, type PermitOfKey, type ReadyRow } from '../permits.ts'
import type { JobKey } from '../store.ts'
import type { Tx } from './client.ts'

/** Rows at the head of the line that are looked at before the keys are gone through one by one. */
const HEAD_ROWS = 200
/** Keys that one claim goes through at most: a bound on how long it holds up everybody else. */
const KEYS_PER_WALK = 1_000

export interface KeyPermits {
  /** Reads what is known of these keys, once for all of them. */
  load(limitKeys: readonly string[]): Promise<void>
  /** Of a key that was loaded. */
  of: PermitOfKey
}

/** Chooses among the ready jobs of a type whose keys limit each other. */
export function openLimitKeys() {
  /** Where the last walk stopped before it had seen every key; the next one goes on from there, so that none starves. */
  const stoppedAt = new Map<number, string>()

  /** At most `max` jobs that may go, in the order of the line. */
  const candidates = async (tx: Tx, type: number, max: number, permits: KeyPermits): Promise<JobKey[]> => {
    if (max < 1) return []
    const rowsMax = Math.max(HEAD_ROWS, 2 * max)
    const rows = await head(tx, type, rowsMax)
    await permits.load(keysOf(rows))
    const chosen = fitting(rows, max, permits.of)
    // One key with a hundred thousand jobs in front must neither be walked through nor block the others.
    const found = chosen.length < max && rows.length === rowsMax ? await acrossKeys(tx, type, max, permits) : chosen
    return found.map(({ key }) => key)
  }

  const acrossKeys = async (tx: Tx, type: number, max: number, permits: KeyPermits): Promise<ReadyRow[]> => {
    const firsts = await walk(tx, type)
    await permits.load(keysOf(firsts))
    const leftOf = ({ limit_key }: ReadyRow) => Math.min(max, limit_key ? permits.of(limit_key).left : max)
    // Whatever is among the best `max` jobs has the first of its key among the best `max` of those.
    const open = firsts
      .filter((row) => leftOf(row) >= 1)
      .toSorted(byTurn)
      .slice(0, max)
    const more = open.filter((row) => leftOf(row) > 1)
    const rows = [
      ...open.filter((row) => leftOf(row) === 1),
      ...(await ofKeys(
        tx,
        type,
        more.map((row) => row.limit_key ?? ''),
        more.map(leftOf),
      )),
    ]
    return rows.toSorted(byTurn).slice(0, max)
  }

  const walk = async (tx: Tx, type: number): Promise<ReadyRow[]> => {
    const from = stoppedAt.get(type)
    const rows = await firstOfEach(tx, type, from ?? '', KEYS_PER_WALK)
    if (rows.length === KEYS_PER_WALK) {
      stoppedAt.set(type, rows.at(-1)?.limit_key ?? '')
      return rows
    }
    stoppedAt.delete(type)
    if (from === undefined) return rows
    const before = await firstOfEach(tx, type, '', KEYS_PER_WALK - rows.length)
    const seen = new Set(rows.map(({ key }) => key))
    return [...rows, ...before.filter(({ key }) => !seen.has(key))]
  }

  return { candidates }
}

const keysOf = (rows: readonly ReadyRow[]): string[] => rows.flatMap(({ limit_key }) => limit_key || [])

/** In the order of the line, whatever their keys. */
async function head(tx: Tx, type: number, max: number): Promise<ReadyRow[]> {
  return tx<ReadyRow[]>`
    SELECT key, limit_key, priority, queued_at FROM jobs WHERE ready IS NOT NULL AND type = ${type}
    ORDER BY priority DESC, queued_at, key LIMIT ${max}`
}

/** The first job of each key, from one key to the next: what stands behind it is jumped over, not read. */
async function firstOfEach(tx: Tx, type: number, from: string, max: number): Promise<ReadyRow[]> {
  return tx<ReadyRow[]>`
    WITH RECURSIVE first (key, limit_key, priority, queued_at, n) AS (
      (SELECT key, limit_key, priority, queued_at, 1 FROM jobs
      WHERE limit_key IS NOT NULL AND ready IS NOT NULL AND type = ${type} AND limit_key >= ${from}
      ORDER BY limit_key, priority DESC, queued_at, key LIMIT 1)
      UNION ALL
      SELECT next.key, next.limit_key, next.priority, next.queued_at, n + 1
      FROM first CROSS JOIN LATERAL (
        SELECT key, limit_key, priority, queued_at FROM jobs
        WHERE limit_key IS NOT NULL AND ready IS NOT NULL AND type = ${type} AND limit_key > first.limit_key
        ORDER BY limit_key, priority DESC, queued_at, key LIMIT 1) AS next
      WHERE n < ${max})
    SELECT key, limit_key, priority, queued_at FROM first`
}

/** Of each of these keys, so many jobs. */
async function ofKeys(
  tx: Tx,
  type: number,
  limitKeys: readonly string[],
  most: readonly number[],
): Promise<ReadyRow[]> {
  if (limitKeys.length === 0) return []
  return tx<ReadyRow[]>`
    SELECT ready.key, ready.limit_key, ready.priority, ready.queued_at
    FROM unnest(${limitKeys}::text[], ${most}::bigint[]) AS given (limit_key, most) CROSS JOIN LATERAL (
      SELECT key, limit_key, priority, queued_at FROM jobs
      WHERE limit_key IS NOT NULL AND ready IS NOT NULL AND type = ${type} AND limit_key = given.limit_key
      ORDER BY priority DESC, queued_at, key LIMIT given.most) AS ready`
}
