import { Losses, type XmlFile } from '../pdf/xml.ts'
import type { FoundField, FoundRecord } from './read.ts'

export function writeRecord(xml: XmlFile, { fields, rows }: FoundRecord): void {
  const losses = new Losses()
  const clean = (field: FoundField) => ({ ...field, text: losses.clean(field.value.text) })
  const cleanFields = fields.map(clean)
  const cleanRows = rows.map((row) => ({ ...row, fields: row.fields.map(clean) }))
  xml.begin('record', losses.attributes)
  for (const field of cleanFields) writeField(xml, field)
  for (const row of cleanRows) {
    xml.begin('row', { name: row.element, page: row.page })
    for (const field of row.fields) writeField(xml, field)
    xml.end()
  }
  xml.end()
}

function writeField(xml: XmlFile, { definition, page, text, value, isValid }: FoundField & { text: string }): void {
  xml.element('field', text, {
    name: definition.element,
    type: definition.type,
    page,
    currency: value.currency,
    valid: isValid ? undefined : 'false',
  })
}
