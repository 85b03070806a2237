import type { RatePolicy } from '../../core/policy-flow.ts'
import { type Meter, refilledAfterMs } from '../../core/rate.ts'
import type { Sql, Tx } from './client.ts'

export type Meters = ReturnType<typeof openMeters>

/** The name of a bucket. A type's name has no space in it, so no key can be taken for a part of one. */
export const rateMeter = (type: string, limitKey: string | null): string =>
  limitKey === null ? `rate:${type}` : `rate:${type} ${limitKey}`
export const retryMeter = (type: string): string => `retry:${type}`

/**
 * Buckets of tokens, shared by every process. Read and written in the transaction that takes from them, with a lock
 * held that all who take from the same bucket share: one that is full is not there, so that no row could be locked.
 */
export function openMeters() {
  const getMany = async (sql: Sql, names: readonly string[]): Promise<Map<string, Meter>> => {
    if (names.length === 0) return new Map()
    const rows = await sql<{ name: string; tokens: number; at: number }[]>`
      SELECT name, tokens, at FROM meters WHERE name = ANY(${names}::text[])`
    return new Map(rows.map(({ name, tokens, at }) => [name, { tokens, atMs: at }]))
  }

  const setMany = async (tx: Tx, meters: ReadonlyMap<string, Meter | null>): Promise<void> => {
    // By name, as everybody does who changes several: nobody waits for somebody who waits for him.
    const sorted = [...meters].toSorted(([a], [b]) => (a < b ? -1 : 1))
    const full = sorted.flatMap(([name, meter]) => (meter === null ? [name] : []))
    const rest = sorted.flatMap(([name, meter]) => (meter === null ? [] : [{ name, ...meter }]))
    if (full.length > 0) await tx`DELETE FROM meters WHERE name = ANY(${full}::text[])`
    if (rest.length === 0) return
    await tx`
      INSERT INTO meters (name, tokens, at)
      SELECT * FROM unnest(${rest.map(({ name }) => name)}::text[], ${rest.map(({ tokens }) => tokens)}::float8[],
        ${rest.map(({ atMs }) => atMs)}::bigint[])
      ON CONFLICT (name) DO UPDATE SET tokens = excluded.tokens, at = excluded.at`
  }

  return {
    getMany,
    setMany,

    async get(sql: Sql, name: string): Promise<Meter | null> {
      return (await getMany(sql, [name])).get(name) ?? null
    },

    /** null: it is full, as is every bucket that is not there. */
    set: (tx: Tx, name: string, meter: Meter | null): Promise<void> => setMany(tx, new Map([[name, meter]])),

    /** Keys come and go; the buckets of those that have not been seen for long are full, and say nothing. */
    async forgetFull(tx: Tx, type: string, rate: RatePolicy | null, nowMs: number): Promise<void> {
      const atMs = rate === null ? nowMs : nowMs - refilledAfterMs(rate)
      await tx`DELETE FROM meters WHERE name > ${`rate:${type} `} AND name < ${`rate:${type}!`} AND at <= ${atMs}`
    },
  }
}
