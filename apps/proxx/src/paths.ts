import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { access, lstat, open, realpath, rename, stat, statfs } from 'node:fs/promises'
import { dirname, isAbsolute, join, relative } from 'node:path'

export const errnoOf = (error: unknown): string => String((error as NodeJS.ErrnoException)?.code ?? '')

/** Where a path really leads, or null when it leads nowhere. */
export async function realPath(path: string): Promise<string | null> {
  try {
    return await realpath(path)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'ENAMETOOLONG'].includes(errnoOf(error))) return null
    throw error
  }
}

/** Links were followed before: a name inside may lead outside. */
export async function isWithin(real: string, roots: readonly string[]): Promise<boolean> {
  for (const root of roots) {
    const realRoot = await realPath(root)
    if (realRoot === null) continue
    const way = relative(realRoot, real)
    if (way === '' || (!isAbsolute(way) && way.split('/')[0] !== '..')) return true
  }
  return false
}

/**
 * Whether a job may reach a path. A missing path is judged by its nearest existing parent: a caller without access
 * must not learn which files exist outside.
 */
export async function isAllowed(path: string, roots: readonly string[] | null): Promise<boolean> {
  if (roots === null) return true
  const real = await realPath(path)
  if (real !== null) return isWithin(real, roots)
  const parent = dirname(path)
  return parent !== path && isAllowed(parent, roots)
}

export async function isThere(path: string): Promise<boolean> {
  try {
    await lstat(path)
    return true
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error))) return false
    throw error
  }
}

/** Why a folder is not writable; null if it is. */
export async function notWritable(folder: string): Promise<string | null> {
  try {
    if (!(await stat(folder)).isDirectory()) return 'is not a directory'
    await access(folder, constants.W_OK | constants.X_OK)
    return null
  } catch (error) {
    const errno = errnoOf(error)
    if (errno === 'ENOENT' || errno === 'ENOTDIR') return 'is not there'
    if (errno === 'EROFS') return 'is on a read-only file system'
    return `cannot be written (${errno})`
  }
}

export async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}

/** A text under its name, whole or not at all, also when the power goes: readers see the old one or the new one. */
export async function writeWhole(path: string, text: string): Promise<void> {
  const temporary = join(dirname(path), `.${randomUUID()}`)
  const file = await open(temporary, 'wx', 0o644)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, path)
}
