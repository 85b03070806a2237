import { randomUUID } from 'node:crypto'
import type { BigIntStats } from 'node:fs'
import { type FileHandle, link, open, rename, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { artifactExists, type StoredArtifact } from '../artifact-store.ts'
import type { Source } from '../body.ts'
import { keyInvalid } from '../key.ts'
import {
  attempting,
  dropSidecar,
  errnoOf,
  isMissing,
  type Place,
  type Root,
  readSidecar,
  type Sidecar,
  sidecarPath,
  versionOf,
} from './place.ts'
import { BYTES_BETWEEN_CHECKS, type Space, type UnfinishedBytes } from './space.ts'

const FILE_MODE = 0o600
/** How often a folder may vanish under us, emptied by removals, before we say that something else is wrong. */
const FOLDER_TRIES = 10

export interface Put {
  root: Root
  space: Space
  place: Place
  source: Source
  contentType: string | null
  contentEncoding: string | null
  ifAbsent: boolean
}

/** Writes beside the artifacts, and moves into place what is whole and on disk. */
export async function write(put: Put): Promise<StoredArtifact> {
  const { root, place, source } = put
  const unfinished = put.space.beginWrite()
  const temp = join(root.tempFolder, randomUUID())
  const doing = `storing ${place.key}`
  const file = await attempting(doing, () => open(temp, 'wx', FILE_MODE))
  let isMoved = false
  try {
    await fill(file, put, unfinished)
    const { key } = place
    const { contentType, contentEncoding } = put
    const sidecar: Sidecar = { key, bytes: source.bytes, sha256: source.finish(), contentType, contentEncoding }
    const previous = await attempting(doing, () => publish(put, temp, file, sidecar))
    // A link leaves the first name where it was.
    isMoved = !put.ifAbsent
    unfinished.end()
    put.space.stored(sidecar.bytes - Number(previous?.size ?? 0))
    return { key, bytes: sidecar.bytes, sha256: sidecar.sha256 }
  } catch (error) {
    await root.pruneFolders(place)
    throw error
  } finally {
    unfinished.end()
    await file.close().catch(() => undefined)
    if (!isMoved) await Promise.all([temp, `${temp}.json`].map((path) => unlink(path).catch(() => undefined)))
  }
}

async function fill(file: FileHandle, { space, place, source }: Put, unfinished: UnfinishedBytes): Promise<void> {
  let bytesUntilCheck = BYTES_BETWEEN_CHECKS
  for await (const chunk of source.chunks()) {
    unfinished.grow(chunk.byteLength)
    bytesUntilCheck -= chunk.byteLength
    if (bytesUntilCheck <= 0) {
      bytesUntilCheck = BYTES_BETWEEN_CHECKS
      await attempting(`storing ${place.key}`, () => space.admit(place.key, 0))
    }
    await attempting(`writing ${place.key}`, () => writeWhole(file, chunk))
  }
}

/** A disk that is nearly full takes less than it was given, and says so only in the count. */
async function writeWhole(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let written = 0; written < chunk.byteLength; ) {
    written += (await file.write(chunk, written)).bytesWritten
  }
}

async function publish(put: Put, temp: string, file: FileHandle, sidecar: Sidecar): Promise<BigIntStats | null> {
  const { place } = put
  // Both are waited for, whichever fails: the clean-up must not run before the last of them has made its file.
  const flushed = await Promise.allSettled([writeDurably(`${temp}.json`, JSON.stringify(sidecar)), file.sync()])
  for (const outcome of flushed) if (outcome.status === 'rejected') throw outcome.reason
  const version = versionOf(await file.stat({ bigint: true }))
  const previous = await placeSidecar(put, `${temp}.json`, version)
  try {
    // A link, unlike a rename, refuses to replace: of several writers one gets the name.
    if (put.ifAbsent) await link(temp, place.path)
    else await rename(temp, place.path)
  } catch (error) {
    await dropSidecar(place, version)
    throw errnoOf(error) === 'EEXIST' ? artifactExists(place.key, error) : error
  }
  await put.root.sync(place).catch((error) => {
    // Removed again already, folder and all: another caller removed it, so the put did not fail.
    if (!isMissing(error)) throw error
  })
  // Only now: until the rename, readers of the previous artifact needed its checksum.
  if (previous !== null) await dropSidecar(place, versionOf(previous))
  return previous
}

/** Puts the checksum where the artifact will be, and says what was there before. */
async function placeSidecar({ root, place }: Put, temp: string, version: string): Promise<BigIntStats | null> {
  for (let tries = 1; ; tries++) {
    try {
      // The folder mostly exists, so it is only made after a failed try.
      if (tries > 1) await root.ensureFolder(place)
      const previous = await root.look(place)
      if (previous?.isDirectory() === true) throw keyInvalid(place.key, 'other keys begin with it and a slash')
      if (previous !== null) await refuseOtherCase(place, versionOf(previous))
      await rename(temp, sidecarPath(place, version))
      return previous
    } catch (error) {
      // There is no such folder yet, or a removal emptied it and took it away. Or a part of the way is an artifact.
      if (!isMissing(error) || tries === FOLDER_TRIES) throw error
    }
  }
}

/** Where capitals do not count, 'A' would silently replace 'a'. */
async function refuseOtherCase(place: Place, version: string): Promise<void> {
  const there = await readSidecar(sidecarPath(place, version))
  if (there !== null && isOtherCase(there.key, place.key)) {
    throw keyInvalid(place.key, `this file system takes it for ${JSON.stringify(there.key)}, which is there already`)
  }
}

export const isOtherCase = (a: string, b: string): boolean => a !== b && a.toLowerCase() === b.toLowerCase()

async function writeDurably(path: string, text: string): Promise<void> {
  const file = await open(path, 'wx', FILE_MODE)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
}
