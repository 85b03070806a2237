import { type BigIntStats, constants } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, readdir, realpath, rmdir } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { RedressError } from '../../core/errors.ts'
import { checkKey, keyInvalid } from '../key.ts'
import { errnoOf, isMissing } from './errors.ts'
import { SharedSteps } from './shared-steps.ts'

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
      // Without waiting: a pipe that somebody put there would block until it has a writer.
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

  /** Removes folders that hold nothing any more, from here upwards. Somebody else's new file keeps its folder. */
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
