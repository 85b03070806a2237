import { lstat, readdir, readFile } from 'node:fs/promises'
import { basename, extname, join, relative } from 'node:path'
import { errnoOf } from '../paths.ts'

/** What jobs are made of beside specs: with a profile, and a folder for the outputs. */
export interface MediaRule {
  profile: string
  output: string
  naming: string
}

const MEDIA = new Set(['.mp4', '.m4v', '.mov', '.mkv', '.webm', '.avi', '.mxf', '.ts', '.mts', '.m2ts'])
/** How programs call what they have not copied to its end. */
const UNFINISHED = /(\.(part|partial|tmp|temp|crdownload|filepart)|~)$/i
const SPEC_BYTES_MAX = 2 ** 20

export const DONE = '.done'

export const isMarker = (name: string): boolean => name.endsWith(DONE)
export const isUnfinished = (name: string): boolean => UNFINISHED.test(name)

export interface Look {
  kind: 'spec' | 'media' | 'card' | 'other'
  /** Of a card: a file in it that somebody still copies. */
  unfinished: string | null
  /** Changes with every write to it, or into it. */
  signature: string
}

/** Null when it is gone meanwhile. Links are not followed: what they lead to may change behind our back. */
export async function lookAt(path: string): Promise<Look | null> {
  try {
    const found = await lstat(path)
    if (found.isDirectory()) {
      const files = await filesUnder(path)
      const facts = await Promise.all(files.map(async (file) => `${file} ${factsOf(await lstat(file))}`))
      const unfinished = files.find(isUnfinished)
      // Where it lies is no part of it: it is moved when it is taken.
      const signature = facts.map((fact) => fact.slice(path.length)).join('\n')
      const kind = files.some(isMedia) && unfinished === undefined ? 'card' : 'other'
      return { kind, unfinished: unfinished === undefined ? null : relative(path, unfinished), signature }
    }
    if (!found.isFile()) return { kind: 'other', unfinished: null, signature: '' }
    const kind = extname(path).toLowerCase() === '.json' ? 'spec' : isMedia(path) ? 'media' : 'other'
    return { kind, unfinished: null, signature: factsOf(found) }
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return null
    throw error
  }
}

const factsOf = ({ size, mtimeMs, ino }: { size: number; mtimeMs: number; ino: number }): string =>
  `${size} ${mtimeMs} ${ino}`

const isMedia = (path: string): boolean => MEDIA.has(extname(path).toLowerCase()) && !basename(path).startsWith('.')

async function filesUnder(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true })
  return entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .toSorted()
}

/** The spec that something dropped stands for. What is none is one all the same: its job says what is wrong. */
export async function specOf(path: string, kind: Look['kind'], rule: MediaRule | null): Promise<unknown> {
  if (kind === 'spec' || rule === null) return readSpecFile(path)
  const sources = kind === 'card' ? (await filesUnder(path)).filter(isMedia) : [path]
  const { profile, output, naming } = rule
  return { version: 1, sources, profile, output: { directory: output, naming } }
}

async function readSpecFile(path: string): Promise<unknown> {
  const { size } = await lstat(path)
  if (size > SPEC_BYTES_MAX) return { unreadable: `It has ${size} bytes, and a spec at most ${SPEC_BYTES_MAX}.` }
  try {
    return JSON.parse(await readFile(path, 'utf8'))
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return { unreadable: `It is not JSON: ${error.message}` }
  }
}
