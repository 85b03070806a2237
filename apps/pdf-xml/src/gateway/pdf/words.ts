import type { PDFPageProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'
import { type Fonts, OTHER } from './fonts.ts'

/**
 * Text on a page runs in a direction. A frame is the page turned so that it runs from left to right and its lines follow
 * downwards: sideways pages, sideways text and vertical writing are then all laid out by the same rules.
 */
export interface Frame {
  /** The unit vector along a line, on the page as displayed (y grows downwards). */
  along: { x: number; y: number }
  words: Word[]
}

/** In coordinates of its frame. */
export interface Word {
  text: string
  x: number
  width: number
  baseline: number
  top: number
  bottom: number
  size: number
  font: string
  isRtl: boolean
  /** There is a space before it in the text, whatever the distance says. */
  isSpaced: boolean
}

const ASCENT = 0.8
const DESCENT = 0.2
const SNAP_DEGREES = 3

type TextContent = Awaited<ReturnType<PDFPageProxy['getTextContent']>>
type TextItem = Extract<TextContent['items'][number], { str: string }>

interface PageWords {
  /** The direction in which most of the text runs comes first. */
  frames: Frame[]
  /** Which characters each font was used for. */
  chars: ReadonlyMap<string, ReadonlySet<string>>
}

/** Reads the text piece by piece: of a page with a hundred thousand pieces, only the words are kept. */
export async function wordsOf(page: PDFPageProxy, fonts: Fonts): Promise<PageWords> {
  const viewport = page.getViewport({ scale: 1 })
  // The scale of the page's own unit; items are measured before it.
  const scale = Math.hypot(viewport.transform[0] ?? 1, viewport.transform[1] ?? 0)
  const frames = new Map<string, Frame>()
  const chars = new Map<string, Set<string>>()
  const verticals = new Set<string>()
  for await (const { items, styles } of page.streamTextContent() as AsyncIterable<TextContent>) {
    for (const id in styles) if (styles[id]?.vertical) verticals.add(id)
    for (const item of items) {
      if (!('str' in item) || item.str.trim() === '') continue
      const matrix = multiply(viewport.transform, item.transform)
      // Text of no size is not there; nor is text of an infinite one.
      if (!matrix.every(Number.isFinite) || Math.hypot(matrix[2], matrix[3]) === 0) continue
      noteChars(chars, item)
      const isVertical = verticals.has(item.fontName)
      const degrees = isVertical ? 90 : snapped((Math.atan2(matrix[1], matrix[0]) * 180) / Math.PI)
      const frame = frameOf(frames, isVertical ? 'vertical' : String(degrees), degrees)
      addWords(frame, item, matrix, isVertical, scale, fonts)
    }
  }
  for (const frame of frames.values()) frame.words = withoutDoubles(frame.words)
  return { frames: [...frames.values()].sort((a, b) => charsOf(b) - charsOf(a)), chars }
}

function noteChars(chars: Map<string, Set<string>>, { fontName, str }: TextItem): void {
  let own = chars.get(fontName)
  if (own === undefined) {
    own = new Set()
    chars.set(fontName, own)
  }
  for (const char of str) own.add(char)
}

function frameOf(frames: Map<string, Frame>, key: string, degrees: number): Frame {
  let frame = frames.get(key)
  if (frame === undefined) {
    frame = { along: unit(degrees), words: [] }
    frames.set(key, frame)
  }
  return frame
}

const charsOf = (frame: Frame): number => frame.words.reduce((sum, { text }) => sum + text.length, 0)

function addWords(
  frame: Frame,
  item: TextItem,
  matrix: Matrix,
  isVertical: boolean,
  scale: number,
  fonts: Fonts,
): void {
  const size = Math.hypot(matrix[2], matrix[3])
  const { along } = frame
  const start = matrix[4] * along.x + matrix[5] * along.y
  const across = matrix[5] * along.x - matrix[4] * along.y
  const length = (isVertical ? item.height : item.width) * scale
  // Glyphs of vertical writing hang on the middle of their line.
  const baseline = isVertical ? across + size / 2 - size * DESCENT : across
  const { isUnreadable, widths } = fonts.of(item.fontName)
  const isRtl = item.dir === 'rtl'
  const widthOf = (char: string) => widths.get(char) ?? OTHER
  const total = sum(item.str, widthOf) || 1
  let passed = 0
  let isSpaced = false
  for (const part of item.str.split(/(\s+)/)) {
    const share = sum(part, widthOf)
    const width = (length * share) / total
    const offset = (length * passed) / total
    passed += share
    if (part.trim() === '') {
      if (part !== '') isSpaced = true
      continue
    }
    frame.words.push({
      text: isUnreadable ? '\uFFFD'.repeat([...part].length) : asWritten(part),
      // The first word of a right-to-left text is at its right end.
      x: isRtl ? start + length - offset - width : start + offset,
      width,
      baseline,
      top: baseline - size * ASCENT,
      bottom: baseline + size * DESCENT,
      size,
      font: item.fontName,
      isRtl,
      isSpaced,
    })
    isSpaced = false
  }
}

/** Arabic letters have different shapes at the end and in the middle of a word. Searches use the plain letters. */
const SHAPES = /[\uFB50-\uFDFF\uFE70-\uFEFC]+/g

const asWritten = (text: string): string =>
  text.replace(SHAPES, (shapes) => shapes.normalize('NFKC').replaceAll(' ', ''))

function sum(text: string, widthOf: (char: string) => number): number {
  let width = 0
  for (const char of text) width += widthOf(char)
  return width
}

/** Bold is sometimes made by printing the same text twice, a hair apart. */
const HAIR = 0.12

function withoutDoubles(words: readonly Word[]): Word[] {
  // Grouped by text and size, then by a fine grid: only neighbours must be compared.
  const seen = new Map<string, Map<number, Word>>()
  return words.filter((word) => {
    const key = `${word.text}\n${word.size.toFixed(2)}`
    let squares = seen.get(key)
    if (squares === undefined) {
      squares = new Map()
      seen.set(key, squares)
    }
    const hair = word.size * HAIR
    const column = Math.floor(word.x / hair)
    const row = Math.floor(word.baseline / hair)
    for (let x = column - 1; x <= column + 1; x++) {
      for (let y = row - 1; y <= row + 1; y++) {
        const other = squares.get(x * SQUARES_PER_ROW + y)
        if (other === undefined) continue
        if (Math.abs(other.x - word.x) < hair && Math.abs(other.baseline - word.baseline) < hair) return false
      }
    }
    squares.set(column * SQUARES_PER_ROW + row, word)
    return true
  })
}

const SQUARES_PER_ROW = 2 ** 24

export interface Box {
  x: number
  y: number
  width: number
  height: number
}

/** The position on the page as displayed: from the upper left corner, in points. */
export function boxOnPage({ along }: Frame, at: { x: number; width: number; top: number; bottom: number }): Box {
  // Opposite corners are enough for the four quarters, which is nearly all text.
  const right = at.x + at.width
  const x1 = at.x * along.x - at.top * along.y
  const y1 = at.x * along.y + at.top * along.x
  const x2 = right * along.x - at.bottom * along.y
  const y2 = right * along.y + at.bottom * along.x
  if (along.x === 0 || along.y === 0) {
    return { x: Math.min(x1, x2), y: Math.min(y1, y2), width: Math.abs(x2 - x1), height: Math.abs(y2 - y1) }
  }
  const xs = [x1, x2, right * along.x - at.top * along.y, at.x * along.x - at.bottom * along.y]
  const ys = [y1, y2, right * along.y + at.top * along.x, at.x * along.y + at.bottom * along.x]
  const x = Math.min(...xs)
  const y = Math.min(...ys)
  return { x, y, width: Math.max(...xs) - x, height: Math.max(...ys) - y }
}

type Matrix = [number, number, number, number, number, number]

function multiply(a: readonly number[], b: readonly number[]): Matrix {
  const [a0 = 1, a1 = 0, a2 = 0, a3 = 1, a4 = 0, a5 = 0] = a
  const [b0 = 1, b1 = 0, b2 = 0, b3 = 1, b4 = 0, b5 = 0] = b
  return [
    a0 * b0 + a2 * b1,
    a1 * b0 + a3 * b1,
    a0 * b2 + a2 * b3,
    a1 * b2 + a3 * b3,
    a0 * b4 + a2 * b5 + a4,
    a1 * b4 + a3 * b5 + a5,
  ]
}

/** A slightly skewed scan counts as straight; real rotations differ by tens of degrees. */
function snapped(degrees: number): number {
  const whole = (Math.round(degrees) + 360) % 360
  const quarter = Math.round(whole / 90) * 90
  return Math.abs(whole - quarter) <= SNAP_DEGREES ? quarter % 360 : (Math.round(whole / 10) * 10) % 360
}

function unit(degrees: number): { x: number; y: number } {
  const radians = (degrees * Math.PI) / 180
  return { x: Math.round(Math.cos(radians) * 1e9) / 1e9, y: Math.round(Math.sin(radians) * 1e9) / 1e9 }
}
