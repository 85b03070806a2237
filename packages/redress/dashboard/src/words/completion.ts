import { nearest } from './nearest.ts'
import { asValue, type Filter, QUALIFIERS, type Qualifier, STATUSES, tokens } from './qualifiers.ts'

/** Values that are known to be there, by qualifier. */
export type KnownValues = Readonly<Partial<Record<Qualifier, readonly string[]>>>

export interface Suggestion {
  /** What is put in: `status:` or `status:failed`. */
  text: string
  meaning: string
  /** The whole line with it, and where one goes on writing. */
  line: string
  caret: number
  /** Nothing is missing: it can be looked for at once. */
  isWhole: boolean
}

const SHOWN_MAX = 8
const LETTERS_MIN = 2
const ALWAYS: KnownValues = { status: STATUSES, age: ['<15m', '<1h', '<24h', '<7d'] }

/** What could be written where the caret stands. */
export function suggestionsFor(line: string, caret: number, known: KnownValues): Suggestion[] {
  const all = tokens(line)
  const at = all.find(({ start, end }) => start < caret && caret <= end)
  const start = at?.start ?? caret
  const rest = line.slice(at?.end ?? caret).trimStart()
  const put = (text: string, meaning: string, isWhole: boolean): Suggestion => {
    const before = line.slice(0, start) + text + (isWhole ? ' ' : '')
    return { text, meaning, line: before + rest, caret: before.length, isWhole }
  }
  const values = (name: Qualifier): readonly string[] => known[name] ?? ALWAYS[name] ?? []
  const asWhole = (name: Qualifier, value: string): Suggestion => put(`${name}:${asValue(value)}`, '', true)

  if (at !== undefined && at.name !== null) {
    const name = at.name as Qualifier
    if (!Object.hasOwn(QUALIFIERS, name)) return []
    const fits = matching(values(name), at.value).filter((value) => value !== at.value)
    return fits.slice(0, SHOWN_MAX).map((value) => asWhole(name, value))
  }
  const word = at?.value ?? ''
  const given = new Set(all.map(({ name }) => name))
  const free = (Object.keys(QUALIFIERS) as Qualifier[]).filter((name) => !given.has(name))
  const names = free.filter((name) => name.startsWith(word.toLowerCase()))
  const found =
    word.length < LETTERS_MIN ? [] : free.flatMap((name) => matching(values(name), word).map((v) => asWhole(name, v)))
  return [...names.map((name) => put(`${name}:`, QUALIFIERS[name], false)), ...found].slice(0, SHOWN_MAX)
}

/** What begins so comes before what only has it somewhere. */
function matching(values: readonly string[], typed: string): string[] {
  const small = typed.toLowerCase()
  const place = (value: string): number => value.toLowerCase().indexOf(small)
  const fits = values.filter((value) => place(value) >= 0)
  return [...fits.filter((value) => place(value) === 0), ...fits.filter((value) => place(value) > 0)]
}

/** A value that nobody has heard of is no mistake, but may be a slip: what was probably meant, as another filter. */
export function doubts(filter: Filter, known: KnownValues): { text: string; better: Filter }[] {
  return (['type', 'queue', 'code'] as const).flatMap((name) => {
    const value = filter[name]
    const values = known[name] ?? []
    if (value === undefined || values.length === 0 || values.includes(value)) return []
    const meant = nearest(value, values)
    return meant === null ? [] : [{ text: `No ${name} ${value} is known here.`, better: { ...filter, [name]: meant } }]
  })
}
