import type { FieldDefinition, Finding, RecordDefinition } from '../messages.ts'
import { Refusal } from '../refusals.ts'
import { textsAtLabel } from './labels.ts'
import { type RecordPage, rowText } from './pages.ts'
import { type FoundRow, readRows } from './table.ts'
import { typedValue, type Value } from './values.ts'

export interface FoundField {
  definition: Pick<FieldDefinition, 'element' | 'type'>
  page: number
  value: Value
  /** False when the text is no value of the type; it is given as it stands. */
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
      // 'VAT' is also the beginning of 'VAT ID': what is of the right type is meant.
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
    throw new Refusal('VALIDATION', `What was found for the field ${field.element} is not of type ${field.type}.`)
  }
  return found
}

function* textsOf(find: Finding, page: RecordPage): Generator<string> {
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
