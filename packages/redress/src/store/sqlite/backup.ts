import { existsSync, renameSync, statSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { backup, DatabaseSync } from 'node:sqlite'
import { RedressError } from '../../core/errors.ts'
import { COPIED_TABLES, type TableCount } from '../contract/copying.ts'
import type { ActorAndReason } from '../contract/store.ts'
import { history } from '../scripts/history.ts'
import { finish } from '../scripts/tx/script.ts'
import { APPLICATION_ID, makeFile, makeFolder, openConnection, pragma } from './connection/connection.ts'
import { storeError } from './connection/errors.ts'
import { lockAlone, pidsHolding } from './connection/store-lock.ts'
import { openTx } from './connection/tx.ts'
import { COMPANIONS, partialName, publish, removeWithCompanions } from './connection/whole-file.ts'
import { MIGRATIONS } from './schema/schema.ts'

/** A few megabytes: the progress is reported between two steps. */
const PAGES_PER_STEP = 1_000
const WAIT_MS = 10_000
const DAMAGE_LINES_MAX = 20

export type OnPages = (done: number, total: number) => void

/** The contents of a file. */
export interface CheckedFile {
  /** The version of its tables. */
  version: number
  bytes: number
  tables: TableCount[]
}

/** Creates a complete file under its final name, or none. `make` gets the temporary name. */
export async function makeWhole<T>(
  path: string,
  { mayReplace, pid }: { mayReplace: boolean; pid: number },
  make: (partial: string) => Promise<T>,
): Promise<T> {
  if (!mayReplace && existsSync(path)) throw taken(path)
  const partial = partialName(path, pid)
  const clear = () => removeWithCompanions(partial)
  process.once('exit', clear)
  try {
    clear()
    const made = await make(partial)
    if (!publish(partial, path, mayReplace)) throw taken(path)
    return made
  } catch (error) {
    throw isNoSpace(error) ? full(error) : storeError(error, `writing ${path}`)
  } finally {
    clear()
    process.off('exit', clear)
  }
}

/**
 * Copies a snapshot of a store that is in use. An open read transaction holds the snapshot: without it, SQLite would restart
 * the backup after every write of another process and might never finish. Writers do not wait, but the WAL of the source
 * cannot be checkpointed meanwhile and grows.
 */
export async function copyFile(from: string, to: string, onPages: OnPages = () => undefined): Promise<CheckedFile> {
  const source = openToRead(from)
  try {
    source.exec('BEGIN')
    const before = contentsOf(source, from)
    makeFile(to)
    await backup(source, to, {
      rate: PAGES_PER_STEP,
      progress: ({ totalPages, remainingPages }) => onPages(totalPages - remainingPages, totalPages),
    })
    onPages(1, 1)
    standAlone(to)
    const after = checkFile(to)
    if (JSON.stringify(before.tables) !== JSON.stringify(after.tables)) {
      throw new RedressError('BACKUP_DAMAGED', `The copy of ${from} does not hold what the store holds.`)
    }
    return after
  } catch (error) {
    throw isNoSpace(error) ? full(error) : storeError(error, `copying ${from}`)
  } finally {
    source.close()
  }
}

/** Turns WAL mode off, so that the copy is one file that can be read without writing beside it. */
export function standAlone(path: string): void {
  const database = new DatabaseSync(path, { timeout: WAIT_MS })
  try {
    database.exec('PRAGMA journal_mode = DELETE')
  } finally {
    database.close()
  }
}

/** Turns WAL mode on, as a store in use needs it. */
function readyForUse(path: string): void {
  const database = new DatabaseSync(path, { timeout: WAIT_MS })
  try {
    database.exec('PRAGMA journal_mode = WAL')
  } finally {
    database.close()
  }
}

/** Refuses a file that is not a store, that a newer Redress wrote, or that is damaged. */
export function checkFile(path: string): CheckedFile {
  const database = openToRead(path)
  try {
    const contents = contentsOf(database, path)
    const lines = database.prepare(`PRAGMA integrity_check(${DAMAGE_LINES_MAX})`).all()
    const damage = lines.map((line) => String(line.integrity_check)).filter((line) => line !== 'ok')
    if (damage.length > 0) throw damaged(path, { problems: damage })
    return contents
  } catch (error) {
    // Any first read may report the damage.
    if (error instanceof RedressError) throw error
    throw isDamage(error) ? damaged(path, { cause: error }) : storeError(error, `checking ${path}`)
  } finally {
    database.close()
  }
}

export interface Restored extends CheckedFile {
  /** Where the previous store was moved to; null if there was none. */
  aside: string | null
  /** Sessions and sign-in links that were revoked. */
  credentialsDropped: number
}

export interface RestoreOptions {
  from: string
  to: string
  /** Where to move an existing store; null: an existing store is an error. */
  aside: string | null
  by: ActorAndReason
  nowMs: number
  pid: number
  onPages?: OnPages
  /** Last changes before other processes can see it. */
  finish: (partial: string) => Promise<void>
}

/** Restores a backup into a new store. */
export async function restoreFile(options: RestoreOptions): Promise<Restored> {
  const { from, to, aside, pid, onPages, finish } = options
  if (!existsSync(from)) {
    throw new RedressError('STORE_NOT_FOUND', `There is no file ${from}.`, { action: 'Check the path of the backup.' })
  }
  checkFile(from)
  makeFolder(dirname(to))
  // A log without its file would be played back into the next file of that name.
  const isTaken = () => ['', ...COMPANIONS].some((name) => existsSync(`${to}${name}`))
  if (isTaken() && aside === null) throw notEmpty(to)
  // A process that has the file open would keep writing to it under its new name. A process that opens it now waits.
  const lock = lockAlone(to)
  if (lock === null) throw inUse(to)
  let wasThere = false
  try {
    return await makeWhole(to, { mayReplace: aside !== null, pid }, async (partial) => {
      await copyFile(from, partial, onPages)
      const credentialsDropped = reviveFile(partial, options)
      await finish(partial)
      standAlone(partial)
      const restored = checkFile(partial)
      readyForUse(partial)
      wasThere = isTaken()
      if (wasThere && aside !== null) move(to, aside)
      return { ...restored, credentialsDropped, aside: wasThere ? aside : null }
    })
  } catch (error) {
    // The previous store is back in its place.
    if (wasThere && aside !== null && !existsSync(to)) move(aside, to)
    throw error instanceof RedressError && error.code === 'BACKUP_EXISTS' ? notEmpty(to) : error
  } finally {
    lock.release()
  }
}

function inUse(path: string): RedressError {
  const pids = pidsHolding(path)
  const workers = workersOn(path)
  const named = pids.map((pid) => {
    const ids = workers.filter((worker) => worker.pid === pid).map(({ id }) => id)
    return ids.length === 0 ? String(pid) : `${pid} (worker ${ids.join(', ')})`
  })
  const who = named.length === 0 ? '' : `: process ${named.join(', ')}`
  return new RedressError('STORE_IN_USE', `${path} is open in other programs${who}.`, {
    action: 'Stop the programs that use it, servers and submitters too, and try again. Nothing was changed.',
  })
}

/**
 * Revokes the sessions and links of the backup, because their accounts may have been disabled since, and marks its workers as
 * stopped.
 */
function reviveFile(path: string, { from, by, nowMs }: RestoreOptions): number {
  const { database, close } = openConnection(path)
  try {
    database.exec('BEGIN IMMEDIATE')
    const { changes } = database.prepare(`DELETE FROM credentials WHERE kind IN ('session', 'link')`).run()
    database.exec('UPDATE workers SET stopped_at = seen_at WHERE stopped_at IS NULL')
    const tx = openTx({ database, prepare: database.prepare.bind(database) }, { nowMs: () => nowMs })
    finish(history.audit(tx, by, { atMs: nowMs, act: 'restore', target: 'store', ids: [basename(from)] }))
    database.exec('COMMIT')
    return Number(changes)
  } finally {
    close()
  }
}

/** Workers that did not report a stop; none if the file cannot be read, which may be why it is being restored. */
function workersOn(path: string): { id: string; pid: number }[] {
  let database: DatabaseSync | undefined
  try {
    database = new DatabaseSync(path, { readOnly: true, timeout: WAIT_MS })
    const rows = database.prepare('SELECT id, pid FROM workers WHERE stopped_at IS NULL ORDER BY key').all()
    return rows.map(({ id, pid }) => ({ id: String(id), pid: Number(pid) }))
  } catch {
    return []
  } finally {
    database?.close()
  }
}

/** Together with its WAL, which is a part of the store. */
function move(from: string, to: string): void {
  for (const name of ['', ...COMPANIONS]) if (existsSync(`${from}${name}`)) renameSync(`${from}${name}`, `${to}${name}`)
}

function openToRead(path: string): DatabaseSync {
  if (!existsSync(path)) throw new RedressError('STORE_NOT_FOUND', `There is no file ${path}.`)
  try {
    return new DatabaseSync(path, { readOnly: true, timeout: WAIT_MS })
  } catch (error) {
    throw storeError(error, `opening ${path}`)
  }
}

function contentsOf(database: DatabaseSync, path: string): CheckedFile {
  // An empty file is a valid database, but not a store.
  if (pragma(database, 'application_id') !== APPLICATION_ID) {
    throw new RedressError('STORE_NOT_REDRESS', `${path} is no store of Redress.`)
  }
  const version = pragma(database, 'user_version')
  if (version > MIGRATIONS.length) {
    throw new RedressError(
      'STORE_TOO_NEW',
      `${path} is of version ${version}; this Redress knows versions up to ${MIGRATIONS.length}.`,
    )
  }
  // A store that is migrated later has fewer tables.
  const isThere = database.prepare(`SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?`)
  const tables = COPIED_TABLES.filter(({ name }) => isThere.get(name) !== undefined).map(({ name }) => ({
    table: name,
    rows: Number(database.prepare(`SELECT count(*) AS count FROM ${name}`).get()?.count),
  }))
  return { version, bytes: statSync(path).size, tables }
}

const SQLITE_CORRUPT = 11

const isDamage = (error: unknown): boolean => {
  const code = (error as { errcode?: unknown } | null)?.errcode
  return typeof code === 'number' && (code & 0xff) === SQLITE_CORRUPT
}

const isNoSpace = (error: unknown): boolean =>
  ['ENOSPC', 'EDQUOT'].includes(String((error as { code?: unknown } | null)?.code))

const full = (cause: unknown): RedressError =>
  new RedressError('STORE_FULL', 'The disk is full: there is no copy.', { cause })

const damaged = (path: string, details: { problems?: readonly string[]; cause?: unknown }): RedressError =>
  new RedressError('BACKUP_DAMAGED', `${path} is damaged.`, details)

const notEmpty = (path: string): RedressError =>
  new RedressError('STORE_NOT_EMPTY', `There is a store at ${path} already.`, {
    action: 'Restore into another place, or add --force: what is there is then moved aside and kept.',
  })

const taken = (path: string): RedressError => new RedressError('BACKUP_EXISTS', `There is a file ${path} already.`)
