import { chmodSync, existsSync, readFileSync, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { RedressError } from '../../../core/errors.ts'
import { isBusy, isNoFile } from './errors.ts'

/**
 * Tracks which processes have a store open. `FILE.lock` beside the file is an empty database that is never
 * written. Every process that opens the store holds a read transaction on it. A process that wants to replace the
 * file needs an exclusive lock on it. The kernel releases the locks when the process ends, even by SIGKILL. The lock
 * file is never removed: other processes would not see a lock on a removed file. SQLite itself must create and open
 * the lock file. If we closed a descriptor of our own on it, POSIX would drop every lock that this process holds on
 * it.
 */
export interface StoreLock {
  release(): void
}

export const lockPath = (path: string): string => `${path}.lock`

/** It is empty, so anyone may read it: every user of the store must be able to hold the lock. */
const LOCK_MODE = 0o644

/** Waits while a restore replaces the file. Throws if no lock can be taken: a restore would not see this process. */
export function lockShared(path: string, waitMs: number): StoreLock {
  const database = opened(path, waitMs)
  if (database === null) throw noLock(path)
  try {
    database.exec('BEGIN; SELECT 1 FROM sqlite_schema')
  } catch (error) {
    database.close()
    throw error
  }
  return { release: () => database.close() }
}

/** Null if any process, including this one, has the store open. */
export function lockAlone(path: string): StoreLock | null {
  const database = opened(path, 0)
  if (database === null) {
    if (existsSync(lockPath(path))) throw noLock(path)
    // If no lock file can be created here, no process holds the lock, and no store can be restored here either.
    return { release: () => undefined }
  }
  try {
    database.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    if (isBusy(error)) return null
    throw error
  }
  return { release: () => database.close() }
}

function opened(path: string, timeout: number): DatabaseSync | null {
  const isNew = !existsSync(lockPath(path))
  try {
    const database = new DatabaseSync(lockPath(path), { timeout })
    if (isNew && statSync(lockPath(path)).uid === process.getuid?.()) chmodSync(lockPath(path), LOCK_MODE)
    return database
  } catch (error) {
    if (isNoFile(error)) return null
    throw error
  }
}

function noLock(path: string): RedressError {
  const message = `The lock file ${lockPath(path)} cannot be opened. Without it, a restore would not see that the store is open.`
  const action = 'Check that it is a file, and that this user may read it and write to its folder.'
  return new RedressError('STORE_FAILED', message, { action })
}

/** The processes that hold the lock, from /proc/locks; empty if the system does not tell. */
export function pidsHolding(path: string): number[] {
  try {
    const { ino } = statSync(lockPath(path))
    const lines = readFileSync('/proc/locks', 'utf8').split('\n')
    // 3: POSIX  ADVISORY  READ 12302 fe:00:4244167 1073741826 1073742335
    const found = lines.flatMap((line) => {
      const [, pid, inode] = /^\d+: POSIX .* (\d+) [\da-f]+:[\da-f]+:(\d+) /.exec(line) ?? []
      return Number(inode) === ino && Number(pid) > 0 ? [Number(pid)] : []
    })
    return [...new Set(found)].sort((a, b) => a - b)
  } catch {
    return []
  }
}
