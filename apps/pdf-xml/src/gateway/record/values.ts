import type { DateOrder, FieldType } from '../messages.ts'

export interface Value {
  text: string
  currency?: string | undefined
}

/** Undefined if the text is not a value of this type. */
export function typedValue(type: FieldType, text: string, dateOrder: DateOrder): Value | undefined {
  if (type === 'text') return { text }
  if (type === 'date') return wrapped(isoDay(text, dateOrder))
  if (type === 'number') return wrapped(decimal(text))
  const currency = /\b[A-Z]{3}\b/.exec(text)?.[0] ?? SYMBOLS[/[€£$¥]/.exec(text)?.[0] ?? '']
  const amount = decimal(text.replaceAll(/\b[A-Z]{3}\b|[€£$¥]/g, ''))
  return amount === undefined ? undefined : { text: amount, currency }
}

const wrapped = (text: string | undefined): Value | undefined => (text === undefined ? undefined : { text })

// A dollar and a yen sign are used by several currencies: they stay what they are.
const SYMBOLS: Readonly<Record<string, string>> = { '€': 'EUR', '£': 'GBP', $: '$', '¥': '¥' }

/** '1.234,50', '1,234.50', "1'234.50" and '(12)' all become what a program can read. */
function decimal(text: string): string | undefined {
  const bare = text.trim().replaceAll(/[\s'\u2019\u00A0\u202F]/g, '')
  const match = /^(\()?([-+\u2212])?(\d[\d.,]*)([-\u2212])?\)?%?$/.exec(bare)
  if (match === null) return undefined
  const [, bracket, sign = '', digits = '', trailing] = match
  const last = Math.max(digits.lastIndexOf('.'), digits.lastIndexOf(','))
  const mark = digits[last]
  // Of '1,234' and '1.234.567' the marks group thousands; of '0,5' and '1,234.50' the last one does not.
  const isDecimal =
    last !== -1 && digits.indexOf(mark as string) === last && (hasBoth(digits) || digits.length - last !== 4)
  const grouped = isDecimal ? digits.slice(0, last) : digits
  if (!GROUPS.test(grouped)) return undefined
  const whole = grouped.replaceAll(/[.,]/g, '')
  const fraction = isDecimal ? digits.slice(last + 1) : ''
  const isNegative = bracket !== undefined || trailing !== undefined || sign === '-' || sign === '\u2212'
  return `${isNegative ? '-' : ''}${whole.replace(/^0+(?=\d)/, '') || '0'}${fraction === '' ? '' : `.${fraction}`}`
}

/** Threes, or the twos and the last three of India; always with the same mark. */
const GROUPS = /^(?:\d+|\d{1,3}(?:([.,])\d{2,3}(?:\1\d{2,3})*)?)$/

const hasBoth = (digits: string): boolean => digits.includes('.') && digits.includes(',')

const LANGUAGES = ['en', 'de', 'fr', 'es', 'it', 'nl', 'pt']

/** The first letters of a month's name, without accents, as they are unlike any other month of that language. */
const MONTHS: readonly { name: string; month: number }[] = LANGUAGES.flatMap((language) => {
  const format = new Intl.DateTimeFormat(language, { month: 'long', timeZone: 'UTC' })
  return Array.from({ length: 12 }, (_, month) => ({
    name: plain(format.format(Date.UTC(2024, month, 1))),
    month: month + 1,
  }))
})

function plain(text: string): string {
  return text.normalize('NFD').replaceAll(/\p{M}/gu, '').toLowerCase()
}

function isoDay(text: string, order: DateOrder): string | undefined {
  const bare = text.trim()
  const iso = /^(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)/.exec(bare)
  if (iso !== null) return realDay(iso[1], iso[2], iso[3])
  const numbers = /^(\d{1,2})[-/.]\s?(\d{1,2})[-/.]\s?(\d{4}|\d\d)(?!\d)/.exec(bare)
  if (numbers !== null) {
    const [, first, second, third] = numbers
    if (order === 'ymd') return realDay(first, second, third)
    return order === 'mdy' ? realDay(third, first, second) : realDay(third, second, first)
  }
  const dayFirst = /^(\d{1,2})(?:st|nd|rd|th|\.)?\s+(?:de\s+)?(\p{L}{3,})\.?,?\s+(?:de\s+)?(\d{4})/u.exec(bare)
  if (dayFirst !== null) return realDay(dayFirst[3], monthOf(dayFirst[2]), dayFirst[1])
  const monthFirst = /^(\p{L}{3,})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})/u.exec(bare)
  return monthFirst === null ? undefined : realDay(monthFirst[3], monthOf(monthFirst[1]), monthFirst[2])
}

function monthOf(name = ''): string | undefined {
  const start = plain(name)
  return MONTHS.find((known) => known.name.startsWith(start))?.month.toString()
}

function realDay(year = '', month: string | undefined = '', day = ''): string | undefined {
  if (year === '' || month === '' || day === '') return undefined
  const iso = `${year.length === 2 ? `20${year}` : year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`
  const date = new Date(`${iso}T00:00:00Z`)
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(iso) ? iso : undefined
}
