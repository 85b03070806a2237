import type { BigIntStats } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing } from './errors.ts'
import type { Place, Root } from './place.ts'

/**
 * What is known about a stored file, in a file beside it: `.report.xml.8812-1767225600123456789.json` for `report.xml`
 * while that is inode 8812, written at that nanosecond. This version is what ties the two together. A sidecar is
 * written before its artifact appears, and under a name of its own, so it is right whatever other processes do with
 * the same key: a reader who opened a file finds the checksum of exactly those bytes, or none.
 */
export interface Sidecar {
  key: string
  bytes: number
  sha256: string
  contentType: string | null
  contentEncoding: string | null
}

const SIDECAR_NAME = /^\.(.+)\.(\d+-\d+)\.json$/

/** A key of 700 characters and a type of 200 are far below it, whatever is escaped. */
const SIDECAR_BYTES_MAX = 8_192

/** The inode alone would not do: the file system gives the number of a replaced file to the next one at once. */
export const versionOf = ({ ino, mtimeNs }: BigIntStats): string => `${ino}-${mtimeNs}`

export function sidecarPath({ folder, name }: Place, version: string): string {
  return join(folder, `.${name}.${version}.json`)
}

/** Which file a sidecar belongs to; null for a name that is not a sidecar's. */
export function parseSidecarName(fileName: string): { name: string; version: string } | null {
  const [, name, version] = SIDECAR_NAME.exec(fileName) ?? []
  return name === undefined || version === undefined ? null : { name, version }
}

export async function readSidecar(path: string): Promise<Sidecar | null> {
  try {
    const { key, bytes, sha256, contentType, contentEncoding } = JSON.parse(await readShort(path))
    const isWhole = typeof key === 'string' && typeof bytes === 'number' && /^[0-9a-f]{64}$/.test(sha256)
    if (!isWhole) return null
    return { key, bytes, sha256, contentType: textOr(contentType), contentEncoding: textOr(contentEncoding) }
  } catch (error) {
    // Cut off by a power failure before the put was acknowledged: then nothing is known, and that is what we say.
    if (isMissing(error) || error instanceof SyntaxError) return null
    throw error
  }
}

const textOr = (value: unknown): string | null => (typeof value === 'string' ? value : null)

/** What is longer is none of ours, and what is cut off is no JSON. */
async function readShort(path: string): Promise<string> {
  const file = await open(path)
  try {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(SIDECAR_BYTES_MAX), 0, SIDECAR_BYTES_MAX, 0)
    return buffer.toString('utf8', 0, bytesRead)
  } finally {
    await file.close()
  }
}

/**
 * For a file that is no longer the version it was stored as: a backup was restored, or somebody wrote into it. The
 * sidecar is there under the old version, and is believed if it is the only one; whether it still fits is then the
 * question that verifying answers.
 */
export async function readOnlySidecar(root: Root, place: Place): Promise<Sidecar | null> {
  const names = (await root.entries(place.folder)).map((entry) => entry.name)
  const [found, another] = names.filter((name) => parseSidecarName(name)?.name === place.name)
  return found === undefined || another !== undefined ? null : readSidecar(join(place.folder, found))
}

export async function dropSidecar(place: Place, version: string): Promise<void> {
  await rm(sidecarPath(place, version), { force: true })
}
