import { readdir, readFile, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { MediaError } from '@redress/shared/media/errors'
import { cleanText } from './visible-text.ts'

/** Where systems keep fonts that are installed for all users, or for the user of this process. */
const FOLDERS = [
  '/usr/share/fonts',
  '/usr/local/share/fonts',
  join(homedir(), '.local/share/fonts'),
  '/Library/Fonts',
  '/System/Library/Fonts',
]
const FONT_BYTES_MAX = 64 << 20
const INSTALLED_MAX = 2_000

/** Which characters a font has. */
type Coverage = (codePoint: number) => boolean

/**
 * The first font that has every character of a text: first the given fonts in order, then the installed ones. A font
 * without a character would draw an empty box, and the boxes of several recipients look alike.
 */
export async function fontFor(text: string, given: readonly string[]): Promise<string> {
  let fewest = charactersOf(text)
  for (const candidates of [() => given, installedFonts]) {
    for (const path of await candidates()) {
      const missing = missingIn(text, await coverageOf(path))
      if (missing.length === 0) return path
      if (missing.length < fewest.length) fewest = missing
    }
  }
  const more = fewest.length - CHARACTERS_NAMED_MAX
  const named = fewest.slice(0, CHARACTERS_NAMED_MAX).map(described)
  const characters = [...named, ...(more > 0 ? [`and ${more} more`] : [])].join(', ')
  throw new MediaError('TEXT_UNDRAWABLE', `No font here has all characters of this text. Missing: ${characters}.`, {
    stage: 'prepare',
  })
}

const CHARACTERS_NAMED_MAX = 5

const missingIn = (text: string, has: Coverage): string[] =>
  charactersOf(text).filter((character) => !has(character.codePointAt(0) as number))

/** Visible characters only: joiners, selectors and blanks have no glyph of their own. */
const charactersOf = (text: string): string[] => [
  ...new Set(Array.from(cleanText(text)).filter((one) => !/[\s\p{Default_Ignorable_Code_Point}]/u.test(one))),
]

const described = (character: string): string =>
  `${character} (U+${(character.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0')})`

const kept = new Map<string, { changedMs: number; coverage: Coverage }>()

async function coverageOf(path: string): Promise<Coverage> {
  try {
    const { mtimeMs, size } = await stat(path)
    const known = kept.get(path)
    if (known?.changedMs === mtimeMs) return known.coverage
    const coverage = size > FONT_BYTES_MAX ? HAS_NONE : readCoverage(await readFile(path))
    kept.set(path, { changedMs: mtimeMs, coverage })
    return coverage
  } catch {
    // An unreadable font counts as empty: another font may have the characters.
    return HAS_NONE
  }
}

const HAS_NONE: Coverage = () => false

/** The `cmap` of a TrueType or OpenType font, or of the first font of a collection. */
function readCoverage(font: Buffer): Coverage {
  const at = font.toString('latin1', 0, 4) === 'ttcf' ? font.readUInt32BE(12) : 0
  const tables = new Map<string, number>()
  for (let i = 0; i < font.readUInt16BE(at + 4); i++) {
    const entry = at + 12 + i * 16
    tables.set(font.toString('latin1', entry, entry + 4), font.readUInt32BE(entry + 8))
  }
  const cmap = tables.get('cmap')
  // A colour bitmap font has no outlines, and ffmpeg draws nothing with it.
  if (cmap === undefined || !['glyf', 'CFF ', 'CFF2'].some((name) => tables.has(name))) return HAS_NONE
  const ranges: Range[] = []
  for (let i = 0; i < font.readUInt16BE(cmap + 2); i++) {
    const entry = cmap + 4 + i * 8
    const [platform, encoding] = [font.readUInt16BE(entry), font.readUInt16BE(entry + 2)]
    const isUnicode = platform === 0 || (platform === 3 && (encoding === 1 || encoding === 10))
    if (isUnicode) ranges.push(...rangesIn(font.subarray(cmap + font.readUInt32BE(entry + 4))))
  }
  return (codePoint) =>
    ranges.some(({ from, to, isMapped }) => codePoint >= from && codePoint <= to && isMapped(codePoint))
}

interface Range {
  from: number
  to: number
  /** Within the range. A character that maps to glyph 0 is missing. */
  isMapped(codePoint: number): boolean
}

function rangesIn(table: Buffer): Range[] {
  const format = table.readUInt16BE(0)
  if (format === 4) return rangesOfFormat4(table)
  if (format !== 12) return []
  return Array.from({ length: table.readUInt32BE(12) }, (_, i) => {
    const group = 16 + i * 12
    const [from, first] = [table.readUInt32BE(group), table.readUInt32BE(group + 8)]
    return { from, to: table.readUInt32BE(group + 4), isMapped: (codePoint) => first + codePoint - from !== 0 }
  })
}

function rangesOfFormat4(table: Buffer): Range[] {
  const doubled = table.readUInt16BE(6)
  const [ends, starts] = [14, 16 + doubled]
  const [deltas, offsets] = [starts + doubled, starts + doubled * 2]
  return Array.from({ length: doubled / 2 }, (_, i) => {
    const from = table.readUInt16BE(starts + i * 2)
    const delta = table.readUInt16BE(deltas + i * 2)
    const offset = table.readUInt16BE(offsets + i * 2)
    const isMapped = (codePoint: number): boolean => {
      if (offset === 0) return ((codePoint + delta) & 0xffff) !== 0
      const at = offsets + i * 2 + offset + (codePoint - from) * 2
      return at + 2 <= table.length && table.readUInt16BE(at) !== 0
    }
    return { from, to: table.readUInt16BE(ends + i * 2), isMapped }
  })
}

/** Regular fonts first: an italic or condensed font is used only if no other font has the characters. */
async function installedFonts(): Promise<string[]> {
  const found: string[] = []
  for (const folder of FOLDERS) {
    const names = await readdir(folder, { recursive: true }).catch(() => [])
    found.push(...names.filter((name) => /\.(ttf|otf|ttc)$/i.test(name)).map((name) => join(folder, name)))
  }
  const rank = (path: string) =>
    (/regular|sans(?![a-z])/i.test(path) ? 0 : 1) + (/ital|obli|bold|mono/i.test(path) ? 2 : 0)
  return found.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1)).slice(0, INSTALLED_MAX)
}
