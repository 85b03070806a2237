import { closeSync, existsSync, fsyncSync, linkSync, openSync, renameSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { lockPath } from './store-lock.ts'

/** Files that SQLite may leave beside a database. */
export const COMPANIONS = ['-journal', '-wal', '-shm'] as const

/** The name of an incomplete file: beside the final name, on the same disk. */
export const partialName = (path: string, pid: number): string => `${path}.partial-${pid}`

/**
 * Gives a finished file its name. Under this name there is always the whole file or none, even after a power cut. False if
 * the name is taken and must not be replaced.
 */
export function publish(partial: string, path: string, mayReplace: boolean): boolean {
  sync(partial)
  if (mayReplace) renameSync(partial, path)
  else if (!linkUnlessTaken(partial, path)) return false
  sync(dirname(path))
  return true
}

export function removeWithCompanions(path: string): void {
  for (const name of ['', ...COMPANIONS]) rmSync(`${path}${name}`, { force: true })
  // No other process knows this file, so its lock file can be removed.
  rmSync(lockPath(path), { force: true })
}

/** A link fails if the name is taken. A rename would replace a file that another process has just created. */
function linkUnlessTaken(partial: string, path: string): boolean {
  try {
    linkSync(partial, path)
  } catch (error) {
    if (existsSync(path)) return false
    // Some file systems have no links.
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes(String((error as { code?: unknown }).code))) throw error
    renameSync(partial, path)
    return true
  }
  rmSync(partial)
  return true
}

function sync(path: string): void {
  const file = openSync(path, 'r')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
