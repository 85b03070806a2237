import { lstat, rmdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { isKey } from '../key.ts'
import { isMissing } from './errors.ts'
import type { Root } from './place.ts'
import { parseSidecarName, versionOf } from './sidecar.ts'

/** Removes what writers that died left behind: half-written files, and sidecars whose artifact never came. */
export async function sweepTemp(root: Root, beforeMs: number): Promise<number> {
  const names = (await root.entries(root.tempFolder)).filter((entry) => entry.isFile()).map((entry) => entry.name)
  return sum(names, (name) => unlinkOlder(join(root.tempFolder, name), beforeMs))
}

export async function sweepSidecars(root: Root, beforeMs: number, signal?: AbortSignal, key = ''): Promise<number> {
  signal?.throwIfAborted()
  const folder = join(root.path, key)
  const entries = await root.entries(folder)
  const files = entries.filter((entry) => entry.isFile()).map((entry) => entry.name)
  const orphans = await orphansAmong(folder, files)
  const removed = await sum(orphans, (name) => unlinkOlder(join(folder, name), beforeMs))
  // What the sidecar kept from being pruned when its artifact went.
  if (removed > 0 && key !== '') await rmdir(folder).catch(() => undefined)
  const folders = entries.filter((entry) => entry.isDirectory() && isKey(entry.name))
  return removed + (await sum(folders, ({ name }) => sweepSidecars(root, beforeMs, signal, join(key, name))))
}

/** A single sidecar beside its artifact needs no closer look, and that is nearly all of them. */
async function orphansAmong(folder: string, files: string[]): Promise<string[]> {
  const sidecars = Map.groupBy(files, (file) => parseSidecarName(file)?.name)
  const orphans: string[] = []
  for (const [name, candidates] of sidecars) {
    if (name === undefined) continue
    if (candidates.length === 1 && files.includes(name)) continue
    const version = await versionAt(join(folder, name))
    orphans.push(...candidates.filter((candidate) => parseSidecarName(candidate)?.version !== version))
  }
  return orphans
}

async function versionAt(path: string): Promise<string | null> {
  try {
    return versionOf(await lstat(path, { bigint: true }))
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

/** By its last change: a writer that is still at work has written lately. */
async function unlinkOlder(path: string, beforeMs: number): Promise<number> {
  try {
    if ((await lstat(path)).mtimeMs >= beforeMs) return 0
    await unlink(path)
    return 1
  } catch (error) {
    if (isMissing(error)) return 0
    throw error
  }
}

async function sum<T>(items: readonly T[], count: (item: T) => Promise<number>): Promise<number> {
  let total = 0
  for (const item of items) total += await count(item)
  return total
}
