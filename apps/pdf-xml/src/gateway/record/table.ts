import type { DateOrder, RowsDefinition } from '../messages.ts'
import { beginsWith, labelPlaces, overlap } from './labels.ts'
import { type Cell, cellText, type RecordPage, type Row } from './pages.ts'
import type { FoundField } from './read.ts'
import { typedValue } from './values.ts'

export interface FoundRow {
  element: string
  page: number
  fields: readonly FoundField[]
}

interface Column {
  x: number
  right: number
}

/** The rows below a header, on every page that has it. */
export function readRows(definition: RowsDefinition, dateOrder: DateOrder, pages: readonly RecordPage[]): FoundRow[] {
  return pages.flatMap((page) => {
    const start = page.rows.findIndex((row) => columnsOf(row, definition.header) !== undefined)
    const columns = columnsOf(page.rows[start], definition.header)
    if (columns === undefined) return []
    const until = definition.until
    const below = page.rows.slice(start + 1)
    const end = until === undefined ? -1 : below.findIndex((row) => beginsWith(row, until))
    const texts = textsOfRows(end === -1 ? below : below.slice(0, end), columns)
    return texts.map((cells) => ({
      element: definition.element,
      page: page.number,
      fields: cells.flatMap((text, i): FoundField[] => {
        const column = definition.columns[i]
        if (text === '' || column === undefined) return []
        const value = typedValue(column.type, text, dateOrder)
        return [{ definition: column, page: page.number, value: value ?? { text }, isValid: value !== undefined }]
      }),
    }))
  })
}

/** Where the columns stand, if this row has all of the header, in its order. */
function columnsOf(row: Row | undefined, header: readonly string[]): Column[] | undefined {
  if (row === undefined) return undefined
  const columns: Column[] = []
  for (const label of header) {
    const right = columns.at(-1)?.right ?? Number.NEGATIVE_INFINITY
    const place = labelPlaces(row, label).find(({ x }) => x >= right)
    if (place === undefined) return undefined
    columns.push({ x: place.x, right: place.right })
  }
  return columns
}

function textsOfRows(rows: readonly Row[], columns: readonly Column[]): string[][] {
  const texts: string[][] = []
  for (const row of rows) {
    const cells = columns.map(() => '')
    for (const cell of row.cells) {
      const i = columnOf(cell, columns)
      cells[i] = `${cells[i]} ${cellText(cell)}`.trim()
    }
    const filled = cells.flatMap((text, i) => (text === '' ? [] : [i]))
    const above = texts.at(-1)
    // A description that needs a second line has nothing beside it there.
    if (above !== undefined && columns.length > 1 && filled.length === 1 && filled[0] === 0) {
      above[0] = `${above[0]} ${cells[0]}`.trim()
    } else {
      texts.push(cells)
    }
  }
  return texts
}

/** Numbers end where their header ends, texts begin where it begins: the overlap decides, or else the distance. */
function columnOf(cell: Cell, columns: readonly Column[]): number {
  const overlaps = columns.map((column) => overlap(column, cell))
  return overlaps.indexOf(Math.max(...overlaps))
}
