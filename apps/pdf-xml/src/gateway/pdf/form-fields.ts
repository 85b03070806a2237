import type { PDFDocumentProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'

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

/** What was filled in; buttons have nothing to fill in. */
export async function formFieldsOf(pdf: PDFDocumentProxy): Promise<FormField[]> {
  const byName = await fieldObjects(pdf)
  return [...byName].flatMap(([name, widgets]) => {
    // A field without a widget of its own stands for those below it, which have its value.
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
