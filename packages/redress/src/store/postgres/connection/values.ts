export const textOf = (data: object | null): string | null => (data === null ? null : JSON.stringify(data))

/** Text in PostgreSQL cannot hold the character NUL. */
export const printable = (text: string): string => text.replaceAll('\0', '\ufffd')

/**
 * Array literals for `unnest`; the client would serialize them value by value. A column with only NULLs is sent as an empty
 * array: `unnest` pads shorter arrays with NULL, so at least one array must have all its values.
 */
export function numbers(values: readonly (number | null)[]): string {
  for (const value of values) if (value !== null) return `{${values.map((n) => n ?? 'NULL').join()}}`
  return '{}'
}

/** The same for texts. Equal neighbours are common, so a text equal to the last one is not escaped again. */
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

/** Most texts have nothing to escape, and looking for it is cheap. */
function quotedText(value: string): string {
  let text = value
  if (text.includes('\\')) text = text.replaceAll('\\', '\\\\')
  if (text.includes('"')) text = text.replaceAll('"', '\\"')
  return `"${text}"`
}

/**
 * The array types that our statements use, by their OIDs, which are the same on all servers. The client would ask the server
 * for all types on each connection, and a connection that breaks meanwhile would end the process.
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

/** One entry per OID, because the client looks up serializers by OID. */
export const ARRAY_TYPES = Object.fromEntries(
  [
    ...TEXTS.map((number) => arrayType([number], (text) => text)),
    ...NUMBERS.map((number) => arrayType([number], Number)),
    ...BOOLEANS.map((number) => arrayType([number], (text) => text === 't')),
  ].map((type) => [`array${type.to}`, type]),
)

/** An array literal, which every client can send. */
export function literalOf(values: unknown): string {
  // Some values are array literals already.
  if (!Array.isArray(values)) return String(values)
  const words = (values as readonly Value[]).map((value) => {
    if (value === null || value === undefined) return 'NULL'
    if (typeof value !== 'string') return String(value)
    return `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
  })
  return `{${words.join()}}`
}

/** The elements of a one-dimensional array literal. */
function elementsOf(text: string): (string | null)[] {
  const elements: (string | null)[] = []
  for (const [whole, quoted] of text.slice(1, -1).matchAll(/"((?:[^"\\]|\\.)*)"|[^,]+/gs)) {
    if (quoted !== undefined) elements.push(quoted.replace(/\\(.)/gs, '$1'))
    else elements.push(whole === 'NULL' ? null : whole)
  }
  return elements
}
