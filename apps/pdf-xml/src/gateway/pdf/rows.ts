import type { Word } from './words.ts'

/** Adjacent words with their common bounds. */
export interface Stretch {
  words: readonly Word[]
  x: number
  right: number
  top: number
  bottom: number
  size: number
}

/** Adjacent words of a row, from left to right: a line of a column, or a cell of a table. */
export interface Segment extends Stretch {
  chars: number
}

/** A wider gap, in multiples of the font size, separates two segments. */
const SEGMENT_GAP = 0.8

export function segmentsOf(words: readonly Word[]): Segment[] {
  return rowsOf(words).flatMap((row) => {
    const parts: Word[][] = []
    let right = Number.NEGATIVE_INFINITY
    for (const word of row) {
      const part = parts.at(-1)
      if (part === undefined || word.x - right > SEGMENT_GAP * word.size) parts.push([word])
      else part.push(word)
      right = Math.max(right, word.x + word.width)
    }
    return parts.map(segmentOf)
  })
}

function segmentOf(words: readonly Word[]): Segment {
  const tallest = words.reduce((a, b) => (b.size > a.size ? b : a))
  return {
    words,
    x: least(words, ({ x }) => x),
    right: most(words, ({ x, width }) => x + width),
    top: tallest.top,
    bottom: tallest.bottom,
    size: tallest.size,
    chars: words.reduce((sum, { text }) => sum + text.length + 1, -1),
  }
}

/** Groups items into rows, from top to bottom, and sorts each row from left to right. */
export function rowsOf<T extends { x: number; top: number; bottom: number }>(things: readonly T[]): T[][] {
  const rows: { main: T; things: T[] }[] = []
  for (const thing of things.toSorted((a, b) => a.top + a.bottom - b.top - b.bottom)) {
    const row = rows.at(-1)
    if (row === undefined || !isBeside(row.main, thing)) rows.push({ main: thing, things: [thing] })
    else {
      row.things.push(thing)
      // The tallest item represents its row: superscripts and subscripts beside it are small.
      if (thing.bottom - thing.top > row.main.bottom - row.main.top) row.main = thing
    }
  }
  return rows.map((row) => row.things.sort((a, b) => a.x - b.x))
}

function isBeside(a: { top: number; bottom: number }, b: { top: number; bottom: number }): boolean {
  const overlap = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)
  return overlap > 0.5 * Math.min(a.bottom - a.top, b.bottom - b.top)
}

export const isRtlSegment = ({ words }: Segment): boolean =>
  words.filter(({ isRtl }) => isRtl).length * 2 > words.length

// Math.min(...all) would pass as many arguments as a hostile page has words.
export const least = <T>(things: readonly T[], of: (thing: T) => number): number =>
  things.reduce((found, thing) => Math.min(found, of(thing)), Number.POSITIVE_INFINITY)
export const most = <T>(things: readonly T[], of: (thing: T) => number): number =>
  things.reduce((found, thing) => Math.max(found, of(thing)), Number.NEGATIVE_INFINITY)
