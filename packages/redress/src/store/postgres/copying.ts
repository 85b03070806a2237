import { RedressError } from '../../core/errors.ts'
import * as copying from '../contract/copying.ts'
import { openPool, type Pool, type Sql, type Tx } from './connection/client.ts'
import { storeError } from './connection/errors.ts'
import { checkServer, openingError, placeOf } from './connection/opening.ts'
import { printable } from './connection/values.ts'
import { KNOWN_VERSION, migrate, versionOf } from './schema/migrate.ts'
import { HISTORY_TABLES } from './schema/partitions.ts'

const { COPIED_TABLES } = copying

/** Fewer rows at a time than on SQLite, because payloads may be large and their size is not known before. */
const ROWS_PER_FETCH = 200

export interface PostgresCopyOptions {
  url: string
  schema?: string
}

const STATEMENT_MS_MAX = 600_000

/** A copy runs long statements, but a copy that hangs must not hold its locks for ever. */
const PATIENCE = `SET LOCAL statement_timeout = '10min'; SET LOCAL idle_in_transaction_session_timeout = '10min'`

/** Reads everything in one transaction: a snapshot that blocks no other transaction. */
export async function openPostgresSource(options: PostgresCopyOptions): Promise<copying.CopySource> {
  const { url, schema = 'redress' } = options
  const sql = openPool({ url, schema, connectionsMax: 2, statementMs: STATEMENT_MS_MAX })
  const { tx, settledTo, end } = await openSnapshot(sql, url, schema)
  const then = await eventsAfter(tx, settledTo)

  return {
    place: placeOf(url),

    async workersSeen(withinMs) {
      const rows = await tx<{ id: string }[]>`
        SELECT id FROM workers WHERE stopped_at IS NULL AND seen_at >= redress_now() - ${withinMs}::bigint ORDER BY key`
      return rows.map(({ id }) => id)
    },

    columnsOf: ({ name }) => columnsOf(tx, name),
    countOf: ({ name }) => countOf(tx, name),

    async *chunksOf({ name, order }, columns) {
      const rows = tx<copying.CopiedRow[]>`
        SELECT ${tx(columns)} FROM ${tx(name)} ${ofJobsThere(tx, name)} ORDER BY ${tx(order)}`
      for await (const chunk of rows.cursor(ROWS_PER_FETCH)) yield [...chunk]
    },

    async highestOf({ name, numbered = '', remembered = '' }) {
      const sequence = await sequenceOf(tx, name, numbered)
      const [row] = await tx<{ highest: number }[]>`
        SELECT greatest((SELECT max(${tx(numbered)}) FROM ${tx(name)}),
          (SELECT last_value FROM ${tx.unsafe(sequence)} WHERE is_called),
          (SELECT position FROM cursors WHERE name = ${remembered}), 0) AS highest`
      return row?.highest ?? 0
    },

    async eventsMissed() {
      const underWay = await unsettledEvents(sql)
      const now = await eventsAfter(sql, settledTo)
      return Math.max(now.count - then.count, now.newest > then.newest ? 1 : 0) + underWay
    },

    async stop() {
      end()
      await sql.end({ timeout: 5 })
    },
  }
}

interface Snapshot {
  tx: Tx
  /** No event up to this number became visible after the snapshot. */
  settledTo: number
  end(): void
}

function openSnapshot(sql: Pool, url: string, schema: string): Promise<Snapshot> {
  return new Promise((resolve, reject) => {
    const over = Promise.withResolvers<void>()
    sql
      .begin('ISOLATION LEVEL REPEATABLE READ READ ONLY', async (tx) => {
        await tx.unsafe(PATIENCE)
        // On another connection: the snapshot of this one begins with its first query of a table.
        const settledTo = await settledEvents(sql, schema, placeOf(url))
        await refuseOtherVersion(tx, schema, placeOf(url))
        await refuseUncounted(tx, placeOf(url))
        resolve({ tx, settledTo, end: over.resolve })
        await over.promise
      })
      .catch(async (error: unknown) => {
        await sql.end({ timeout: 1 })
        reject(openingError(error, url))
      })
  })
}

async function refuseOtherVersion(sql: Sql, schema: string, place: string): Promise<void> {
  const found = await versionOf(sql)
  if (found === null)
    throw new RedressError('STORE_NOT_FOUND', `There is no store in the schema ${schema} at ${place}.`)
  if (found.version === KNOWN_VERSION) return
  throw new RedressError(
    found.version > KNOWN_VERSION ? 'STORE_TOO_NEW' : 'STORE_TOO_OLD',
    `The schema ${schema} at ${place} is of version ${found.version}; this Redress is of version ${KNOWN_VERSION}.`,
  )
}

/**
 * Uncounted failures below the cursor are known by transaction numbers, which mean nothing on another server.
 */
async function refuseUncounted(tx: Tx, place: string): Promise<void> {
  const [row] = await tx<{ count: number }[]>`
    SELECT count(*) AS count FROM uncounted_failures JOIN failures ON seq BETWEEN first_seq AND last_seq`
  if ((row?.count ?? 0) === 0) return
  throw new RedressError('STORE_IN_USE', `${place} has failures that are not counted into their groups yet.`, {
    action: 'Run `redress failures list` on it, which counts them, and copy again.',
  })
}

