import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { delimiter, dirname, isAbsolute, join } from 'node:path'
import type { Log } from 'redress'
import { runProgram } from 'redress/programs'
import { MediaError } from './errors.ts'
import { withOwnCopy } from './own-copy.ts'

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

/** Finds both programs once per setting. A failure is not kept: somebody may install them meanwhile. */
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
  // A relative entry of PATH would let a file in the working folder stand in for the program.
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

/** The last package has the program; those before it are asked for the next, as each may have its own copy. */
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

/** Whoever starts without the programs learns it now, and not from the first job. */
export async function warnWithoutPrograms(log: Log): Promise<void> {
  try {
    await findPrograms()
  } catch (error) {
    if (!(error instanceof MediaError)) throw error
    const { message, detail, action } = error
    log.warn({ event: 'program_missing', detail, action }, message)
  }
}
