import { resolve } from 'node:path'
import { RedressError } from '../../core/errors.ts'
import { redactAddresses } from '../../core/text/redact.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Store } from '../../store/contract/store.ts'

const STORE_DEFAULT = 'sqlite:.redress/redress.db'
const IN_MEMORY = ':memory:'
const IS_POSTGRES = /^postgres(ql)?:\/\//

/**
 * Where an app that does not say keeps its jobs. The environment comes first, so that one program can be run on
 * another store without being changed: `redress worker app.ts --data DIR` sets it.
 */
export function defaultLocation(): { location: string; from: 'REDRESS_STORE' | 'DATABASE_URL' | 'default' } {
  const { REDRESS_STORE, DATABASE_URL } = process.env
  if (REDRESS_STORE) return { location: REDRESS_STORE, from: 'REDRESS_STORE' }
  if (DATABASE_URL && IS_POSTGRES.test(DATABASE_URL)) return { location: DATABASE_URL, from: 'DATABASE_URL' }
  return { location: STORE_DEFAULT, from: 'default' }
}

export type StorePlace = { kind: 'file'; path: string } | { kind: 'memory' } | { kind: 'postgres'; url: string }

export function placeOf(location: string): StorePlace {
  if (IS_POSTGRES.test(location)) return { kind: 'postgres', url: location }
  const path = /^sqlite:(.+)$/.exec(location)?.[1]
  if (path === undefined) {
    throw new RedressError(
      'OPTION_INVALID',
      `${JSON.stringify(shownLocation(location))} is not a store: write sqlite:path/to/file.db, sqlite::memory: or postgres://...`,
    )
  }
  return path === IN_MEMORY ? { kind: 'memory' } : { kind: 'file', path: resolve(path) }
}

/** A store's address for messages, hints and logs, without its password. A user name alone is not secret. */
export function shownLocation(location: string): string {
  if (URL.parse(location)?.password === '') return redactAddresses(location)
  // Some passwords that PostgreSQL's client accepts are not valid in a URL, so everything before the host is removed.
  return redactAddresses(location.replace(/(:\/\/).*@/s, '$1[redacted]@'))
}

/** For people, without a password. */
export function placeText(location: string): string {
  const place = placeOf(location)
  if (place.kind === 'memory') return 'in memory'
  return place.kind === 'file' ? place.path : shownLocation(place.url)
}

export async function openDriver(place: StorePlace, clock: Clock): Promise<Store> {
  // Each driver is loaded where it is used: a program on SQLite need not read PostgreSQL's client, nor the other way.
  if (place.kind === 'postgres') {
    const { openPostgres } = await import('../../store/postgres/store.ts')
    return openPostgres({ url: place.url })
  }
  const { openSqlite } = await import('../../store/sqlite/store.ts')
  return openSqlite({ path: place.kind === 'file' ? place.path : IN_MEMORY, nowMs: () => clock.nowMs() })
}
