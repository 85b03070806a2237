import { createWriteStream } from 'node:fs'
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { openStores } from '@redress/shared/artifact-stores'
import type { Environment } from '@redress/shared/settings'
import type { Log } from 'redress'
import type { ArtifactStore } from 'redress/artifacts'
import type { Settings } from './settings.ts'

/** What was handed in, and what was made of it. Names follow from ids: nobody can name another's file. */
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
 * A folder of its own for work that may be killed at any moment. Whoever does the same work again first removes what
 * was left of it; should the one before still be alive, its lease is lost and its work worth nothing.
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

/** What was left by those whose work nobody does again. */
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
