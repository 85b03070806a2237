import { createHash, randomUUID } from 'node:crypto'
import { constants, createReadStream, type Stats } from 'node:fs'
import { access, chmod, copyFile, lstat, mkdir, realpath, rename, stat, unlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { delimiter, dirname, isAbsolute, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Log } from 'redress'
import { runProgram } from 'redress/programs'
import { MediaError } from './errors.ts'

export interface MediaProgram {
  path: string
  version: string
}

export interface MediaPrograms {
  ffmpeg: MediaProgram
  ffprobe: MediaProgram
}

export interface ProgramSettings {
  ffmpegPath?: string | undefined
  ffprobePath?: string | undefined
  /** The folders to look in, as in PATH. */
  searchPath?: string | undefined
  /** The file from whose folder npm packages are looked for. */
  packagesFrom?: string | undefined
}

const kept = new Map<string, Promise<MediaPrograms>>()

/** Finds both programs once per setting. A failure is not cached: the programs may be installed meanwhile. */
export function findPrograms(given: ProgramSettings = {}): Promise<MediaPrograms> {
  const settings = {
    ffmpegPath: given.ffmpegPath ?? process.env.FFMPEG_PATH,
    ffprobePath: given.ffprobePath ?? process.env.FFPROBE_PATH,
    searchPath: given.searchPath ?? process.env.PATH ?? '',
    packagesFrom: given.packagesFrom ?? import.meta.filename,
  }
  const name = JSON.stringify(settings)
  let found = kept.get(name)
  if (found === undefined) {
    found = find(settings)
    kept.set(name, found)
    found.catch(() => kept.delete(name))
  }
  return found
}

async function find(settings: ProgramSettings & { searchPath: string; packagesFrom: string }): Promise<MediaPrograms> {
  const { ffmpegPath, ffprobePath, searchPath, packagesFrom } = settings
  const machine = `${process.platform}-${process.arch}`
  const ffmpegPackage = () => inPackage(packagesFrom, [`@ffmpeg-binary/${machine}`], 'ffmpeg')
  const ffprobePackage = () =>
    inPackage(packagesFrom, ['@ffprobe-installer/ffprobe', `@ffprobe-installer/${machine}`], 'ffprobe')
  const [ffmpeg, ffprobe] = await Promise.all([
    locate('ffmpeg', 'FFMPEG_PATH', ffmpegPath, searchPath, ffmpegPackage),
    locate('ffprobe', 'FFPROBE_PATH', ffprobePath, searchPath, ffprobePackage),
  ])
  return { ffmpeg, ffprobe }
}

async function locate(
  name: string,
  setting: string,
  path: string | undefined,
  searchPath: string,
  packaged: () => string | null,
): Promise<MediaProgram> {
  if (path !== undefined && path !== '') {
    // Never another one than was named: it might be there for its version.
    if (!isAbsolute(path)) throw missing(name, `${setting} is ${path}, which is not an absolute path.`)
    const why = await whyNotExecutable(path)
    if (why === null) return versioned(name, path)
    throw missing(name, `${setting} is ${path}, which ${why}.`)
  }
  // A relative entry of PATH would let a file in the working folder replace the program.
  const inFolders = searchPath.split(delimiter).filter(isAbsolute)
  const refused: string[] = []
  for (const candidate of inFolders.map((folder) => join(folder, name))) {
    const why = await whyNotExecutable(candidate)
    if (why === null) return versioned(name, candidate)
    if (why !== NOT_THERE) refused.push(`${candidate} ${why}`)
  }
  const bundled = packaged()
  const why = bundled === null ? NOT_THERE : await whyNotExecutable(bundled)
  if (bundled !== null && why === null) return versioned(name, bundled)
  if (bundled !== null && why !== NOT_THERE) {
    try {
      return await withOwnCopy(bundled, name, (copy) => versioned(name, copy))
    } catch (error) {
      refused.push(`${bundled} ${why}, and ${(error as Error).message}`)
    }
  }
  const found = refused.length === 0 ? '' : ` Found, but not usable: ${refused.join('; ')}.`
  const absent = bundled === null || why === NOT_THERE ? 'neither in PATH nor in an npm package' : 'not in PATH'
  throw missing(name, `${name} is ${absent}, and ${setting} is not set.${found}`)
}

/** The program is in the last package. Each package resolves the next one, because it may have its own copy. */
function inPackage(from: string, packages: readonly string[], file: string): string | null {
  try {
    const manifest = packages.reduce((place, name) => createRequire(place).resolve(`${name}/package.json`), from)
    return join(dirname(manifest), file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'MODULE_NOT_FOUND') return null
    throw error
  }
}

const NOT_THERE = 'is not there'

/** Null for a program that this user may execute. */
async function whyNotExecutable(path: string): Promise<string | null> {
  try {
    const found = await stat(path)
    if (!found.isFile()) return 'is not a file'
    return await access(path, constants.X_OK).then(
      () => null,
      () => {
        const mode = (found.mode & 0o7777).toString(8).padStart(4, '0')
        return `may not be executed by user ${process.geteuid?.() ?? '?'} (mode ${mode}, owner ${found.uid})`
      },
    )
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return NOT_THERE
    return `cannot be reached by user ${process.geteuid?.() ?? '?'} (${code})`
  }
}

async function versioned(name: string, path: string): Promise<MediaProgram> {
  let said: string
  try {
    said = (await runProgram({ program: path, args: ['-version'], stdout: 'text', timeoutMs: 20_000 })).stdout
  } catch (cause) {
    throw missing(name, `${path} does not run.`, cause)
  }
  const version = new RegExp(`^${name} version (\\S+)`).exec(said)?.[1]
  if (version === undefined) throw missing(name, `${path} is not ${name}: it does not say its version.`)
  return { path, version }
}

function missing(name: string, detail: string, cause?: unknown): MediaError {
  return new MediaError('PROGRAM_MISSING', `The program ${name} is not installed, or may not be executed.`, {
    stage: 'prepare',
    detail,
    cause,
  })
}

/** Warns at the start, not with the first job. */
export async function warnWithoutPrograms(log: Log): Promise<void> {
  try {
    await findPrograms()
  } catch (error) {
    if (!(error instanceof MediaError)) throw error
    const { message, detail, action } = error
    log.warn({ event: 'program_missing', detail, action }, message)
  }
}

const OURS = 0o700
const OTHERS_WRITE = 0o022
const STICKY = 0o1000

/**
 * An executable copy of a program that this user may only read: npm unpacks it with the permissions of the user who
 * installed it. The copy is made once, atomically, in a private folder of this user, even if several processes make
 * it at once. Returns the result of `use`. If a folder does not allow execution, the next one is tried.
 */
export async function withOwnCopy<T>(program: string, name: string, use: (copy: string) => Promise<T>): Promise<T> {
  const source = await stat(program)
  // Another version of the program has another name, so processes that run the old one keep it.
  const mark = createHash('sha256').update(`${program} ${source.size} ${source.mtimeMs} ${source.ino}`).digest('hex')
  const problems: string[] = []
  for (const folder of cacheFolders()) {
    try {
      await claimFolder(folder)
      const copy = join(folder, `${name}-${mark.slice(0, 16)}`)
      if (!(await isOurs(copy, source))) await makeCopy(program, copy)
      return await use(copy)
    } catch (error) {
      problems.push(`${folder}: ${whyOf(error)}`)
    }
  }
  throw new Error(`no copy of it could be made (${problems.join('; ')})`)
}

const whyOf = (error: unknown): string => {
  const { message, detail } = error as { message?: string; detail?: string }
  return detail ?? message ?? String(error)
}

/** The user's cache; for a service without a home, a separate folder among the temporary files. */
function cacheFolders(): string[] {
  const { XDG_CACHE_HOME = '', HOME = '' } = process.env
  const caches = isAbsolute(XDG_CACHE_HOME) ? [XDG_CACHE_HOME] : isAbsolute(HOME) ? [join(HOME, '.cache')] : []
  return [
    ...caches.map((cache) => join(cache, 'redress', 'programs')),
    join(tmpdir(), `redress-programs-${process.geteuid?.() ?? 'user'}`),
  ]
}

/**
 * Any user can create a folder of this name in /tmp before us, and a user who may write to a folder above can replace it. So
 * it is used only if it belongs to this user alone, and each folder above belongs to this user or root and is not
 * writable by others, or is sticky.
 */
async function claimFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: OURS })
  const found = await lstat(folder)
  if (!found.isDirectory() || !isMine(found)) throw new Error('belongs to another user')
  if ((found.mode & OTHERS_WRITE) !== 0) throw new Error('can be written by others')
  for (let above = dirname(await realpath(folder)); ; above = dirname(above)) {
    const { uid, mode } = await stat(above)
    const isSafe = (mode & OTHERS_WRITE) === 0 || (mode & STICKY) !== 0
    if (!isSafe || (uid !== 0 && uid !== process.geteuid?.())) throw new Error(`${above} can be changed by others`)
    if (above === dirname(above)) return
  }
}

async function isOurs(copy: string, { size }: Stats): Promise<boolean> {
  try {
    const found = await lstat(copy)
    return found.isFile() && isMine(found) && found.size === size && (found.mode & (OURS | OTHERS_WRITE)) === OURS
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

const isMine = ({ uid }: Stats): boolean => uid === (process.geteuid?.() ?? uid)

async function makeCopy(program: string, copy: string): Promise<void> {
  const partial = `${copy}.${randomUUID()}.partial`
  try {
    await copyFile(program, partial, constants.COPYFILE_EXCL)
    await chmod(partial, OURS)
    const [wanted, made] = [await sha256Of(program), await sha256Of(partial)]
    if (wanted !== made) throw new Error('the copy is not what was copied')
    await rename(partial, copy)
  } catch (error) {
    await unlink(partial).catch(() => undefined)
    throw error
  }
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}
