import type { BigIntStats } from 'node:fs'
import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import type { ListedArtifact } from '../artifact-store.ts'
import { isKey } from '../key.ts'
import { isMissing } from './errors.ts'
import type { Root } from './place.ts'

export interface WalkOptions {
  prefix: string
  after: string
}

export interface Walked extends ListedArtifact {
  stats: BigIntStats
}

/** Artifacts in the order of their keys, as an object store lists them. Symbolic links and foreign names are passed over. */
export async function* walk(root: Root, options: WalkOptions): AsyncGenerator<Walked> {
  // From the prefix's own folder: its neighbours may be many, and reading them is what takes time.
  const folderKey = options.prefix.slice(0, options.prefix.lastIndexOf('/') + 1)
  if (await root.isPlainFolder(folderKey)) yield* walkBelow(root, folderKey, options)
}

async function* walkBelow(root: Root, folderKey: string, options: WalkOptions): AsyncGenerator<Walked> {
  const entries = (await root.entries(join(root.path, folderKey)))
    .filter((entry) => entry.isDirectory() || entry.isFile())
    // With its slash a folder sorts where its keys do: 'a-b' comes before 'a/b', and 'a0' after it.
    .map((entry) => `${folderKey}${entry.name}${entry.isDirectory() ? '/' : ''}`)
    .filter((key) => isKey(key.replace(/\/$/, '')))
    .sort((a, b) => (a < b ? -1 : 1))
  for (const key of entries) {
    if (key.endsWith('/')) {
      if (mayHold(key, options)) yield* walkBelow(root, key, options)
      continue
    }
    if (!key.startsWith(options.prefix) || key <= options.after) continue
    const stats = await statsOf(join(root.path, key))
    if (stats?.isFile() !== true) continue
    yield { key, bytes: Number(stats.size), modifiedAtMs: Number(stats.mtimeMs), stats }
  }
}

function mayHold(folderKey: string, { prefix, after }: WalkOptions): boolean {
  const isWanted = folderKey.startsWith(prefix) || prefix.startsWith(folderKey)
  return isWanted && (after < folderKey || after.startsWith(folderKey))
}

async function statsOf(path: string): Promise<BigIntStats | null> {
  try {
    return await lstat(path, { bigint: true })
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}
