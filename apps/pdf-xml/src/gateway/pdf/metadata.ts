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
