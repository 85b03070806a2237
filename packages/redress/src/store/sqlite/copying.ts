import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { RedressError } from '../../core/errors.ts'
import * as copying from '../contract/copying.ts'
import { openConnection, pragma, refuseForeign } from './connection/connection.ts'
import { storeError } from './connection/errors.ts'
import { MIGRATIONS } from './schema/schema.ts'

const { CHARS_PER_CHUNK, ROWS_PER_CHUNK } = copying

const WAIT_MS = 10_000

export interface SqliteCopyOptions {
  path: string
  nowMs: () => number
}

/** Reads everything in one transaction: a snapshot that does not block writers. */
export function openSqliteSource({ path, nowMs }: SqliteCopyOptions): copying.CopySource {
  const database = openToRead(path)
  database.exec('BEGIN')
  // The snapshot begins with the first read.
  const then = newestEvent(database)

  return {
    place: path,

    workersSeen: async (withinMs) =>
      database
        .prepare('SELECT id FROM workers WHERE stopped_at IS NULL AND seen_at >= ? ORDER BY key')
        .all(nowMs() - withinMs)
        .map(({ id }) => String(id)),

    columnsOf: async ({ name }) => columnsOf(database, name),

    countOf: async ({ name }) => countOf(database, name),

    async *chunksOf({ name, order }, columns) {
      const statement = database.prepare(`SELECT ${names(columns)} FROM ${name} ORDER BY ${names(order)}`)
      let chunk: copying.CopiedRow[] = []
      let chars = 0
      for (const row of statement.iterate() as Iterable<copying.CopiedRow>) {
        chunk.push(row)
        for (const value of Object.values(row)) if (typeof value === 'string') chars += value.length
        if (chunk.length < ROWS_PER_CHUNK && chars < CHARS_PER_CHUNK) continue
        yield chunk
        chunk = []
        chars = 0
      }
      if (chunk.length > 0) yield chunk
    },

    highestOf: async ({ name, numbered, remembered }) => {
      const row = database
        .prepare(
          `SELECT max(
            coalesce((SELECT max("${numbered}") FROM ${name}), 0),
            coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0),
            coalesce((SELECT position FROM cursors WHERE name = ?), 0)) AS highest`,
        )
        .get(name, remembered ?? '')
      return Number(row?.highest)
    },

    async eventsMissed() {
      const later = openToRead(path)
      try {
        return Math.max(0, newestEvent(later) - then)
      } finally {
        later.close()
      }
    },

    async stop() {
      database.close()
    },
  }
}

export function openSqliteTarget(path: string): copying.CopyTarget {
  return {
    place: path,

    async filled() {
      if (!existsSync(path)) return []
      const database = openFile(path)
      try {
        refuseForeign(database, path)
        return await copying.filledOf(async ({ name }) => countIfThere(database, name))
      } finally {
        database.close()
      }
    },

    async fill(run) {
      const { database, close } = openConnection(path)
      try {
        database.exec(`PRAGMA busy_timeout = ${WAIT_MS}; BEGIN IMMEDIATE`)
        const isWanted = await run(writerOn(database))
        database.exec(isWanted ? 'COMMIT' : 'ROLLBACK')
      } catch (error) {
        if (database.isTransaction) database.exec('ROLLBACK')
        throw storeError(error, `copying to ${path}`)
      } finally {
        close()
      }
    },

    stop: async () => undefined,
  }
}

function writerOn(database: DatabaseSync): copying.CopyWriter {
  return {
    columnsOf: async ({ name }) => columnsOf(database, name),
    countOf: async ({ name }) => countOf(database, name),

    async add({ name }, columns, rows) {
      const places = columns.map(() => '?').join(', ')
      const insert = database.prepare(`INSERT INTO ${name} (${names(columns)}) VALUES (${places})`)
      for (const row of rows) insert.run(...columns.map((column) => row[column] ?? null))
      return 0
    },

    async numberBeyond({ name }, highest) {
      const { sql } = database.prepare('SELECT sql FROM sqlite_schema WHERE name = ?').get(name) as { sql: string }
      // The other tables continue from their highest number by themselves.
      if (!sql.includes('AUTOINCREMENT')) return
      database.prepare('DELETE FROM sqlite_sequence WHERE name = ?').run(name)
      database.prepare('INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)').run(name, highest)
    },
  }
}

function openToRead(path: string): DatabaseSync {
  const database = openFile(path)
  try {
    refuseForeign(database, path)
    const version = pragma(database, 'user_version')
    if (version === MIGRATIONS.length) return database
    const isNewer = version > MIGRATIONS.length
    throw new RedressError(
      isNewer ? 'STORE_TOO_NEW' : 'STORE_TOO_OLD',
      `${path} is of version ${version}; this Redress is of version ${MIGRATIONS.length}.`,
    )
  } catch (error) {
    database.close()
    throw storeError(error, `opening ${path}`)
  }
}

/** Not even the journal mode is set. */
function openFile(path: string): DatabaseSync {
  if (!existsSync(path)) throw new RedressError('STORE_NOT_FOUND', `There is no store at ${path}.`)
  try {
    return new DatabaseSync(path, { readOnly: true, timeout: WAIT_MS })
  } catch (error) {
    throw storeError(error, `opening ${path}`)
  }
}

/** A store of an older version may lack the table. */
const countIfThere = (database: DatabaseSync, table: string): number =>
  database.prepare(`SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?`).get(table) === undefined
    ? 0
    : countOf(database, table)

const columnsOf = (database: DatabaseSync, table: string): string[] =>
  database
    .prepare('SELECT name FROM pragma_table_info(?)')
    .all(table)
    .map(({ name }) => String(name))

const countOf = (database: DatabaseSync, table: string): number =>
  Number(database.prepare(`SELECT count(*) AS count FROM ${table}`).get()?.count)

const newestEvent = (database: DatabaseSync): number =>
  Number(database.prepare('SELECT coalesce(max(seq), 0) AS newest FROM events').get()?.newest)

const names = (columns: readonly string[]): string => columns.map((column) => `"${column}"`).join(', ')
