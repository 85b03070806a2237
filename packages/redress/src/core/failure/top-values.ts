/**
 * Which values a field mostly has, in bounded room, however many different ones go by. It is the space-saving counter
 * of Metwally, Agrawal and El Abbadi: a value that finds no room takes the place, and the count, of the rarest one. So
 * a count is never too low, it is too high by at most `over`, and a value that makes up more than a tenth of all
 * (1 / VALUES_MAX) is always there.
 */
export interface CountedValue {
  value: string
  /** At least as often as it was really seen. */
  count: number
  /** By how much `count` may be too high. */
  over: number
}

/** By the name of the field, in the order in which fields were first seen. */
export type TopValues = Readonly<Record<string, readonly CountedValue[]>>

export const FIELDS_MAX = 8
export const VALUES_MAX = 10
const VALUE_CHARS_MAX = 80
const NAME_CHARS_MAX = 60

/** What a program wrote in prose differs each time and would only take the place of something that says more. */
const PROSE: ReadonlySet<string> = new Set(['stderrTail', 'stdoutTail'])

export const NO_VALUES: TopValues = Object.freeze({})

/** Counts the plain values of a failure's context. Only the first fields that a group ever had are counted. */
export function countValues(seen: TopValues, context: Readonly<Record<string, unknown>>): TopValues {
  const counted = new Map(Object.entries(seen))
  for (const [name, value] of Object.entries(context)) {
    if (PROSE.has(name) || name.length > NAME_CHARS_MAX || !isPlain(value)) continue
    const values = counted.get(name)
    if (values === undefined && counted.size >= FIELDS_MAX) continue
    counted.set(name, countValue(values ?? [], shortened(String(value))))
  }
  return Object.fromEntries(counted)
}

/** The most frequent first; of equals, the one that was there first. */
export function countValue(values: readonly CountedValue[], value: string): CountedValue[] {
  const known = values.find((one) => one.value === value)
  if (known !== undefined) return ordered(values.map((one) => (one === known ? { ...one, count: one.count + 1 } : one)))
  if (values.length < VALUES_MAX) return ordered([...values, { value, count: 1, over: 0 }])
  const rarest = values.at(-1) as CountedValue
  return ordered([...values.slice(0, -1), { value, count: rarest.count + 1, over: rarest.count }])
}

const ordered = (values: CountedValue[]): CountedValue[] => values.sort((a, b) => b.count - a.count)

const isPlain = (value: unknown): boolean => ['string', 'number', 'boolean'].includes(typeof value)

function shortened(text: string): string {
  const line = text
    .slice(0, 4 * VALUE_CHARS_MAX)
    .replace(/\s+/g, ' ')
    .trim()
  // Well-formed, as it comes back from a database: half a character would be counted as another value each time.
  return (line.length <= VALUE_CHARS_MAX ? line : `${line.slice(0, VALUE_CHARS_MAX - 1)}…`).toWellFormed()
}
