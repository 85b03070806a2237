import type { LetterFilter, LetterPage } from '../dead-letters.ts'
import type { Sql } from './client.ts'
import { printable } from './history.ts'

interface Range extends LetterPage {
  upToOffset?: number
}

const TABLES = (sql: Sql) => sql`
  dead_letters JOIN letter_traits ON letter_traits."offset" = dead_letters."offset"`

/**
 * The offsets of one page, as a part of a statement. As for lists of jobs, each walk is ordered by all columns of the
 * index that it is meant to use; for the newest first, it is taken from its other end.
 */
export function pageOfLetters(
  sql: Sql,
  filter: LetterFilter,
  type: number | undefined,
  { afterOffset, upToOffset = Number.MAX_SAFE_INTEGER, limit, isNewestFirst = false }: Range,
) {
  const from = isNewestFirst && afterOffset === 0 ? Number.MAX_SAFE_INTEGER : afterOffset
  const beyond = () => (isNewestFirst ? sql`<` : sql`>`)
  const within = () => (isNewestFirst ? sql`>=` : sql`<=`)
  const order = () => (isNewestFirst ? sql`DESC` : sql`ASC`)
  const { offset, fingerprint, owner, code, isReplayed } = filter
  const rest = (led: keyof LetterFilter) => sql`
    AND dead_letters."offset" <= ${upToOffset}
    ${letterCondition(sql, { ...filter, [led]: undefined }, led === 'type' ? undefined : type)}`
  if (offset !== undefined) {
    return sql`
      SELECT dead_letters."offset" FROM ${TABLES(sql)}
      WHERE dead_letters."offset" = ${offset} AND ${offset}::bigint ${beyond()} ${from} ${rest('offset')}`
  }
  const ledBy = (name: 'fingerprint' | 'owner' | 'code' | 'type', value: string | number) => {
    const column = sql(`letter_traits.${name}`)
    return sql`
      SELECT letter_traits."offset" FROM ${TABLES(sql)}
      WHERE (${column}, letter_traits."offset") ${beyond()} (${value}, ${from}::bigint)
        AND ${column} ${within()} ${value} ${rest(name)}
      ORDER BY ${column} ${order()}, letter_traits."offset" ${order()} LIMIT ${limit}`
  }
  if (fingerprint !== undefined) return ledBy('fingerprint', printable(fingerprint))
  if (owner !== undefined) return ledBy('owner', printable(owner))
  if (code !== undefined) return ledBy('code', printable(code))
  if (type !== undefined) return ledBy('type', type)
  if (isReplayed !== undefined) {
    return sql`
      SELECT dead_letters."offset" FROM ${TABLES(sql)}
      WHERE ((replays > 0), dead_letters."offset") ${beyond()} (${isReplayed}::boolean, ${from}::bigint)
        AND (replays > 0) ${within()} ${isReplayed} ${rest('isReplayed')}
      ORDER BY (replays > 0) ${order()}, dead_letters."offset" ${order()} LIMIT ${limit}`
  }
  return sql`
    SELECT dead_letters."offset" FROM ${TABLES(sql)} WHERE dead_letters."offset" ${beyond()} ${from} ${rest('offset')}
    ORDER BY dead_letters."offset" ${order()} LIMIT ${limit}`
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
