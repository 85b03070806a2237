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

function literalOf(values: unknown): string {
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
