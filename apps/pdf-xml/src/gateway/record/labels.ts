import { type Cell, cellText, type RecordPage, type RecordWord, type Row, rowText } from './pages.ts'

/** A value is at most so many rows below its label. */
const ROWS_BELOW_MAX = 3

const plain = (text: string): string => text.toLowerCase().replaceAll(/[:.#\uFF1A]+$/g, '')
const wordsOf = (label: string): string[] => label.trim().split(/\s+/).map(plain)

interface LabelPlace {
  cellIndex: number
  /** The first word after the label. */
  next: number
  x: number
  right: number
}

export function labelPlaces(row: Row, label: string): LabelPlace[] {
  const wanted = wordsOf(label)
  return row.cells.flatMap(({ words }, cellIndex) =>
    words.flatMap((_, start) => {
      const found = words.slice(start, start + wanted.length)
      if (found.length < wanted.length || !found.every(({ text }, i) => plain(text) === wanted[i])) return []
      return [{ cellIndex, next: start + wanted.length, ...extent(found) }]
    }),
  )
}

function extent(words: readonly RecordWord[]): { x: number; right: number } {
  return { x: Math.min(...words.map(({ x }) => x)), right: Math.max(...words.map(({ right }) => right)) }
}

/** The texts that a label may mean, the likeliest first. */
export function* textsAtLabel(page: RecordPage, label: string, where: 'right' | 'below' | 'either'): Generator<string> {
  for (const [rowIndex, row] of page.rows.entries()) {
    for (const place of labelPlaces(row, label)) {
      const right = where === 'below' ? '' : textAtRight(row, place)
      if (right !== '') yield right
      if (where === 'right' || (where === 'either' && right !== '')) continue
      const below = textBelow(page, rowIndex, place)
      if (below !== '') yield below
    }
  }
}

function textAtRight(row: Row, { cellIndex, next }: LabelPlace): string {
  const rest = (row.cells[cellIndex]?.words ?? []).slice(next)
  const own = withoutColon(rest.map(({ text }) => text).join(' '))
  const beside = row.cells[cellIndex + 1]
  return own !== '' || beside === undefined ? own : withoutColon(cellText(beside))
}

const withoutColon = (text: string): string => text.replace(/^[\s:\uFF1A]+/, '').trim()

function textBelow(page: RecordPage, rowIndex: number, { x, right }: LabelPlace): string {
  for (const row of page.rows.slice(rowIndex + 1, rowIndex + 1 + ROWS_BELOW_MAX)) {
    const cell = row.cells.find((candidate) => overlap(candidate, { x, right }) > 0)
    if (cell !== undefined) return cellText(cell)
  }
  return ''
}

export function overlap(a: Pick<Cell, 'x' | 'right'>, b: Pick<Cell, 'x' | 'right'>): number {
  return Math.min(a.right, b.right) - Math.max(a.x, b.x)
}

export function beginsWith(row: Row, words: string): boolean {
  return plain(rowText(row)).startsWith(wordsOf(words).join(' '))
}
