import { createWriteStream } from 'node:fs'
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { openStores } from '@redress/shared/artifact-stores'
import type { Environment } from '@redress/shared/settings'
import type { Log } from 'redress'
import type { ArtifactStore } from 'redress/artifacts'
import type { Settings } from './settings.ts'

/** Uploaded files and the copies made from them. Names follow from ids, so no request can name another owner's file. */
export interface Files {
  /** Sources, their thumbnails, and suspects. */
  assets: ArtifactStore
  /** One for each token. */
  copies: ArtifactStore
  work: string
}

export const sourceKey = (assetId: string): string => `sources/${assetId}`
export const thumbnailKey = (assetId: string): string => `thumbnails/${assetId}.jpg`
export const SUSPECTS = 'suspects/'
export const suspectKey = (jobId: string): string => `${SUSPECTS}${jobId}`
export const copyKey = (tokenId: string): string => tokenId

export async function openFiles(settings: Settings, env: Environment, log: Log): Promise<Files> {
  const { assetsUrl, copiesUrl, space, work } = settings
  const opened = await openStores(assetsUrl, copiesUrl, { appName: 'watermark', space, env, log })
  return { assets: opened.sources, copies: opened.products, work }
}

/** Programs take names of files; the store may be a bucket. Fails where the bytes are not those that were stored. */
export async function fetchTo(
  store: ArtifactStore,
  key: string,
  path: string,
  signal?: AbortSignal | undefined,
): Promise<void> {
  const { body } = await store.get(key, { verify: true, signal })
  await pipeline(body, createWriteStream(path), { ...(signal !== undefined && { signal }) })
}

/**
 * Gives work that may be killed at any moment its own folder. The next attempt first removes the leftovers. If the
 * previous worker is still alive, it has lost its lease, and its result is not used.
 */
export async function inWorkFolder<T>(
  work: string,
  id: string,
  attempt: number,
  run: (folder: string) => Promise<T>,
): Promise<T> {
  await mkdir(work, { recursive: true, mode: 0o700 })
  await removeLeftovers(work, (name) => name.startsWith(`${id}.`))
  const folder = join(work, `${id}.${attempt}`)
  await mkdir(folder, 0o700)
  try {
    return await run(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Removes leftovers of attempts that are not repeated. */
export async function sweepWork(work: string, olderThanMs: number, nowMs: number): Promise<number> {
  await mkdir(work, { recursive: true, mode: 0o700 })
  return removeLeftovers(work, async (name) => {
    const { mtimeMs } = await stat(join(work, name)).catch(() => ({ mtimeMs: nowMs }))
    return mtimeMs < nowMs - olderThanMs
  })
}

async function removeLeftovers(work: string, isLeft: (name: string) => boolean | Promise<boolean>): Promise<number> {
  let removed = 0
  for (const name of await readdir(work)) {
    if (!(await isLeft(name))) continue
    await rm(join(work, name), { recursive: true, force: true })
    removed++
  }
  return removed
}
