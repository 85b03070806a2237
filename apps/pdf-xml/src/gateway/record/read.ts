import type { DateOrder, FieldDefinition, Locator, RecordDefinition, RowsDefinition } from '../messages.ts'
import { Refusal } from '../refusals.ts'
import { type Cell, cellText, type RecordPage, type RecordWord, type Row, rowText } from './pages.ts'
import { typedValue, type Value } from './values.ts'

export interface FoundField {
  definition: Pick<FieldDefinition, 'element' | 'type'>
  page: number
  value: Value
  /** False if the text is not a value of the type. The text is then returned unchanged. */
  isValid: boolean
}

export interface FoundRecord {
  fields: readonly FoundField[]
  rows: readonly FoundRow[]
}

const MANY_MAX = 1_000

export function readRecord(definition: RecordDefinition, pages: readonly RecordPage[]): FoundRecord {
  const fields = definition.fields.flatMap((field) => readField(field, definition, pages))
  const rows = definition.rows === undefined ? [] : readRows(definition.rows, definition.dateOrder, pages)
  return { fields, rows }
}

function readField(
  field: FieldDefinition,
  { dateOrder }: RecordDefinition,
  pages: readonly RecordPage[],
): FoundField[] {
  const found: FoundField[] = []
  for (const page of pages) {
    for (const text of textsOf(field.find, page)) {
      const value = typedValue(field.type, text, dateOrder)
      const isValid = value !== undefined
      found.push({ definition: field, page: page.number, value: value ?? { text }, isValid })
      // 'VAT' is also the beginning of 'VAT ID': the first value of the right type wins.
      if (isValid && !field.many) return found.slice(-1)
      if (found.length === MANY_MAX) break
    }
  }
  return checked(field, field.many ? found : found.slice(0, 1))
}

function checked(field: FieldDefinition, found: FoundField[]): FoundField[] {
  if (!field.required) return found
  if (found.length === 0) throw new Refusal('VALIDATION', `The field ${field.element} was not found in the PDF.`)
  if (!found.some(({ isValid }) => isValid)) {
    throw new Refusal('VALIDATION', `The value found for the field ${field.element} is not of type ${field.type}.`)
  }
  return found
}

function* textsOf(find: Locator, page: RecordPage): Generator<string> {
  if ('region' in find) {
    const text = find.region.page === page.number ? textInRegion(page, find.region) : ''
    if (text !== '') yield text
  } else if ('label' in find) {
    for (const text of textsAtLabel(page, find.label, find.where)) {
      if (find.pattern === undefined) yield text
      else yield* matches(text, find.pattern, find.group)
    }
  } else {
    yield* matches(page.rows.map(rowText).join('\n'), find.pattern, find.group)
  }
}

/** A pattern that never ends is ended with its process, by the time limit of the document. */
function* matches(text: string, pattern: string, group: number): Generator<string> {
  for (const match of text.matchAll(new RegExp(pattern, 'gmu'))) {
    const found = match[group]?.trim() ?? ''
    if (found !== '') yield found
  }
}

function textInRegion(page: RecordPage, region: { x: number; y: number; width: number; height: number }): string {
  const lines = page.rows.map(({ cells }) =>
    cells
      .flatMap(({ words }) => words)
      .filter(({ box }) => {
        const x = box.x + box.width / 2 - region.x
        const y = box.y + box.height / 2 - region.y
        return x >= 0 && x <= region.width && y >= 0 && y <= region.height
      })
      .map(({ text }) => text)
      .join(' '),
  )
  return lines.filter((line) => line !== '').join('\n')
}

interface FoundRow {
  element: string
  page: number
  fields: readonly FoundField[]
}

interface Column {
  x: number
  right: number
}

/** The rows below a header, on every page that has it. */
function readRows(definition: RowsDefinition, dateOrder: DateOrder, pages: readonly RecordPage[]): FoundRow[] {
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

/** The positions of the columns, if this row contains the whole header, in order. */
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

/** The maximum number of rows between a label and its value. */
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

function labelPlaces(row: Row, label: string): LabelPlace[] {
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
function* textsAtLabel(page: RecordPage, label: string, where: 'right' | 'below' | 'either'): Generator<string> {
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

function overlap(a: Pick<Cell, 'x' | 'right'>, b: Pick<Cell, 'x' | 'right'>): number {
  return Math.min(a.right, b.right) - Math.max(a.x, b.x)
}

function beginsWith(row: Row, words: string): boolean {
  return plain(rowText(row)).startsWith(wordsOf(words).join(' '))
}
