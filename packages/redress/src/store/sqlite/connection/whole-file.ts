import { closeSync, existsSync, fsyncSync, linkSync, openSync, renameSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { lockPath } from './store-lock.ts'

/** What SQLite may leave beside a database. */
export const COMPANIONS = ['-journal', '-wal', '-shm'] as const

/** A name beside the final one, on the same disk: what stands under it is not whole yet. */
export const partialName = (path: string, pid: number): string => `${path}.partial-${pid}`

/**
 * Gives a finished file its name, so that under this name there is all of it or nothing, also after a power cut.
 * False when the name is taken and nothing may be replaced.
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

/** A link is refused where the name is taken, at the same moment; a rename would replace what came there meanwhile. */
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
