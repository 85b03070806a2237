import type { LetterFilter, LetterPage } from '../../contract/dead-letters.ts'
import type { Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { allOf, type Dialect, type Sql, sql } from '../tx/sql.ts'

/**
 * Where letters are searched. PostgreSQL keeps what a filter can ask for in `letter_traits`, with an index for each. SQLite
 * walks the letters by offset, in short steps.
 */

const LETTERS_PER_STEP = 2_000

type Trait = 'offset' | 'type' | 'owner' | 'code' | 'fingerprint'

const ON_SQLITE: Record<Trait, Sql> = {
  offset: sql`dead_letters."offset"`,
  type: sql`job_specs.type`,
  owner: sql`job_specs.owner`,
  code: sql`failures.code`,
  fingerprint: sql`failures.fingerprint`,
}

const trait = ({ choose }: Dialect, name: Trait): Sql =>
  choose({ sqlite: ON_SQLITE[name], postgres: sql([`letter_traits."${name}"`]) })

const tables = ({ choose }: Dialect): Sql =>
  choose({
    sqlite: sql`dead_letters JOIN failures ON failures.seq = dead_letters.failure
      JOIN job_specs ON job_specs.key = dead_letters.job`,
    postgres: sql`dead_letters JOIN letter_traits ON letter_traits."offset" = dead_letters."offset"`,
  })

type Conditions = { [Key in keyof LetterFilter]: LetterFilter[Key] | undefined }

/** `type` is the number of the filter's type. */
function condition(dialect: Dialect, filter: Conditions, type: number | undefined): Sql {
  const { offset, code, owner, fingerprint, sinceMs, untilMs, isReplayed } = filter
  const asked = { offset, type, code, owner, fingerprint }
  const conditions = Object.entries(asked).flatMap(([name, value]) =>
    value === undefined ? [] : [sql`${trait(dialect, name as Trait)} = ${value}`],
  )
  if (sinceMs !== undefined) conditions.push(sql`dead_letters.at >= ${sinceMs}`)
  if (untilMs !== undefined) conditions.push(sql`dead_letters.at < ${untilMs}`)
  if (isReplayed !== undefined) conditions.push(sql`(replays > 0) = ${truth(isReplayed)}`)
  return allOf(conditions)
}

const truth = (value: boolean): Sql => (value ? sql`true` : sql`false`)

export interface LetterRange extends LetterPage {
  upToOffset?: number
}

/** A statement that gives the offsets of one page. */
export function* pageOfLetters(
  tx: Tx,
  filter: LetterFilter,
  type: number | undefined,
  range: LetterRange,
): Script<Sql> {
  return tx.isPaced
    ? pageOfOffsets(tx, yield* walkInSteps(tx, filter, type, range))
    : walkOf(tx.dialect, filter, type, range)
}

export const pageOfOffsets = ({ dialect }: Tx, offsets: readonly number[]): Sql => {
  const rows = offsets.map((offset) => ({ offset }))
  return sql`SELECT "offset" FROM ${dialect.table({ offset: 'bigint' }, rows)} AS given`
}

/** The offsets of one page, in its order. */
export function* offsetsOfPage(
  tx: Tx,
  filter: LetterFilter,
  type: number | undefined,
  range: LetterRange,
): Script<number[]> {
  if (tx.isPaced) return yield* walkInSteps(tx, filter, type, range)
  return offsetsOf(yield* tx.all`${walkOf(tx.dialect, filter, type, range)}`)
}

/** Where a walk starts, and its comparisons. */
function directionOf({ afterOffset, isNewestFirst = false }: LetterRange) {
  const start = isNewestFirst && afterOffset === 0 ? Number.MAX_SAFE_INTEGER : afterOffset
  const [beyond, within, order] = isNewestFirst ? [sql`<`, sql`>=`, sql`DESC`] : [sql`>`, sql`<=`, sql`ASC`]
  return { start, beyond, within, order }
}

/** SQLite */
function* walkInSteps(tx: Tx, filter: LetterFilter, type: number | undefined, range: LetterRange): Script<number[]> {
  const { upToOffset = Number.MAX_SAFE_INTEGER, limit, isNewestFirst = false } = range
  const { start, beyond, within, order } = directionOf(range)
  const found: number[] = []
  for (let from = start; ; ) {
    const end = yield* stepEnd(tx, from, beyond, order)
    const rows = yield* tx.all`
      SELECT dead_letters."offset" FROM ${tables(tx.dialect)}
      WHERE dead_letters."offset" ${beyond} ${from}
        AND dead_letters."offset" ${within} ${end ?? (isNewestFirst ? 0 : Number.MAX_SAFE_INTEGER)}
        AND dead_letters."offset" <= ${upToOffset} AND ${condition(tx.dialect, filter, type)}
      ORDER BY dead_letters."offset" ${order} LIMIT ${limit - found.length}`
    found.push(...offsetsOf(rows))
    if (end === undefined || found.length >= limit) return found
    from = end
    yield* tx.pause()
  }
}

function* stepEnd(tx: Tx, from: number, beyond: Sql, order: Sql): Script<number | undefined> {
  const row = yield* tx.get<{ offset: number }>`
    SELECT "offset" FROM dead_letters WHERE "offset" ${beyond} ${from}
    ORDER BY "offset" ${order} LIMIT 1 OFFSET ${LETTERS_PER_STEP - 1}`
  return row?.offset
}

const offsetsOf = (rows: readonly object[]): number[] => (rows as { offset: number }[]).map(({ offset }) => offset)

/**
 * PostgreSQL: as for lists of jobs, each walk is ordered by all columns of the index that it is meant to use; for the
 * newest first, it starts at the other end.
 */
function walkOf(dialect: Dialect, filter: LetterFilter, type: number | undefined, range: LetterRange): Sql {
  const { upToOffset = Number.MAX_SAFE_INTEGER, limit } = range
  const { start, beyond, within, order } = directionOf(range)
  const rest = (led: keyof LetterFilter) => sql`dead_letters."offset" <= ${upToOffset}
    AND ${condition(dialect, { ...filter, [led]: undefined }, led === 'type' ? undefined : type)}`
  if (filter.offset !== undefined) {
    return sql`
      SELECT dead_letters."offset" FROM ${tables(dialect)}
      WHERE dead_letters."offset" = ${filter.offset} AND dead_letters."offset" ${beyond} ${start} AND ${rest('offset')}`
  }
  for (const name of ['fingerprint', 'owner', 'code', 'type'] as const) {
    const value = name === 'type' ? type : filter[name]
    if (value === undefined) continue
    const column = trait(dialect, name)
    return sql`
      SELECT letter_traits."offset" FROM ${tables(dialect)}
      WHERE (${column}, letter_traits."offset") ${beyond} (${value}, CAST(${start} AS bigint))
        AND ${column} ${within} ${value} AND ${rest(name)}
      ORDER BY ${column} ${order}, letter_traits."offset" ${order} LIMIT ${limit}`
  }
  if (filter.isReplayed !== undefined) {
    const isReplayed = truth(filter.isReplayed)
    return sql`
      SELECT dead_letters."offset" FROM ${tables(dialect)}
      WHERE ((replays > 0), dead_letters."offset") ${beyond} (${isReplayed}, CAST(${start} AS bigint))
        AND (replays > 0) ${within} ${isReplayed} AND ${rest('isReplayed')}
      ORDER BY (replays > 0) ${order}, dead_letters."offset" ${order} LIMIT ${limit}`
  }
  return sql`
    SELECT dead_letters."offset" FROM ${tables(dialect)} WHERE dead_letters."offset" ${beyond} ${start} AND ${rest('offset')}
    ORDER BY dead_letters."offset" ${order} LIMIT ${limit}`
}

interface CountedCause {
  type: number
  code: string
  n: number
  last: number
}

/** How many letters there are of each type and code, and the highest offset of them. */
export function* countLetters(tx: Tx, filter: LetterFilter, type: number | undefined): Script<CountedCause[]> {
  const { sinceMs, untilMs, isReplayed } = filter
  const isOfTraits = sinceMs === undefined && untilMs === undefined && isReplayed === undefined
  const from = tx.dialect.choose({
    sqlite: tables(tx.dialect),
    postgres: isOfTraits ? sql`letter_traits` : tables(tx.dialect),
  })
  const [offset, code, typeOf] = (['offset', 'code', 'type'] as const).map((name) => trait(tx.dialect, name)) as [
    Sql,
    Sql,
    Sql,
  ]
  const causes = new Map<string, CountedCause>()
  for (let after = 0; ; ) {
    const end = tx.isPaced ? yield* stepEnd(tx, after, sql`>`, sql`ASC`) : undefined
    const rows = yield* tx.all<CountedCause>`
      SELECT ${typeOf} AS type, ${code} AS code, count(*) AS n, max(${offset}) AS last FROM ${from}
      WHERE ${offset} > ${after} AND ${offset} <= ${end ?? Number.MAX_SAFE_INTEGER}
        AND ${condition(tx.dialect, filter, type)}
      GROUP BY ${typeOf}, ${code}`
    for (const row of rows) {
      const before = causes.get(`${row.type} ${row.code}`)
      causes.set(`${row.type} ${row.code}`, { ...row, n: row.n + (before?.n ?? 0) })
    }
    if (end === undefined) return [...causes.values()]
    after = end
    yield* tx.pause()
  }
}

/** The given letters that a filter still matches. */
export const matchingLetters = (
  tx: Tx,
  offsets: readonly number[],
  filter: LetterFilter,
  type: number | undefined,
): Script<{ offset: number; job: number }[]> => tx.all`
  SELECT dead_letters."offset", dead_letters.job FROM ${tables(tx.dialect)}
  WHERE dead_letters."offset" ${tx.dialect.inNumbers(offsets)} AND ${condition(tx.dialect, filter, type)}
  ORDER BY dead_letters."offset"`
