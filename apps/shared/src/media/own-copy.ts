import { createHash, randomUUID } from 'node:crypto'
import { constants, createReadStream, type Stats } from 'node:fs'
import { chmod, copyFile, lstat, mkdir, realpath, rename, stat, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { pipeline } from 'node:stream/promises'

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
