import { readFileSync, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { isBusy, isNoFile } from './errors.ts'

/**
 * Who has a store open. Beside the file lies `FILE.lock`, an empty database to which nothing is ever written. Whoever
 * opens the store holds a read transaction on it for as long, and whoever wants to replace the file needs it alone. The
 * locks are the kernel's: they end with the process, also by SIGKILL. The file stays: a lock on one that was removed
 * would be seen by nobody.
 *
 * SQLite itself must make and open the lock file. A descriptor of ours on it, once closed, would drop every lock that
 * this process has on it: that is how POSIX locks are.
 */
export interface StoreLock {
  release(): void
}

export const lockPath = (path: string): string => `${path}.lock`

/** Waits while somebody replaces the file. Null where no lock can be made: who may not write there cannot replace either. */
export function lockShared(path: string, waitMs: number): StoreLock | null {
  const database = opened(path, waitMs)
  if (database === null) return null
  try {
    database.exec('BEGIN; SELECT 1 FROM sqlite_schema')
  } catch (error) {
    database.close()
    throw error
  }
  return { release: () => database.close() }
}

/** Null when any process, this one too, has the store open. */
export function lockAlone(path: string): StoreLock | null {
  const database = opened(path, 0)
  // Nobody can have a lock in a place where we cannot make one; and a file cannot be put there either.
  if (database === null) return { release: () => undefined }
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
  try {
    return new DatabaseSync(lockPath(path), { timeout })
  } catch (error) {
    if (isNoFile(error)) return null
    throw error
  }
}

/** The processes that hold the lock, as Linux tells it; empty where the system does not say. */
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
