import type { RatePolicy } from '../../core/policy-flow.ts'
import { type Meter, refilledAfterMs } from '../../core/rate.ts'
import type { Connection } from './connection.ts'

export type Meters = ReturnType<typeof openMeters>

/** The name of a bucket. A type's name has no space in it, so no key can be taken for a part of one. */
export const rateMeter = (type: string, limitKey: string | null): string =>
  limitKey === null ? `rate:${type}` : `rate:${type} ${limitKey}`
export const retryMeter = (type: string): string => `retry:${type}`

/** Buckets of tokens, shared by every process. Read and written in the transaction that takes from them. */
export function openMeters(connection: Connection) {
  const select = connection.prepare('SELECT tokens, at FROM meters WHERE name = ?')
  const upsert = connection.prepare(`
    INSERT INTO meters (name, tokens, at) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE SET tokens = ?2, at = ?3`)
  const remove = connection.prepare('DELETE FROM meters WHERE name = ?')
  const removeOfKeys = connection.prepare('DELETE FROM meters WHERE name > ?1 AND name < ?2 AND at <= ?3')

  return {
    get(name: string): Meter | null {
      const row = select.get(name) as { tokens: number; at: number } | undefined
      return row === undefined ? null : { tokens: row.tokens, atMs: row.at }
    },

    /** null: it is full, as is every bucket that is not there. */
    set(name: string, meter: Meter | null): void {
      if (meter === null) remove.run(name)
      else upsert.run(name, meter.tokens, meter.atMs)
    },

    /** Keys come and go; the buckets of those that have not been seen for long are full, and say nothing. */
    forgetFull(type: string, rate: RatePolicy | null, nowMs: number): void {
      const atMs = rate === null ? nowMs : nowMs - refilledAfterMs(rate)
      removeOfKeys.run(`rate:${type} `, `rate:${type}!`, atMs)
    },
  }
}
