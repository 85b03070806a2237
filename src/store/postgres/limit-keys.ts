import { byTurn, fitting, type PermitOfKey, type ReadyRow } from '../permits.ts'
import type { JobKey } from '../store.ts'
import type { Tx } from './client.ts'
import type { PgContext } from './context.ts'

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
      ...(await unkeyed(tx, type, max)),
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

/** Jobs older than their type's limit; empty once all of them have a key. */
async function unkeyed(tx: Tx, type: number, max: number): Promise<ReadyRow[]> {
  const [filling] = await tx`SELECT 1 FROM cursors WHERE name = ${FILLING + type}`
  if (filling === undefined) return []
  return tx<ReadyRow[]>`
    SELECT key, limit_key, priority, queued_at FROM jobs
    WHERE ready IS NOT NULL AND type = ${type} AND limit_key IS NULL
    ORDER BY priority DESC, queued_at, key LIMIT ${max}`
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

// ---- jobs from before their type was limited ------------------------------------------------------------------------

/** How many jobs get their key in one transaction. */
const JOBS_PER_STEP = 2_000
const FILLING = 'limiting '

/**
 * Jobs older than their type's limit count like any other. Jobs under way get a key at once, because the claim counts
 * by key. The others get theirs when they are claimed, or in bounded steps. Without a key they would be skipped when
 * one key blocks the head of the queue. A row of `cursors` stores the position, so that any process can continue.
 */
export async function startFilling(tx: Tx, type: number): Promise<void> {
  await keyUnderWay(tx, type)
  await tx`
    INSERT INTO cursors (name, position) VALUES (${FILLING + type}, 0)
    ON CONFLICT (name) DO UPDATE SET position = 0`
}

/** Its conditions are those of two partial indexes, so that jobs that have ended are not read. */
async function keyUnderWay(tx: Tx, type: number): Promise<void> {
  await tx`
    UPDATE jobs SET limit_key = '' WHERE key = ANY (ARRAY(
      SELECT key FROM jobs WHERE lease_until IS NOT NULL AND orphaned_at IS NULL AND type = ${type} AND limit_key IS NULL
      UNION ALL
      SELECT key FROM jobs WHERE orphaned_at IS NOT NULL AND type = ${type} AND limit_key IS NULL))`
}

/** For jobs that a claim has locked. */
export async function keyClaimed(tx: Tx, keys: readonly JobKey[]): Promise<void> {
  await tx`UPDATE jobs SET limit_key = '' WHERE key = ANY (${keys as JobKey[]}::bigint[]) AND limit_key IS NULL`
}

/** Assigns keys to the jobs of all types that became limited, and resolves when none is left. */
export async function fillLimitKeys({ write, read }: Pick<PgContext, 'write' | 'read'>): Promise<void> {
  const types = await read('looking for jobs without a limit key', async (sql) => {
    const rows = await sql<{ name: string }[]>`SELECT name FROM cursors WHERE name LIKE ${`${FILLING}%`}`
    return rows.map(({ name }) => Number(name.slice(FILLING.length)))
  })
  for (const type of types) {
    for (let isDone = false; !isDone; )
      isDone = await write('giving jobs their limit key', (tx) => fillStep(tx, type), undefined, { mayRepeat: true })
  }
}

async function fillStep(tx: Tx, type: number): Promise<boolean> {
  // Locked: one of several processes makes this step, and the others make the next ones.
  const [cursor] = await tx<{ position: number }[]>`
    SELECT position FROM cursors WHERE name = ${FILLING + type} FOR UPDATE`
  if (cursor === undefined) return true
  if (cursor.position === 0) await keyUnderWay(tx, type)
  const [step] = await tx<{ n: number; last: number | null }[]>`
    WITH next AS MATERIALIZED (
      SELECT key FROM jobs
      WHERE lease_until IS NULL AND type = ${type} AND status = 'queued' AND key > ${cursor.position}
      ORDER BY key LIMIT ${JOBS_PER_STEP}
    ), filled AS (
      UPDATE jobs SET limit_key = '' WHERE key = ANY (ARRAY(SELECT key FROM next)) AND limit_key IS NULL
    )
    SELECT count(*) AS n, max(key) AS last FROM next`
  const { n, last } = step as { n: number; last: number | null }
  if (n === JOBS_PER_STEP) {
    await tx`UPDATE cursors SET position = ${last} WHERE name = ${FILLING + type}`
    return false
  }
  await tx`DELETE FROM cursors WHERE name = ${FILLING + type}`
  return true
}
