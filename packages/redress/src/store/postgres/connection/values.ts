export const textOf = (data: object | null): string | null => (data === null ? null : JSON.stringify(data))

/** PostgreSQL's text holds every character but one. */
export const printable = (text: string): string => text.replaceAll('\0', '\ufffd')

/**
 * Arrays in PostgreSQL's own words, for `unnest`. The client would go through them value by value. Where there are only
 * NULLs nothing is sent: `unnest` fills up the shorter ones of its arrays, so one of them must have all its values.
 */
export function numbers(values: readonly (number | null)[]): string {
  for (const value of values) if (value !== null) return `{${values.map((n) => n ?? 'NULL').join()}}`
  return '{}'
}

/** The same of texts. Those that come together are often much alike: what was just escaped is not escaped again. */
export function texts(values: readonly (string | null)[]): string {
  let last: string | null = null
  let lastQuoted = 'NULL'
  let isAny = false
  const quoted = values.map((value) => {
    if (value !== last) {
      last = value
      isAny = true
      lastQuoted = value === null ? 'NULL' : quotedText(value)
    }
    return lastQuoted
  })
  return isAny ? `{${quoted.join()}}` : '{}'
}

/** Looked through first: most have nothing to escape, and looking is cheap. */
function quotedText(value: string): string {
  let text = value
  if (text.includes('\\')) text = text.replaceAll('\\', '\\\\')
  if (text.includes('"')) text = text.replaceAll('"', '\\"')
  return `"${text}"`
}

/**
 * The types of arrays that statements of ours take and give, by the numbers that all servers know them by. The client
 * would ask each server for all it has, on each connection, and a connection that breaks off meanwhile ends the process.
 */
const TEXTS = [1003, 1009, 1015, 2951]
const NUMBERS = [1005, 1007, 1016, 1021, 1022, 1028]
const BOOLEANS = [1000]

type Value = string | number | boolean | null

const arrayType = (numbers: readonly number[], read: (text: string) => Value) => ({
  to: numbers[0] as number,
  from: [...numbers],
  parse: (text: string): Value[] => elementsOf(text).map((one) => (one === null ? null : read(one))),
  serialize: literalOf,
})

/** One entry for each number, because that is how the client looks for who writes them. */
export const ARRAY_TYPES = Object.fromEntries(
  [
    ...TEXTS.map((number) => arrayType([number], (text) => text)),
    ...NUMBERS.map((number) => arrayType([number], Number)),
    ...BOOLEANS.map((number) => arrayType([number], (text) => text === 't')),
  ].map((type) => [`array${type.to}`, type]),
)

/** An array as PostgreSQL writes it, which every client can send. */
export function literalOf(values: unknown): string {
  // Some are given in PostgreSQL's own words.
  if (!Array.isArray(values)) return String(values)
  const words = (values as readonly Value[]).map((value) => {
    if (value === null || value === undefined) return 'NULL'
    if (typeof value !== 'string') return String(value)
    return `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
  })
  return `{${words.join()}}`
}

/** Of one dimension, which is all that we ask for. */
function elementsOf(text: string): (string | null)[] {
  const elements: (string | null)[] = []
  for (const [whole, quoted] of text.slice(1, -1).matchAll(/"((?:[^"\\]|\\.)*)"|[^,]+/gs)) {
    if (quoted !== undefined) elements.push(quoted.replace(/\\(.)/gs, '$1'))
    else elements.push(whole === 'NULL' ? null : whole)
  }
  return elements
}
