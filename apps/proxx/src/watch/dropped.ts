import { lstat, readdir, readFile } from 'node:fs/promises'
import { basename, extname, join, relative } from 'node:path'
import { errnoOf } from '../paths.ts'

/** How media files become jobs: with a profile and an output folder. */
export interface MediaRule {
  profile: string
  output: string
  naming: string
}

const MEDIA = new Set(['.mp4', '.m4v', '.mov', '.mkv', '.webm', '.avi', '.mxf', '.ts', '.mts', '.m2ts'])
/** How programs call what they have not copied to its end. */
const UNFINISHED = /(\.(part|partial|tmp|temp|crdownload|filepart)|~)$/i
const SPEC_BYTES_MAX = 2 ** 20
const SPEC_DEPTH_MAX = 20

export const DONE = '.done'

export const isMarker = (name: string): boolean => name.endsWith(DONE)
const isUnfinished = (name: string): boolean => UNFINISHED.test(name)

export interface Look {
  kind: 'spec' | 'media' | 'card' | 'link' | 'other'
  /** A file that is still being copied: the item itself, or a file in a card. */
  unfinished: string | null
  /** Of a card: the number of other files by kind, so that it is clear that they were not converted. */
  leftOut: string | null
  /** Changes with every write to it, or into it. */
  signature: string
}

/** Null if the path has disappeared. Links are not followed, because their target may change. */
export async function lookAt(path: string): Promise<Look | null> {
  try {
    const found = await lstat(path)
    const own = isUnfinished(path) ? basename(path) : null
    if (found.isDirectory()) {
      const { files, others } = await entriesUnder(path)
      const facts = await Promise.all(files.map(async (file) => `${file} ${factsOf(await lstat(join(path, file)))}`))
      const unfinished = own ?? files.find(isUnfinished) ?? null
      const seen = files.filter((file) => !isHidden(file))
      const kind = seen.some(isMedia) && unfinished === null ? 'card' : 'other'
      const leftOut = countedByKind([...seen.filter((file) => !isMedia(file)).map(kindOf), ...others])
      return { kind, unfinished, leftOut, signature: facts.join('\n') }
    }
    if (!found.isFile()) {
      const isLink = found.isSymbolicLink()
      return { kind: isLink ? 'link' : 'other', unfinished: null, leftOut: null, signature: '' }
    }
    const kind = extname(path).toLowerCase() === '.json' ? 'spec' : isMedia(path) ? 'media' : 'other'
    return { kind, unfinished: own, leftOut: null, signature: factsOf(found) }
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return null
    throw error
  }
}

const factsOf = ({ size, mtimeMs, ino }: { size: number; mtimeMs: number; ino: number }): string =>
  `${size} ${mtimeMs} ${ino}`

const isMedia = (path: string): boolean => MEDIA.has(extname(path).toLowerCase())

/** Hidden files belong to systems and programs: the trash of a card contains deleted clips. */
const isHidden = (path: string): boolean => /(^|\/)\./.test(path)

/** By their way from the folder, hidden ones too: a program may still copy under such a name. */
async function entriesUnder(folder: string): Promise<{ files: string[]; others: string[] }> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true })
  const wayTo = ({ parentPath, name }: (typeof entries)[number]) => relative(folder, join(parentPath, name))
  const others = entries.filter((entry) => !entry.isFile() && !entry.isDirectory() && !isHidden(wayTo(entry)))
  return {
    files: entries
      .filter((entry) => entry.isFile())
      .map(wayTo)
      .toSorted(),
    others: others.map((entry) => (entry.isSymbolicLink() ? 'links' : 'special files')),
  }
}

const kindOf = (path: string): string => extname(path).toLowerCase() || 'without extension'

/** "3 .xml, 1 .r3d": a card has hundreds of them. */
function countedByKind(kinds: readonly string[]): string | null {
  const counts = new Map<string, number>()
  for (const kind of kinds) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return counts.size === 0 ? null : [...counts].map(([kind, count]) => `${count} ${kind}`).join(', ')
}

/** The spec of a dropped item. An invalid spec is submitted as well: its failed job names the problem. */
export async function specOf(path: string, kind: Look['kind'], rule: MediaRule | null): Promise<unknown> {
  if (kind === 'spec' || rule === null) return readSpecFile(path)
  const sources = kind === 'card' ? await clipsUnder(path) : [path]
  const { profile, output, naming } = rule
  return { version: 1, sources, profile, output: { directory: output, naming } }
}

async function clipsUnder(card: string): Promise<string[]> {
  const { files } = await entriesUnder(card)
  return files.filter((file) => isMedia(file) && !isHidden(file)).map((file) => join(card, file))
}

async function readSpecFile(path: string): Promise<unknown> {
  const { size } = await lstat(path)
  if (size > SPEC_BYTES_MAX) return { unreadable: `It has ${size} bytes, and a spec at most ${SPEC_BYTES_MAX}.` }
  try {
    // Some editors put a mark of their own before the first byte.
    const spec: unknown = JSON.parse((await readFile(path, 'utf8')).replace(/^\uFEFF/, ''))
    return isDeeper(spec, SPEC_DEPTH_MAX) ? { unreadable: `It is nested too deeply to be a spec.` } : spec
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return { unreadable: `It is not JSON: ${error.message}` }
  }
}

/** JSON.parse accepts deeper nesting than JSON.stringify. */
function isDeeper(value: unknown, most: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return most === 0 || Object.values(value).some((one) => isDeeper(one, most - 1))
}
