import type { PDFDocumentProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'

const TEXTS = [
  ['title', 'Title'],
  ['author', 'Author'],
  ['subject', 'Subject'],
  ['keywords', 'Keywords'],
  ['creator', 'Creator'],
  ['producer', 'Producer'],
] as const
const DATES = [
  ['created', 'CreationDate'],
  ['modified', 'ModDate'],
] as const
const OTHERS = [
  ['pdfVersion', 'PDFFormatVersion'],
  ['language', 'Language'],
] as const

/** Element and text of what the document says about itself, in the order of the schema. */
export async function metadataOf(pdf: PDFDocumentProxy): Promise<[name: string, text: string][]> {
  const info = await infoOf(pdf)
  const text = (key: string) => (typeof info[key] === 'string' ? info[key].trim() : '')
  return [
    ...TEXTS.map(([name, key]) => [name, text(key)] as [string, string]),
    ...DATES.map(([name, key]) => [name, isoDate(text(key)) ?? ''] as [string, string]),
    ...OTHERS.map(([name, key]) => [name, text(key)] as [string, string]),
  ].filter(([, value]) => value !== '')
}

async function infoOf(pdf: PDFDocumentProxy): Promise<Record<string, unknown>> {
  try {
    return (await pdf.getMetadata()).info as Record<string, unknown>
  } catch {
    // A document whose description is broken still has its text.
    return {}
  }
}

/** 'D:20240131120000+01'00'' and its shorter forms. */
function isoDate(text: string): string | undefined {
  const match = /^D?:?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?\s*([-+Zz])?(\d\d)?'?(\d\d)?/.exec(text)
  if (match === null) return undefined
  const [, year, month = '01', day = '01', hour = '00', minute = '00', second = '00', sign, zoneHour, zoneMinute] =
    match
  const zone = sign === '+' || sign === '-' ? `${sign}${zoneHour ?? '00'}:${zoneMinute ?? '00'}` : 'Z'
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}`
  const real = new Date(`${iso}Z`)
  // A thirtieth of February is refused, or taken for another day.
  if (Number.isNaN(real.getTime()) || !real.toISOString().startsWith(iso)) return undefined
  return Number.isNaN(Date.parse(iso + zone)) ? undefined : iso + zone
}

interface FormField {
  name: string
  type: 'text' | 'checkbox' | 'radio' | 'choice' | 'signature'
  page: number | undefined
  value: string
}

const TYPES: Readonly<Record<string, FormField['type']>> = {
  text: 'text',
  checkbox: 'checkbox',
  radiobutton: 'radio',
  combobox: 'choice',
  listbox: 'choice',
  signature: 'signature',
}

interface Widget {
  type?: string
  value?: unknown
  page?: number
  kidIds?: unknown
}

/** The filled-in form fields. Buttons have no value. */
export async function formFieldsOf(pdf: PDFDocumentProxy): Promise<FormField[]> {
  const byName = await fieldObjects(pdf)
  return [...byName].flatMap(([name, widgets]) => {
    // A field without its own widget represents its children, which have its value.
    const shown = widgets.filter(({ type }) => type !== undefined && Object.hasOwn(TYPES, type))
    const chosen = shown.find(({ value }) => isFilled(value)) ?? shown[0]
    const type = chosen === undefined ? undefined : TYPES[chosen.type ?? '']
    if (chosen === undefined || type === undefined) return []
    const page = typeof chosen.page === 'number' && chosen.page >= 0 ? chosen.page + 1 : undefined
    return [{ name, type, page, value: valueText(chosen.value) }]
  })
}

async function fieldObjects(pdf: PDFDocumentProxy): Promise<Iterable<[string, Widget[]]>> {
  try {
    return ((await pdf.getFieldObjects()) ?? []) as Iterable<[string, Widget[]]>
  } catch {
    // A document whose form is broken still has its text.
    return []
  }
}

const isFilled = (value: unknown): boolean => !['', 'Off'].includes(valueText(value))

function valueText(value: unknown): string {
  if (Array.isArray(value)) return value.map(valueText).join('\n')
  return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
}
