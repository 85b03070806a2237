import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { RedressError } from 'redress'
import { type Answered, type Driver, type Tables, type Value, versionsAfter } from './rows.ts'

/** How long a statement may keep the event loop waiting for another process; after that it is tried again later. */
const BUSY_WAIT_MS = 10
const BUSY_RETRY_MS = 5
const BUSY_MS_MAX = 10_000

/**
 * A connection of our own on the file of the store. Everything is done within one turn of the event loop: a transaction
 * that waited in the middle would lock out the engine's connection in this very thread, which then waits for us.
 */
export function sqliteRows(path: string, isInMemory: boolean): Driver {
  const database = new DatabaseSync(path, { timeout: BUSY_WAIT_MS })
  database.exec('PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL')
  if (!isInMemory) database.exec('PRAGMA journal_mode = WAL')
  const statements = new Map<string, StatementSync>()

  const ask = (sql: string, params: readonly Value[]): Answered => {
    let statement = statements.get(sql)
    if (statement === undefined) {
      statement = database.prepare(sql.replaceAll(/\$(\d+)/g, '?$1'))
      statements.set(sql, statement)
    }
    if (statement.columns().length === 0) return { rows: [], count: Number(statement.run(...params).changes) }
    // Plain objects, as the other driver gives them.
    const rows = statement.all(...params).map((row) => ({ ...row }))
    return { rows, count: rows.length }
  }

  const inTransaction = <T>(work: () => T): T => {
    database.exec('BEGIN IMMEDIATE')
    try {
      const done = work()
      database.exec('COMMIT')
      return done
    } catch (error) {
      // A full disk has already ended the transaction. A second end would fail and hide the cause.
      if (database.isTransaction) database.exec('ROLLBACK')
      throw error
    }
  }

  return {
    ask: (sql, params) => whileBusy(() => ask(sql, params)),
    atomically: (steps) =>
      whileBusy(() => inTransaction(() => steps.map(({ sql, params = [] }) => ask(sql, params).rows))),
    migrate: (tables) => whileBusy(() => inTransaction(() => migrate(database, ask, tables))),
    versionOf: (app) => whileBusy(() => versionOf(database, ask, app)),
    close: async () => database.close(),
  }
}

function migrate(
  database: DatabaseSync,
  ask: (sql: string, params: readonly Value[]) => Answered,
  tables: Tables,
): void {
  database.exec('CREATE TABLE IF NOT EXISTS app_tables (name text PRIMARY KEY, version bigint NOT NULL)')
  const versions = versionsAfter(versionOf(database, ask, tables.name) ?? 0, tables)
  if (versions.length === 0) return
  for (const version of versions) database.exec(version)
  ask(
    'INSERT INTO app_tables (name, version) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET version = excluded.version',
    [tables.name, tables.versions.length],
  )
}

function versionOf(
  database: DatabaseSync,
  ask: (sql: string, params: readonly Value[]) => Answered,
  app: string,
): number | null {
  const isThere = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'app_tables'").get() !== undefined
  if (!isThere) return null
  const { rows } = ask('SELECT version FROM app_tables WHERE name = $1', [app])
  return (rows as { version: number }[])[0]?.version ?? null
}

/** Another process may hold the file for a while. The event loop stays free meanwhile. */
async function whileBusy<T>(work: () => T): Promise<T> {
  const untilMs = performance.now() + BUSY_MS_MAX
  for (;;) {
    try {
      return work()
    } catch (error) {
      if (!isBusy(error) || performance.now() > untilMs) throw storeError(error)
      await new Promise((resolve) => setTimeout(resolve, BUSY_RETRY_MS))
    }
  }
}

const resultCode = (error: unknown): number => Number((error as { errcode?: unknown } | null)?.errcode ?? 0) & 0xff
const isBusy = (error: unknown): boolean => [5, 6].includes(resultCode(error))

function storeError(error: unknown): RedressError {
  if (error instanceof RedressError) return error
  const code = resultCode(error)
  if (isBusy(error))
    return new RedressError('STORE_BUSY', 'The store stayed locked by another process.', { cause: error })
  if (code === 13) return new RedressError('STORE_FULL', 'The disk is full: nothing was written.', { cause: error })
  const because = error instanceof Error ? error.message : String(error)
  return new RedressError('STORE_FAILED', `The rows of an app could not be read or written: ${because}.`, {
    cause: error,
  })
}
