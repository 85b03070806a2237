import { isRtlSegment, least, most, rowsOf, type Segment } from './rows.ts'

/** The minimum number of lines in a column. */
const LINES_MIN = 3
/** Cells of a table are short and leave most of their column empty; lines of prose are neither. */
const CHARS_MIN = 12
const FILL_MIN = 0.5
const DEPTH_MAX = 6
const CANDIDATES_MAX = 24
/** A page with more segments keeps the order of its rows, to bound the cost. */
const SEGMENTS_MAX = 5_000

/**
 * The parts of a page in reading order. A gutter is a vertical gap between two columns. Lines that cross it
 * (headings, footers) divide the page into bands. Bands are read from top to bottom, and each band column by column.
 */
export function readingOrder(segments: readonly Segment[]): Segment[][] {
  if (segments.length > SEGMENTS_MAX) return [[...segments]]
  const { head, body, foot } = withoutFurniture(segments)
  return [head, ...inColumns(body, 0), foot].filter((part) => part.length > 0)
}

function inColumns(segments: readonly Segment[], depth: number): Segment[][] {
  if (segments.length < 2 * LINES_MIN || depth === DEPTH_MAX) return [[...segments]]
  const cut = bestCut(segments)
  if (cut === undefined) return [[...segments]]
  const isRtl = segments.filter(isRtlSegment).length * 2 > segments.length
  return cut.bands.flatMap((band) => {
    if (band.kind === 'whole') return inColumns(band.segments, depth + 1)
    const columns = isRtl ? [band.right, band.left] : [band.left, band.right]
    return columns.flatMap((column) => inColumns(column, depth + 1))
  })
}

/** How far the head and the foot of a page are from its text at least, in sizes of the font. */
const FURNITURE_GAP = 1.9
const PAGE_NUMBER = /^(?:\p{Nd}{1,4}|[ivxlc]{1,6})$/iu

/**
 * Separates the head and the foot of the page, which belong to no column: a page number must not end up inside the
 * text.
 */
function withoutFurniture(segments: readonly Segment[]): { head: Segment[]; body: Segment[]; foot: Segment[] } {
  const rows = rowsOf(segments)
  const isApart = (edge: readonly Segment[], distance: number) =>
    distance > FURNITURE_GAP * most(edge, ({ size }) => size) && (edge.length === 1 || edge.some(isPageNumber))
  const [first = [], second] = rows
  const hasHead =
    second !== undefined &&
    isApart(first, least(rows.slice(1).flat(), ({ top }) => top) - most(first, ({ bottom }) => bottom))
  const body = hasHead ? rows.slice(1) : rows
  const last = body.at(-1) ?? []
  const above = body.slice(0, -1).flat()
  const hasFoot = above.length > 0 && isApart(last, least(last, ({ top }) => top) - most(above, ({ bottom }) => bottom))
  return { head: hasHead ? first : [], body: hasFoot ? above : body.flat(), foot: hasFoot ? last : [] }
}

const isPageNumber = ({ words }: Segment): boolean => words.length === 1 && PAGE_NUMBER.test(words[0]?.text ?? '')

type Band = { kind: 'whole'; segments: Segment[] } | { kind: 'columns'; left: Segment[]; right: Segment[] }

interface Cut {
  bands: Band[]
  lines: number
}

function bestCut(segments: readonly Segment[]): Cut | undefined {
  const byTop = segments.toSorted((a, b) => a.top - b.top)
  let best: Cut | undefined
  for (const at of gutters(segments)) {
    const cut = cutAt(byTop, at)
    if (cut.lines > 0 && (best === undefined || cut.lines > best.lines)) best = cut
  }
  return best
}

/** Columns begin, or end, at the same place line after line. */
function gutters(segments: readonly Segment[]): number[] {
  const counts = new Map<number, number>()
  const count = (place: number) => counts.set(place, (counts.get(place) ?? 0) + 1)
  for (const { x, right } of segments) {
    count(Math.round(x) - 1)
    count(Math.round(right) + 1)
  }
  return [...counts]
    .filter(([, times]) => times >= LINES_MIN)
    .sort((a, b) => b[1] - a[1])
    .slice(0, CANDIDATES_MAX)
    .map(([place]) => place)
}

function cutAt(byTop: readonly Segment[], at: number): Cut {
  const bands: Band[] = []
  let lines = 0
  let left: Segment[] = []
  let right: Segment[] = []
  const whole = (): Segment[] => {
    const last = bands.at(-1)
    if (last?.kind === 'whole') return last.segments
    const segments: Segment[] = []
    bands.push({ kind: 'whole', segments })
    return segments
  }
  const endBand = () => {
    if (isColumn(left) && isColumn(right)) {
      bands.push({ kind: 'columns', left, right })
      lines += left.length + right.length
    } else if (left.length + right.length > 0) {
      whole().push(...left, ...right)
    }
    left = []
    right = []
  }
  for (const segment of byTop) {
    if (segment.right <= at + 1) left.push(segment)
    else if (segment.x >= at - 1) right.push(segment)
    else {
      endBand()
      whole().push(segment)
    }
  }
  endBand()
  return { bands, lines }
}

function isColumn(segments: readonly Segment[]): boolean {
  if (segments.length < LINES_MIN) return false
  const rows = rowsOf(segments)
  if (rows.length < LINES_MIN) return false
  const width = most(segments, ({ right }) => right) - least(segments, ({ x }) => x)
  const filled = segments.reduce((sum, { x, right }) => sum + right - x, 0)
  const chars = segments.reduce((sum, segment) => sum + segment.chars, 0)
  return chars / rows.length >= CHARS_MIN && filled / rows.length >= FILL_MIN * width
}
