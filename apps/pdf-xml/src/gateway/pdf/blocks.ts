import { readingOrder } from './columns.ts'
import { isRtlSegment, least, most, rowsOf, type Segment, type Stretch, segmentsOf } from './rows.ts'
import type { Word } from './words.ts'

/** Words in reading order. */
interface Line extends Stretch {
  isRtl: boolean
  /** Its parts are too far apart for a line of prose. */
  isTableRow: boolean
}

/** Lines that belong together: a paragraph, a heading, a row of a table. */
export interface Block {
  lines: readonly Line[]
  isRtl: boolean
}

/** The minimum gap between two words without a space character, in multiples of the font size. */
const SPACE_GAP = 0.12
/** How much farther apart than usual two lines must be to be of two paragraphs. */
const LEADING_JUMP = 1.3
/** Lines of one paragraph are not farther apart than this, in sizes of the font, however few there are to compare. */
const LEADING_MAX = 2.2
const SIZE_JUMP = 1.15
const INDENT = 0.9
const CELL_GAP = 1.5

export function blocksOf(words: readonly Word[]): Block[] {
  return readingOrder(segmentsOf(words)).flatMap((part) => paragraphsOf(linesOf(part)))
}

function linesOf(segments: readonly Segment[]): Line[] {
  return rowsOf(segments).map((row) => {
    const isRtl = row.filter(isRtlSegment).length * 2 > row.length
    const words = row.flatMap((segment) => segment.words)
    const tallest = row.reduce((a, b) => (b.size > a.size ? b : a))
    return {
      words: isRtl ? readFromRight(words) : words,
      x: least(row, ({ x }) => x),
      right: most(row, ({ right }) => right),
      top: tallest.top,
      bottom: tallest.bottom,
      size: tallest.size,
      isRtl,
      isTableRow: row.some((cell, i) => i > 0 && cell.x - (row[i - 1] as Segment).right > CELL_GAP * cell.size),
    }
  })
}

/** Words of a left-to-right script inside such a line keep their own order. */
export function readFromRight(words: readonly Word[]): Word[] {
  const runs: Word[][] = []
  for (const word of words.toReversed()) {
    const run = runs.at(-1)
    if (run !== undefined && isForeign(word) && isForeign(run[0] as Word)) run.push(word)
    else runs.push([word])
  }
  return runs.flatMap((run) => run.reverse())
}

const isForeign = (word: Word): boolean => !word.isRtl && /\p{L}/u.test(word.text)

function paragraphsOf(lines: readonly Line[]): Block[] {
  const leading = usualLeading(lines)
  const margin = least(lines, startOf)
  const blocks: Line[][] = []
  let previous: Line | undefined
  for (const line of lines) {
    const block = blocks.at(-1)
    const isNext = block !== undefined && previous !== undefined && !begins(line, previous, leading, margin)
    if (isNext && !isItem(line, block[0] as Line)) block.push(line)
    else blocks.push([line])
    previous = line
  }
  return blocks.map((block) => ({ lines: block, isRtl: block.filter(({ isRtl }) => isRtl).length * 2 > block.length }))
}

const BULLET = /^[\u2022\u2023\u2043\u2219\u25AA\u25AB\u25CF\u25CB\u25E6\u25A0\u25A1\u2756\u27A2\u25BA]$/
const ENUMERATOR = /^(?:\d{1,3}|\p{L})[.)]$|^\((?:\d{1,3}|\p{L})\)$/u

/**
 * A bullet begins an item. A number may also end a sentence, so it begins an item only if the block begins with a
 * number.
 */
function isItem(line: Line, first: Line): boolean {
  const [mark = '', firstMark = ''] = [line.words[0]?.text, first.words[0]?.text]
  return BULLET.test(mark) || (ENUMERATOR.test(mark) && ENUMERATOR.test(firstMark))
}

/** How far a line is indented grows from the side at which it begins. */
const startOf = (line: Line): number => (line.isRtl ? -line.right : line.x)

function begins(line: Line, previous: Line, leading: number, margin: number): boolean {
  const ratio = line.size / previous.size
  if (ratio > SIZE_JUMP || ratio < 1 / SIZE_JUMP) return true
  if (line.bottom - previous.bottom > Math.min(Math.max(leading, line.size), LEADING_MAX * line.size) * LEADING_JUMP)
    return true
  if (line.isRtl !== previous.isRtl || line.isTableRow || previous.isTableRow) return true
  const indent = INDENT * line.size
  return startOf(line) - margin > indent && startOf(previous) - margin < indent / 2
}

/** The smaller half decides: spaces between paragraphs are the exception, also where there are many. */
function usualLeading(lines: readonly Line[]): number {
  const steps = lines.slice(1).map((line, i) => line.bottom - (lines[i] as Line).bottom)
  const sorted = steps.filter((step) => step > 0).sort((a, b) => a - b)
  return sorted[Math.floor((sorted.length - 1) / 3)] ?? 0
}

function lineText({ words, isRtl }: Line): string {
  let text = ''
  let previous: Word | undefined
  for (const word of words) {
    if (previous !== undefined && isApart(previous, word, isRtl)) text += ' '
    text += word.text
    previous = word
  }
  return text
}

/** Whether two pieces are separate words: a change of font or position alone does not split a word. */
function isApart(previous: Word, word: Word, isRtl: boolean): boolean {
  if (word.isSpaced) return true
  const [left, right] = isRtl && word.x < previous.x ? [word, previous] : [previous, word]
  return right.x - (left.x + left.width) > SPACE_GAP * Math.min(word.size, previous.size)
}

/** Joins the pieces of a word that changes its font. The word gets the font of its first piece. */
export function wholeWords({ words, isRtl }: Pick<Line, 'words' | 'isRtl'>): Word[] {
  const whole: Word[] = []
  let previous: Word | undefined
  for (const word of words) {
    const last = whole.at(-1)
    if (last === undefined || previous === undefined || isApart(previous, word, isRtl)) whole.push({ ...word })
    else {
      const right = Math.max(last.x + last.width, word.x + word.width)
      last.text += word.text
      last.x = Math.min(last.x, word.x)
      last.width = right - last.x
      last.top = Math.min(last.top, word.top)
      last.bottom = Math.max(last.bottom, word.bottom)
    }
    previous = word
  }
  return whole
}

const HYPHEN_END = /\p{L}[-\u00AD\u2010]$/u

export function blockText({ lines }: Block): string {
  return lines.map(lineText).reduce((text, line) => {
    if (!HYPHEN_END.test(text)) return `${text} ${line}`
    // 'Wie-' + 'derholung' is one word; of 'Anna-' + 'Lena' and 'e-' + '2' the hyphen is a part.
    return /^\p{Ll}/u.test(line) || text.endsWith('\u00AD') ? text.slice(0, -1) + line : text + line
  })
}
