/** A value that both databases bind. A dialect of PostgreSQL also binds arrays. */
export type Value = string | number | null | readonly (string | number | null)[]

/** A statement or a part of one: its text between the values, and the values. */
export class Sql {
  readonly strings: readonly string[]
  readonly values: readonly Value[]

  constructor(strings: readonly string[], values: readonly Value[]) {
    this.strings = strings
    this.values = values
  }

  /** With SQLite's placeholders. */
  get text(): string {
    return this.strings.join('?')
  }
}

export type Part = Value | Sql

/** Parts are put in their place; everything else is bound as a value, never written into the text. */
export function sql(strings: readonly string[], ...parts: readonly Part[]): Sql {
  if (!parts.some((part) => part instanceof Sql)) return new Sql(strings, parts as readonly Value[])
  const values: Value[] = []
  let whole = wholeOf(wholes, strings)
  for (const [i, part] of parts.entries()) {
    if (part instanceof Sql) {
      whole.withPart[i] ??= new WeakMap()
      whole = wholeOf(whole.withPart[i], part.strings)
      values.push(...part.values)
    } else {
      values.push(part)
    }
  }
  whole.strings ??= joined(strings, parts)
  return new Sql(whole.strings, values)
}

/** The text of a template with its parts. The same templates give the same array again, so that a driver prepares it once. */
interface Whole {
  strings: readonly string[] | undefined
  /** By the index of a part, and its text. */
  readonly withPart: WeakMap<readonly string[], Whole>[]
}

const wholes = new WeakMap<readonly string[], Whole>()

function wholeOf(known: WeakMap<readonly string[], Whole>, strings: readonly string[]): Whole {
  let whole = known.get(strings)
  if (whole === undefined) {
    whole = { strings: undefined, withPart: [] }
    known.set(strings, whole)
  }
  return whole
}

function joined(strings: readonly string[], parts: readonly Part[]): string[] {
  const texts = [strings[0] as string]
  for (const [i, part] of parts.entries()) {
    const [first = '', ...rest] = part instanceof Sql ? part.strings : ['', '']
    texts.push(texts.pop() + first, ...rest)
    texts.push(texts.pop() + (strings[i + 1] as string))
  }
  return texts
}

export const NONE: Sql = sql``

/** `a AND b AND c`; true where there is no condition. */
export const allOf = (conditions: readonly Sql[]): Sql =>
  conditions.length === 0 ? sql`true` : conditions.reduce((before, next) => sql`${before} AND ${next}`)

export const listed = (parts: readonly Sql[]): Sql =>
  parts.length === 0 ? NONE : parts.reduce((before, next) => sql`${before}, ${next}`)

type ColumnType = 'bigint' | 'text' | 'float8'

/** What the databases spell differently. */
export interface Dialect {
  /** `key ${inNumbers(keys)}`: the column is one of them. */
  inNumbers(values: readonly number[]): Sql
  inTexts(values: readonly string[]): Sql
  /**
   * `FROM ${table({ name: 'text', at: 'bigint' }, rows)} AS given`: rows of values with these columns, and `i`, which
   * counts from 1.
   */
  table<const Columns extends Readonly<Record<string, ColumnType>>>(
    columns: Columns,
    rows: readonly { readonly [Name in keyof Columns]: string | number | null }[],
  ): Sql
  /** The values of a column of several rows, as one JSON array: `SELECT ${jsonArray(sql`name`)} FROM ...`. */
  jsonArray(column: Sql): Sql
  /** Row locks; nothing on SQLite, where a transaction that writes is alone. */
  readonly forUpdate: Sql
  readonly forShare: Sql
  readonly skipLocked: Sql
  /** Names of functions. */
  readonly greatest: Sql
  readonly least: Sql
  /** A collation: texts are ordered by their bytes. */
  readonly bytewise: Sql
  choose<T>(parts: { sqlite: T; postgres: T }): T
}