export async function openPostgresTarget(options: PostgresCopyOptions): Promise<copying.CopyTarget> {
  const { url, schema = 'redress' } = options
  const sql = openPool({ url, schema, connectionsMax: 1, statementMs: STATEMENT_MS_MAX })
  try {
    await checkServer(sql)
  } catch (error) {
    await sql.end({ timeout: 1 })
    throw openingError(error, url)
  }

  return {
    place: placeOf(url),

    filled: async () => ((await versionOf(sql)) === null ? [] : copying.filledOf(({ name }) => countOf(sql, name))),

    async fill(run) {
      const unwanted = new Error('the copy is not wanted')
      try {
        await migrate(sql, schema)
        await sql.begin(async (tx) => {
          await tx.unsafe(PATIENCE)
          // Readers see an empty store. Writers wait for the lock and are refused after its timeout.
          await tx.unsafe(`LOCK TABLE ${COPIED_TABLES.map(({ name }) => name).join(', ')} IN EXCLUSIVE MODE`)
          if (!(await run(writerOn(tx)))) throw unwanted
        })
        // Without this, plans would use the statistics of empty tables until autovacuum runs.
        await sql.unsafe(`ANALYZE ${COPIED_TABLES.map(({ name }) => name).join(', ')}`)
      } catch (error) {
        if (error !== unwanted) throw storeError(error, `copying to ${placeOf(url)}`)
      }
    },

    stop: () => sql.end({ timeout: 5 }),
  }
}

/**
 * Rows are sent as JSON, a thousand in one parameter. The client's COPY is somewhat faster, but never answers if the server
 * refuses the last part.
 */
function writerOn(tx: Tx): copying.CopyWriter {
  return {
    columnsOf: ({ name }) => columnsOf(tx, name),
    countOf: ({ name }) => countOf(tx, name),

    async add({ name }, columns, rows) {
      let changed = 0
      let text = JSON.stringify(rows)
      // Rare: then each value is checked.
      if (text.includes('\\u0000')) {
        text = JSON.stringify(rows, (_key, value) => {
          if (typeof value !== 'string' || !value.includes('\0')) return value
          changed++
          return printable(value)
        })
      }
      await tx`
        INSERT INTO ${tx(name)} (${tx(columns)})
        SELECT ${tx(columns)} FROM json_populate_recordset(NULL::${tx(name)}, ${text}::text::json)`
      return changed
    },

    async numberBeyond({ name, numbered = '' }, highest) {
      const sequence = await sequenceOf(tx, name, numbered)
      await tx`SELECT setval(${sequence}::regclass, ${Math.max(1, highest)}, ${highest > 0})`
    },
  }
}

const isHistory = (table: string): boolean => (HISTORY_TABLES as readonly string[]).includes(table)

/** The history of removed jobs exists until its day is dropped, but no reader sees it. */
const ofJobsThere = (sql: Sql, table: string) =>
  isHistory(table) ? sql`WHERE job = 0 OR EXISTS (SELECT 1 FROM job_specs WHERE job_specs.key = job)` : sql``

async function columnsOf(sql: Sql, table: string): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    SELECT attname AS name FROM pg_attribute
    WHERE attrelid = ${table}::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum`
  return rows.map(({ name }) => name).filter((name) => !isHistory(table) || name !== 'day')
}

async function countOf(sql: Sql, table: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`SELECT count(*) AS count FROM ${sql(table)} ${ofJobsThere(sql, table)}`
  return row?.count ?? 0
}

/** The name with its schema, quoted if necessary. */
async function sequenceOf(sql: Sql, table: string, column: string): Promise<string> {
  const [row] = await sql<{ name: string }[]>`SELECT pg_get_serial_sequence(${table}, ${column}) AS name`
  return (row as { name: string }).name
}

/**
 * Events get their numbers before they are committed, so a lower number may become visible after a higher one. Up to
 * this number, all events are visible.
 */
async function settledEvents(sql: Sql, schema: string, place: string): Promise<number> {
  await refuseOtherVersion(sql, schema, place)
  const [row] = await sql<{ settled: number }[]>`SELECT settled_to('events') AS settled`
  return row?.settled ?? 0
}

async function eventsAfter(sql: Sql, settledTo: number): Promise<{ count: number; newest: number }> {
  const [row] = await sql<{ count: number; newest: number }[]>`
    SELECT count(*) AS count, coalesce(max(seq), 0) AS newest FROM events WHERE seq > ${settledTo}`
  return row as { count: number; newest: number }
}

/** 1 if a transaction has event numbers and is not committed yet, else 0. */
async function unsettledEvents(sql: Sql): Promise<number> {
  const [row] = await sql<{ unsettled: boolean }[]>`
    SELECT settled_to('events') < coalesce(pg_sequence_last_value(
      pg_get_serial_sequence('events', 'seq')::regclass), 0) AS unsettled`
  return row?.unsettled ? 1 : 0
}
