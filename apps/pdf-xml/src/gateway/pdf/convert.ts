import type { PDFDocumentProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'
import type { ParseOrder } from '../messages.ts'
import { RecordPages } from '../record/pages.ts'
import { type FoundField, type FoundRecord, readRecord } from '../record/read.ts'
import { Refusal } from '../refusals.ts'
import { formFieldsOf, metadataOf } from './document-info.ts'
import { Fonts } from './fonts.ts'
import { type PageView, PdfFile, readPage } from './open.ts'
import { FontTable, writeLayout, writeText } from './page-writer.ts'
import { Losses, points, XmlFile } from './xml.ts'

const NAMESPACE = 'urn:redress:pdf-xml:1'

/** pdf.js keeps some memory for every page, so the document is reopened after this many pages. */
const PAGES_PER_OPENING = 200

/** Writes the whole document, page by page, and says how many pages there were. */
export async function convert(order: ParseOrder): Promise<number> {
  const file = new PdfFile(order.pdfPath)
  try {
    return await convertFile(file, order)
  } finally {
    await file.close()
  }
}

async function convertFile(file: PdfFile, order: ParseOrder): Promise<number> {
  const { mapping } = order
  const pdf = await file.open()
  const pages = pdf.numPages
  if (pages > order.pagesMax) {
    throw new Refusal('TOO_MANY_PAGES', `The PDF has ${pages} pages; ${order.pagesMax} are the limit.`)
  }
  const xml = new XmlFile(order.xmlPath, order.xmlBytesMax)
  xml.begin('document', {
    xmlns: NAMESPACE,
    mapping: mapping.name,
    mappingVersion: mapping.version,
    pages,
    generator: order.generator,
  })
  await writeMetadata(pdf, xml)
  const filled = await writeFormFields(pdf, xml)
  const fonts = new Fonts()
  const table = new FontTable(fonts)
  const kept = new RecordPages()
  let words = 0
  let broken = 0
  for (let number = 1; number <= pages; number++) {
    const opened = number % PAGES_PER_OPENING === 0 ? await file.reopen() : await file.open()
    const page = await readPage(opened, number, fonts, mapping.kind === 'layout')
    if (page === undefined) broken++
    words += page?.wordCount ?? 0
    if (mapping.kind === 'record') {
      if (page !== undefined) kept.add(page)
    } else {
      writePage(xml, number, page, mapping.kind === 'layout' ? table : undefined)
    }
  }
  if (broken === pages) throw new Refusal('PARSE_ERROR', 'None of the pages of this PDF can be read.')
  if (words === 0 && filled === 0) {
    throw new Refusal('NO_TEXT_LAYER', 'The PDF has no text on any of its pages: it is blank, or a scan.')
  }
  if (mapping.kind === 'layout') table.write(xml)
  if (mapping.kind === 'record') writeRecord(xml, readRecord(mapping.definition, kept.pages))
  xml.end()
  xml.close()
  return pages
}

async function writeMetadata(pdf: PDFDocumentProxy, xml: XmlFile): Promise<void> {
  const losses = new Losses()
  const entries = (await metadataOf(pdf)).map(([name, text]) => [name, losses.clean(text)] as const)
  xml.begin('metadata', losses.attributes)
  for (const [name, text] of entries) xml.element(name, text)
  xml.end()
}

async function writeFormFields(pdf: PDFDocumentProxy, xml: XmlFile): Promise<number> {
  const fields = await formFieldsOf(pdf)
  if (fields.length === 0) return 0
  const losses = new Losses()
  const clean = fields.map((field) => ({ ...field, name: losses.clean(field.name), value: losses.clean(field.value) }))
  xml.begin('fields', losses.attributes)
  for (const { name, type, page, value } of clean) xml.element('field', value, { name, type, page })
  xml.end()
  return fields.filter(({ value }) => value !== '' && value !== 'Off').length
}

function writePage(xml: XmlFile, number: number, page: PageView | undefined, table: FontTable | undefined): void {
  if (page === undefined) {
    xml.element('page', '', { number, broken: 'true' })
    return
  }
  const losses = new Losses()
  const write = table === undefined ? writeText(page, losses) : writeLayout(page, table, losses)
  const size = { width: points(page.width), height: points(page.height), rotation: page.rotation }
  xml.begin('page', { number, ...size, ...losses.attributes })
  write(xml)
  xml.end()
}

function writeRecord(xml: XmlFile, { fields, rows }: FoundRecord): void {
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
