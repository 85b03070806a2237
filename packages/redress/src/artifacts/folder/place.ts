import { type BigIntStats, constants } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, readdir, realpath, rm, rmdir } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { RedressError } from '../../core/errors.ts'
import { checkKey, keyInvalid } from '../key.ts'

/** Only the user who runs the server: artifacts are what people sent us. */
const FOLDER_MODE = 0o700

export interface Place {
  key: string
  folder: string
  name: string
  path: string
}

/** The files under one folder, by key. No key leads out of it: not by its text, and not through a symbolic link. */
export class Root {
  /** Without symbolic links, so that a path under it that has one is seen to be longer or shorter. */
  readonly path: string
  readonly tempFolder: string
  readonly #realpaths = new SharedSteps((path) => realpath(path))
  readonly #syncs = new SharedSteps(syncFolder)

  private constructor(path: string) {
    this.path = path
    this.tempFolder = join(path, '.tmp')
  }

  static async open(path: string): Promise<Root> {
    await mkdir(path, { recursive: true, mode: FOLDER_MODE })
    const root = new Root(await realpath(path))
    await mkdir(root.tempFolder, { recursive: true, mode: FOLDER_MODE })
    if ((await realpath(root.tempFolder)) !== root.tempFolder) {
      throw new RedressError(
        'OPTION_INVALID',
        `${root.tempFolder} is a symbolic link: artifacts would be written elsewhere.`,
      )
    }
    return root
  }

  place(key: string): Place {
    checkKey(key)
    const folder = join(this.path, posix.dirname(key))
    const name = posix.basename(key)
    return { key, folder, name, path: join(folder, name) }
  }

  /** Null when nothing is there. */
  async openFile(place: Place): Promise<{ file: FileHandle; stats: BigIntStats } | null> {
    let file: FileHandle | undefined
    try {
      await this.#refuseLinks(place)
      // Non-blocking: opening a named pipe would wait for a writer.
      file = await open(place.path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
      const stats = await file.stat({ bigint: true })
      if (stats.isFile()) return { file, stats }
      await file.close()
      return null
    } catch (error) {
      await file?.close()
      if (errnoOf(error) === 'ELOOP') throw leadsThroughLink(place.key, error)
      if (isMissing(error)) return null
      throw error
    }
  }

  /** What stands at this key now; null when nothing does. */
  async look(place: Place): Promise<BigIntStats | null> {
    try {
      await this.#refuseLinks(place)
      const stats = await lstat(place.path, { bigint: true })
      if (stats.isSymbolicLink()) throw leadsThroughLink(place.key)
      return stats
    } catch (error) {
      if (isMissing(error)) return null
      throw error
    }
  }

  /** Makes the folder of a key. Step by step: a recursive mkdir would follow a link out of the root. */
  async ensureFolder(place: Place): Promise<void> {
    if (await this.isPlainFolder(posix.dirname(place.key))) return
    let folder = this.path
    for (const part of posix.dirname(place.key).split('/')) {
      const parent = folder
      folder = join(folder, part)
      const isNew = await mkdir(folder, { mode: FOLDER_MODE }).then(
        () => true,
        (error) => {
          if (errnoOf(error) === 'EEXIST') return false
          throw error
        },
      )
      // A folder that a power cut takes away takes the acknowledged artifact with it.
      if (isNew) await syncFolder(parent)
      const stats = await lstat(folder)
      if (stats.isSymbolicLink()) throw leadsThroughLink(place.key)
      if (!stats.isDirectory()) throw keyInvalid(place.key, `there is an artifact at ${JSON.stringify(part)} above it`)
    }
  }

  /** Removes folders that hold nothing any more, from here upwards. A new file of another process keeps its folder. */
  async pruneFolders(place: Place): Promise<void> {
    for (let key = posix.dirname(place.key); key !== '.'; key = posix.dirname(key)) {
      try {
        await rmdir(join(this.path, key))
      } catch {
        return
      }
    }
  }

  /** False for a folder that is not there, or that a symbolic link leads to. */
  async isPlainFolder(key: string): Promise<boolean> {
    const folder = join(this.path, key, '.')
    try {
      return (await realpath(folder)) === folder && (await lstat(folder)).isDirectory()
    } catch (error) {
      if (isMissing(error)) return false
      throw error
    }
  }

  /** Makes the name of an artifact durable, and those of all that came to its folder until now. */
  sync({ folder }: Place): Promise<void> {
    return this.#syncs.run(folder)
  }

  /** Entries of a folder; none when it was removed meanwhile. */
  async entries(folder: string) {
    try {
      return await readdir(folder, { withFileTypes: true })
    } catch (error) {
      if (isMissing(error)) return []
      throw error
    }
  }

  async #refuseLinks({ folder, key }: Place): Promise<void> {
    if ((await this.#realpaths.run(folder)) !== folder) throw leadsThroughLink(key)
  }
}

function leadsThroughLink(key: string, cause?: unknown): Error {
  return keyInvalid(key, 'it leads through a symbolic link', cause)
}

/** Makes names in this folder durable: a rename is only in memory until its folder is written. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export function errnoOf(error: unknown): string | null {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : null
}

export const isMissing = (error: unknown): boolean => ['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')

/** No room on the device, or none left of what this user may use of it. */
const FULL = new Set(['ENOSPC', 'EDQUOT'])

/** What a caller sees instead of the file system's own error, which stays as its cause. */
function storageError(error: unknown, doing: string): unknown {
  if (error instanceof RedressError) return error
  const errno = errnoOf(error)
  // Not of the file system: the reason of an abort, or a mistake in the program. Neither is a disk that failed.
  const isOfSystem = typeof (error as { errno?: unknown } | null)?.errno === 'number'
  if (errno === null || !isOfSystem) return error
  if (FULL.has(errno)) {
    return new RedressError('STORAGE_FULL', `The disk is full (${errno}) while ${doing}.`, { cause: error })
  }
  return new RedressError('STORAGE_FAILED', `The file system answered ${errno} while ${doing}.`, { cause: error })
}

/** Runs one step, and says what was being done when it fails. */
export async function attempting<T>(doing: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (error) {
    throw storageError(error, doing)
  }
}

/**
 * A step that many want at once on the same thing is done once for all of them. No caller is answered by one that began
 * before he asked: what he did until then might not be part of it.
 */
export class SharedSteps<T> {
  readonly #step: (name: string) => Promise<T>
  readonly #lines = new Map<string, { next: Promise<T> | null; running: Promise<T> }>()

  constructor(step: (name: string) => Promise<T>) {
    this.#step = step
  }

  run(name: string): Promise<T> {
    const line = this.#lines.get(name)
    if (line === undefined) return this.#begin(name)
    const begin = () => this.#begin(name)
    line.next ??= line.running.then(begin, begin)
    return line.next
  }

  #begin(name: string): Promise<T> {
    const line = { next: null as Promise<T> | null, running: this.#step(name) }
    this.#lines.set(name, line)
    const end = () => {
      // A waiting caller begins the next one in the same moment.
      if (line.next === null) this.#lines.delete(name)
    }
    line.running.then(end, end)
    return line.running
  }
}

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
 * For a file that is no longer the version it was stored as: a backup was restored, or another program wrote into it. The
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
