import { closeSync, existsSync, linkSync, mkdirSync, openSync, unlinkSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { threadId } from 'node:worker_threads'
import { RedressError } from '../../../core/errors.ts'
import { MIGRATIONS } from '../schema/schema.ts'
import { isBusy, storeError } from './errors.ts'
import { lockShared, type StoreLock } from './store-lock.ts'

/** 'rdrs': tells a store from another program's database. */
export const APPLICATION_ID = 0x72647273

/**
 * Older versions can corrupt a WAL database when two connections checkpoint and write at the same moment
 * (the "WAL-reset" bug). Several processes on one file is exactly how Redress is used.
 */
export const SQLITE_VERSION_MIN = [3, 51, 3] as const

/** How long one statement may wait for another process and block the event loop. */
const BUSY_WAIT_MS = 10
const OPEN_WAIT_MS = 10_000
const OPEN_RETRY_MS = 5
const FOLDER_MODE = 0o700
const FILE_MODE = 0o600

export interface Connection {
  readonly database: DatabaseSync
  prepare(sql: string): StatementSync
}

/** A connection to the file of a store. */
export interface StoreConnection extends Connection {
  /** Also releases the lock on the file: until then no process may replace it. */
  close(): void
}

export function openConnection(path: string): StoreConnection {
  refuseOldSqlite(process.versions.sqlite ?? '0')
  let database: DatabaseSync | undefined
  let lock: StoreLock | null = null
  try {
    if (path !== ':memory:') {
      makeFolder(dirname(path))
      // Lock before opening: otherwise a restore could replace the file after it was opened.
      lock = lockShared(path, OPEN_WAIT_MS)
      makeFile(path)
    }
    database = new DatabaseSync(path, { timeout: OPEN_WAIT_MS })
    // Checked before the journal mode is set, because that writes to the file.
    refuseForeign(database, path)
    configure(database)
    migrate(database, path)
    database.exec(`PRAGMA busy_timeout = ${BUSY_WAIT_MS}`)
    const open = database
    const close = () => {
      open.close()
      lock?.release()
    }
    return { database, prepare: database.prepare.bind(database), close }
  } catch (error) {
    database?.close()
    lock?.release()
    throw storeError(error, `opening ${path}`)
  }
}

/** Not mkdir's own `recursive`: under /proc, where no folder can be made, Node tries it for ever. */
export function makeFolder(path: string): void {
  if (existsSync(path)) return
  makeFolder(dirname(path))
  try {
    mkdirSync(path, FOLDER_MODE)
  } catch (error) {
    // Another process that starts on a fresh folder was quicker.
    if (!existsSync(path)) throw error
  }
}

/**
 * Creates an empty file that only its owner can read, because a store holds the inputs of jobs. SQLite gives its WAL
 * and index the same mode. An existing file keeps its mode; `redress doctor` warns if other users can read it.
 */
export function makeFile(path: string): void {
  if (existsSync(path)) return
  const own = `${path}.new-${process.pid}-${threadId}`
  closeSync(openSync(own, 'w', FILE_MODE))
  try {
    // Linked, not opened: closing our descriptor would drop the locks of another thread that has the file open.
    linkSync(own, path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // Without hard links, SQLite creates the file itself; or another process was quicker.
    if (code !== 'EEXIST' && !['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes(String(code))) throw error
  } finally {
    unlinkSync(own)
  }
}

export function refuseOldSqlite(version: string): void {
  const parts = version.split('.').map(Number)
  for (const [i, needed] of SQLITE_VERSION_MIN.entries()) {
    const has = parts[i] ?? 0
    if (has > needed) return
    if (has < needed) {
      throw new RedressError(
        'SQLITE_TOO_OLD',
        `This Node has SQLite ${version}; Redress needs ${SQLITE_VERSION_MIN.join('.')} or newer, because older ones ` +
          'can corrupt a database that several processes write to.',
      )
    }
  }
}

export function refuseForeign(database: DatabaseSync, path: string): void {
  // In this order: another process commits the tables together with the id, so a reader that sees the tables then also finds
  // the id.
  const isEmpty = database.prepare(`SELECT 1 FROM sqlite_schema LIMIT 1`).get() === undefined
  if (isEmpty || pragma(database, 'application_id') === APPLICATION_ID) return
  throw new RedressError('STORE_NOT_REDRESS', `${path} is a database of another program; it was left as it is.`)
}

function configure(database: DatabaseSync): void {
  switchToWal(database)
  database.exec(`
    PRAGMA synchronous = FULL;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA cache_size = -65536;
    PRAGMA temp_store = MEMORY;
  `)
}

/**
 * SQLite does not wait here, despite its timeout: if two processes open a new file at the same moment, one gets SQLITE_BUSY
 * at once.
 */
function switchToWal(database: DatabaseSync): void {
  const untilMs = performance.now() + OPEN_WAIT_MS
  for (;;) {
    try {
      database.exec('PRAGMA journal_mode = WAL')
      return
    } catch (error) {
      if (!isBusy(error) || performance.now() > untilMs) throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, OPEN_RETRY_MS)
    }
  }
}

function migrate(database: DatabaseSync, path: string): void {
  // Usually there is nothing to migrate, and a reader must not wait for a writer.
  const isCurrent = pragma(database, 'user_version') === MIGRATIONS.length
  if (isCurrent && pragma(database, 'application_id') === APPLICATION_ID) return
  // Inside the write lock: of two processes that start at once, the second finds the work done.
  database.exec('BEGIN IMMEDIATE')
  try {
    refuseForeign(database, path)
    const version = pragma(database, 'user_version')
    if (version > MIGRATIONS.length) {
      throw new RedressError(
        'STORE_TOO_NEW',
        `${path} is of version ${version}; this Redress knows versions up to ${MIGRATIONS.length}.`,
      )
    }
    for (const migration of MIGRATIONS.slice(version)) database.exec(migration)
    database.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${MIGRATIONS.length}; COMMIT`)
  } catch (error) {
    // A full disk ends the transaction by itself. A ROLLBACK would then fail and hide the first error.
    if (database.isTransaction) database.exec('ROLLBACK')
    throw error
  }
}

export function pragma(database: DatabaseSync, name: string): number {
  const row = database.prepare(`PRAGMA ${name}`).get() as Record<string, number>
  return row[name] ?? 0
}
