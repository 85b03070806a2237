import type { RefusalCode } from './refusals.ts'

/** The messages between the gateway and a parser process. */
export interface ParseOrder {
  pdfPath: string
  xmlPath: string
  mapping: MappingOrder
  generator: string
  pagesMax: number
  xmlBytesMax: number
}

export type MappingOrder =
  | { kind: 'text' | 'layout'; name: string; version: number }
  | { kind: 'record'; name: string; version: number; definition: RecordDefinition }

export type ParserSays = { kind: 'ready' } | { kind: 'done'; pages: number } | RefusedParse

interface RefusedParse {
  kind: 'refused'
  code: RefusalCode
  message: string
  /** For the log of the gateway alone: it may quote the document. */
  detail?: string
}

export interface RecordDefinition {
  dateOrder: DateOrder
  fields: readonly FieldDefinition[]
  rows?: RowsDefinition | undefined
}

export type DateOrder = 'dmy' | 'mdy' | 'ymd'
export type FieldType = 'text' | 'number' | 'date' | 'money'

export interface FieldDefinition {
  element: string
  type: FieldType
  required: boolean
  many: boolean
  find: Locator
}

export type Locator =
  | { label: string; where: 'right' | 'below' | 'either'; pattern?: string | undefined; group: number }
  | { pattern: string; group: number }
  | { region: { page: number; x: number; y: number; width: number; height: number } }

export interface RowsDefinition {
  element: string
  header: readonly string[]
  columns: readonly { element: string; type: FieldType }[]
  until?: string | undefined
}
