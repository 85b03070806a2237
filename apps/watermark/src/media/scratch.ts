import { lstat, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { synced } from '@redress/shared/files'
import { type MediaStage, named } from '@redress/shared/media/errors'

const PREFIX = '.unfinished-'

/**
 * Gives `work` its own folder beside the target, on the same disk, and always removes it. Programs run in it, so no
 * outside file name becomes part of a filter.
 */
export async function inScratch<T>(
  target: string,
  stage: MediaStage,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  let folder: string
  try {
    folder = await mkdtemp(join(dirname(target), PREFIX))
  } catch (error) {
    throw named(error, stage)
  }
  try {
    return await work(folder)
  } catch (error) {
    throw named(error, stage)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Makes a finished file visible under its name, atomically and durably. */
export async function publish(finished: string, target: string): Promise<void> {
  await synced(finished)
  await rename(finished, target)
  await synced(dirname(target))
}

/** A killed process leaves its folder behind. Removes folders that have not changed for this long, and counts them. */
export async function removeAbandoned(
  folder: string,
  { untouchedMs, nowMs }: { untouchedMs: number; nowMs: number },
): Promise<number> {
  let removed = 0
  for (const name of await readdir(folder)) {
    const path = join(folder, name)
    if (!name.startsWith(PREFIX) || (await touchedMs(path)) > nowMs - untouchedMs) continue
    await rm(path, { recursive: true, force: true })
    removed++
  }
  return removed
}

/** A folder is as young as the youngest of its files: an encode that runs for an hour writes into one. */
async function touchedMs(folder: string): Promise<number> {
  try {
    const files = [folder, ...(await readdir(folder)).map((file) => join(folder, file))]
    return Math.max(...(await Promise.all(files.map(async (file) => (await lstat(file)).mtimeMs))))
  } catch (error) {
    // It ended while we looked.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Number.POSITIVE_INFINITY
    throw error
  }
}
