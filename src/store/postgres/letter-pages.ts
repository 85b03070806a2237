import type { LetterFilter } from '../dead-letters.ts'
import type { Sql } from './client.ts'
import { printable } from './history.ts'

interface Range {
  afterOffset: number
  upToOffset?: number
  limit: number
}

const TABLES = (sql: Sql) => sql`
  dead_letters JOIN letter_traits ON letter_traits."offset" = dead_letters."offset"`

/**
 * The offsets of one page, the oldest first; as a part of a statement. As for lists of jobs, each walk is ordered by all
 * columns of the index that it is meant to use.
 */
export function pageOfLetters(
  sql: Sql,
  filter: LetterFilter,
  type: number | undefined,
  { afterOffset, upToOffset = Number.MAX_SAFE_INTEGER, limit }: Range,
) {
  const { offset, fingerprint, owner, code, isReplayed } = filter
  const rest = (led: keyof LetterFilter) => sql`
    AND dead_letters."offset" <= ${upToOffset}
    ${letterCondition(sql, { ...filter, [led]: undefined }, led === 'type' ? undefined : type)}`
  if (offset !== undefined) {
    return sql`
      SELECT dead_letters."offset" FROM ${TABLES(sql)}
      WHERE dead_letters."offset" = ${offset} AND ${offset}::bigint > ${afterOffset} ${rest('offset')}`
  }
  const ledBy = (name: 'fingerprint' | 'owner' | 'code' | 'type', value: string | number) => {
    const column = sql(`letter_traits.${name}`)
    return sql`
      SELECT letter_traits."offset" FROM ${TABLES(sql)}
      WHERE (${column}, letter_traits."offset") > (${value}, ${afterOffset}::bigint) AND ${column} <= ${value} ${rest(name)}
      ORDER BY ${column}, letter_traits."offset" LIMIT ${limit}`
  }
  if (fingerprint !== undefined) return ledBy('fingerprint', printable(fingerprint))
  if (owner !== undefined) return ledBy('owner', printable(owner))
  if (code !== undefined) return ledBy('code', printable(code))
  if (type !== undefined) return ledBy('type', type)
  if (isReplayed !== undefined) {
    return sql`
      SELECT dead_letters."offset" FROM ${TABLES(sql)}
      WHERE ((replays > 0), dead_letters."offset") > (${isReplayed}::boolean, ${afterOffset}::bigint)
        AND (replays > 0) <= ${isReplayed} ${rest('isReplayed')}
      ORDER BY (replays > 0), dead_letters."offset" LIMIT ${limit}`
  }
  return sql`
    SELECT dead_letters."offset" FROM ${TABLES(sql)} WHERE dead_letters."offset" > ${afterOffset} ${rest('offset')}
    ORDER BY dead_letters."offset" LIMIT ${limit}`
}

/** The tables that a filter asks about; the traits are always among them. */
export const lettersFor = (sql: Sql, { sinceMs, untilMs, isReplayed }: LetterFilter) =>
  sinceMs === undefined && untilMs === undefined && isReplayed === undefined ? sql`letter_traits` : TABLES(sql)

type Conditions = { [Key in keyof LetterFilter]: LetterFilter[Key] | undefined }

/** Over both tables; `type` is the number of the filter's. */
export function letterCondition(sql: Sql, filter: Conditions, type: number | undefined) {
  const { offset, code, owner, fingerprint, sinceMs, untilMs, isReplayed } = filter
  return sql`
    ${offset === undefined ? sql`` : sql`AND letter_traits."offset" = ${offset}`}
    ${type === undefined ? sql`` : sql`AND letter_traits.type = ${type}`}
    ${code === undefined ? sql`` : sql`AND letter_traits.code = ${printable(code)}`}
    ${owner === undefined ? sql`` : sql`AND letter_traits.owner = ${printable(owner)}`}
    ${fingerprint === undefined ? sql`` : sql`AND letter_traits.fingerprint = ${printable(fingerprint)}`}
    ${sinceMs === undefined ? sql`` : sql`AND dead_letters.at >= ${sinceMs}`}
    ${untilMs === undefined ? sql`` : sql`AND dead_letters.at < ${untilMs}`}
    ${isReplayed === undefined ? sql`` : sql`AND (replays > 0) = ${isReplayed}`}`
}
