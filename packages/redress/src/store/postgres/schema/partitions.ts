import { DAY_MS } from '../../../core/text/duration.ts'
import type { JobKey, PruneRule } from '../../contract/store.ts'
import type { Sql, Tx } from '../connection/client.ts'
import type { PgContext } from '../connection/context.ts'
import { codeOf } from '../connection/errors.ts'
import { inPassing, type Transaction, tryLockName } from '../connection/locks.ts'

/**
 * The history has a table for each day. Pruning creates them ahead of time, and so does opening the store if today has none.
 * They are dropped as a whole. Removing a job does not delete its history, but no reader finds it any more, because every
 * reader goes through the job. When a day is older than the longest retention, the rows of jobs that still exist are moved to
 * `kept` in bounded steps, and the day's table is dropped.
 *
 * To create or drop a day's table, the default partition must be locked against all other transactions; to drop one, the whole
 * history. A long reader blocks this: `pg_dump`, or a forgotten `BEGIN; SELECT`. So each try waits briefly (`inPassing`), and
 * the next maintenance tries again. Until then rows without a table go to the default partition. DETACH CONCURRENTLY would
 * wait without blocking others, but PostgreSQL refuses it beside a default partition.
 */
export const HISTORY_TABLES = ['events', 'failures'] as const
type HistoryTable = (typeof HISTORY_TABLES)[number]

/** Tables exist this many days ahead, so pruning may pause that long. */
const DAYS_AHEAD = 3
/** Events of a moment before midnight may be stored after it. */
const DAYS_LATE = 2
/** The most jobs that one transaction looks at. */
const JOBS_PER_STEP = 5_000

/** A day's table. */
export interface Partition {
  table: HistoryTable
  name: string
  /** '2026-11-30' */
  day: string
}

async function partitionsOf(sql: Sql): Promise<Partition[]> {
  const rows = await sql<{ table: HistoryTable; name: string }[]>`
    SELECT parent::regclass::text AS table, child.relname::text AS name
    FROM unnest(${[...HISTORY_TABLES]}::text[]) AS parent
      JOIN pg_inherits ON inhparent = to_regclass(parent) JOIN pg_class AS child ON child.oid = inhrelid`
  return rows
    .flatMap(({ table, name }): Partition[] => {
      const day = /_(\d{4})_(\d\d)_(\d\d)$/.exec(name)
      return day === null ? [] : [{ table, name, day: day.slice(1).join('-') }]
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** The days from today on that should have tables, by the calendar of the server. */
export async function wantedDays(sql: Sql): Promise<string[]> {
  const rows = await sql<{ day: string }[]>`
    SELECT (current_date + ahead)::text AS day FROM generate_series(0, ${DAYS_AHEAD}::int) AS ahead`
  return rows.map(({ day }) => day)
}

/** Several processes may do this at once; they take turns, step by step. */
const ALONE = 'partitions'

/** The default partition has rows of the day. */
const IS_BEGUN = '23514'

/** The missing tables of today and the next days. */
export async function missingPartitions(sql: Sql): Promise<Partition[]> {
  const there = new Set((await partitionsOf(sql)).map(({ name }) => name))
  const days = await wantedDays(sql)
  return HISTORY_TABLES.flatMap((table) =>
    days.map((day) => ({ table, day, name: `${table}_${day.replaceAll('-', '_')}` })),
  ).filter(({ name }) => !there.has(name))
}

/** Whether today has its tables. */
export async function hasToday(sql: Sql): Promise<boolean> {
  const [today] = await wantedDays(sql)
  return !(await missingPartitions(sql)).some(({ day }) => day === today)
}

/**
 * Creates each missing table in a short transaction of its own. A table that cannot be created now is left for later.
 */
export async function keepPartitions(missing: readonly Partition[], transaction: Transaction): Promise<void> {
  for (const partition of missing) {
    try {
      if (!(await inPassing(transaction, (tx) => addPartition(tx, partition)))) return
    } catch (error) {
      // The default partition has rows of this day, so the day gets no table.
      if (codeOf(error) !== IS_BEGUN && codeOf((error as Error).cause) !== IS_BEGUN) throw error
    }
  }
}

/**
 * Creates the table and then attaches it, which locks the history only against other attachments. CREATE TABLE ... PARTITION
 * OF would take an exclusive lock on it.
 */
export async function addPartition(tx: Tx, { table, name, day }: Partition): Promise<void> {
  if (!(await tryLockName(tx, ALONE))) return
  if ((await partitionsOf(tx)).some((one) => one.name === name)) return
  const [begun] = await tx`SELECT 1 FROM ${tx(`${table}_rest`)} WHERE day = ${day}::date LIMIT 1`
  if (begun !== undefined) return
  await tx.unsafe(`
    CREATE TABLE IF NOT EXISTS ${name} (LIKE ${table} INCLUDING ALL EXCLUDING IDENTITY);
    ALTER TABLE ${table} ATTACH PARTITION ${name} FOR VALUES IN ('${day}')`)
}

/** Deletes the history of removed jobs outside of the tables of days; the rest is dropped with its day. */
export async function removeHistory(tx: Tx, jobs: readonly JobKey[]): Promise<void> {
  const keys = jobs as JobKey[]
  // Readers of the feed must learn that events are missing, although their rows still exist.
  await tx`
    INSERT INTO cursors (name, position)
    SELECT 'removed_events', max(seq) FROM events WHERE job = ANY(${keys}::bigint[]) HAVING max(seq) IS NOT NULL
    ON CONFLICT (name) DO UPDATE SET position = greatest(cursors.position, excluded.position)`
  for (const table of HISTORY_TABLES) {
    for (const part of ['kept', 'rest']) {
      await tx`DELETE FROM ${tx(`${table}_${part}`)} WHERE job = ANY(${keys}::bigint[])`
    }
  }
}

/** The longest retention in days; null if nothing is ever removed. */
function longestKept(rules: readonly PruneRule[]): number | null {
  const kept = rules.flatMap(({ completeMs, failedMs, cancelledMs, deadLettersMs }) =>
    [completeMs, failedMs, cancelledMs, deadLettersMs].flatMap((ms) => ms ?? []),
  )
  return kept.length === 0 ? null : Math.ceil(Math.max(...kept) / DAY_MS)
}

export function openPartitions({ read, write }: Pick<PgContext, 'read' | 'write'>) {
  /** Moves the rows of the next jobs of a day that still exist; true if there are no more. */
  const emptyStep = async (tx: Tx, { table, name, day }: Partition): Promise<boolean> => {
    const cursor = `emptying ${name}`
    const [before] = await tx<{ position: number }[]>`SELECT position FROM cursors WHERE name = ${cursor}`
    const rows = await tx<{ job: JobKey; lives: boolean }[]>`
      SELECT job, job = 0 OR EXISTS (SELECT 1 FROM job_specs WHERE job_specs.key = job) AS lives
      FROM (SELECT DISTINCT job FROM ${tx(name)} WHERE job > ${before?.position ?? -1} ORDER BY job
        LIMIT ${JOBS_PER_STEP}) AS next`
    const living = rows.filter(({ lives }) => lives).map(({ job }) => job)
    if (living.length > 0) {
      await tx`
        UPDATE ${tx(table)} SET day = '-infinity' WHERE day = ${day}::date AND job = ANY(${living}::bigint[])`
    }
    const last = rows.at(-1)
    if (last !== undefined) {
      await tx`
        INSERT INTO cursors (name, position) VALUES (${cursor}, ${last.job})
        ON CONFLICT (name) DO UPDATE SET position = excluded.position`
    }
    return rows.length < JOBS_PER_STEP
  }

  const drop = async (tx: Tx, { name }: Partition): Promise<void> => {
    await tx`DROP TABLE IF EXISTS ${tx(name)}`
    await tx`DELETE FROM cursors WHERE name = ${`emptying ${name}`}`
  }

  const over = (keptDays: number): Promise<Partition[]> =>
    write('looking for old history', async (tx) => {
      const [limit] = await tx<{ day: string }[]>`
        SELECT (current_date - ${keptDays + DAYS_LATE}::int)::text AS day`
      return (await partitionsOf(tx)).filter(({ day }) => day < (limit as { day: string }).day)
    })

  return {
    async keep(): Promise<void> {
      const missing = await read('looking at the tables of the history', missingPartitions)
      await keepPartitions(missing, (run) => write('making tables for the history', run))
    },

    /** Drops the tables of days past the retention. Each step is a short transaction of its own. */
    async retire(rules: readonly PruneRule[]): Promise<void> {
      const keptDays = longestKept(rules)
      if (keptDays === null) return
      for (const partition of await over(keptDays)) {
        const isThere = async (tx: Tx) => (await partitionsOf(tx)).some(({ name }) => name === partition.name)
        for (let isEmpty = false; !isEmpty; ) {
          isEmpty = await write(
            'moving what is kept of the history',
            async (tx) => !(await isThere(tx)) || (await emptyStep(tx, partition)),
            ALONE,
          )
        }
        const dropping: Transaction = (run) => write('dropping old history', run, ALONE)
        if (!(await inPassing(dropping, (tx) => drop(tx, partition)))) return
      }
    },
  }
}
