import { dirname, join, resolve } from 'node:path'
import { RedressError } from '../core/errors.ts'
import type { Policy } from '../core/policy.ts'
import { redactAddresses } from '../core/redact.ts'
import type { Clock } from '../runtime/clock.ts'
import { Journal } from '../runtime/journal.ts'
import type { Log } from '../runtime/log.ts'
import type { SideRows } from '../store/postgres/side-rows.ts'
import type { Store } from '../store/store.ts'
import { withWriteAhead } from '../store/write-ahead.ts'
import { answerWithin, SILENCE } from '../worker/patience.ts'

const STORE_DEFAULT = 'sqlite:.redress/redress.db'
const IN_MEMORY = ':memory:'
const IS_POSTGRES = /^postgres(ql)?:\/\//

/**
 * Where an app that does not say keeps its jobs. The environment comes first, so that one program can be run on
 * another store without being changed: `redress worker app.ts --data DIR` sets it.
 */
export function defaultLocation(): string {
  const { REDRESS_STORE, DATABASE_URL } = process.env
  if (REDRESS_STORE) return REDRESS_STORE
  return DATABASE_URL && IS_POSTGRES.test(DATABASE_URL) ? DATABASE_URL : STORE_DEFAULT
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

export interface Opened {
  store: Store
  /** Where `audit: 'write-ahead'` puts its lines; null where there is no place for them. */
  failureLog: string | null
}

export async function openStore(
  location: string | Store,
  clock: Clock,
  failureLog: string | undefined,
  tellLogBroken: (error: unknown) => void,
  queuedAs: (type: string) => string | undefined = () => undefined,
): Promise<Opened> {
  const place = typeof location === 'string' ? placeOf(location) : null
  const store = place === null ? (location as Store) : await openPlace(place, clock)
  const path = failureLog ?? (place?.kind === 'file' ? join(dirname(place.path), 'failures.jsonl') : null)
  if (path === null) return { store, failureLog: null }
  const journal = new Journal(resolve(path))
  const setTimer = clock.setTimer.bind(clock)
  return { store: withWriteAhead(store, journal, tellLogBroken, setTimer, queuedAs), failureLog: journal.path }
}

/** A PostgreSQL store that is not answered stops within 45 s. */
const STOP_MS_MAX = 60_000

export async function stopStore(store: Store, clock: Clock, log: Log): Promise<void> {
  if ((await answerWithin(clock, STOP_MS_MAX, store.stop())) !== SILENCE) return
  log.error({ waited_ms: STOP_MS_MAX }, 'the store did not stop in time; the app goes on without it')
}

/** What promises a line before each change cannot be kept in a store that has no place for lines. */
export function refuseUnlogged({ failureLog }: Opened, types: readonly { name: string; policy: Policy }[]): void {
  const unlogged = types.find(({ policy }) => policy.audit === 'write-ahead')
  if (failureLog !== null || unlogged === undefined) return
  const message = `${unlogged.name} has audit 'write-ahead', but this store has no folder to keep the lines in.`
  throw new RedressError('OPTION_INVALID', message, { action: 'Give redress() a failureLog: the path of a file.' })
}

/**
 * An app's own rows in the PostgreSQL database of its store, in a separate schema. Like the store's connections,
 * these follow the primary.
 */
export async function openPostgresRows(options: { url: string; schema: string }): Promise<SideRows> {
  const { openSideRows } = await import('../store/postgres/side-rows.ts')
  return openSideRows(options)
}

async function openPlace(place: StorePlace, clock: Clock): Promise<Store> {
  // Each driver is loaded where it is used: a program on SQLite need not read PostgreSQL's client, nor the other way.
  if (place.kind === 'postgres') {
    const { openPostgres } = await import('../store/postgres/store.ts')
    return openPostgres({ url: place.url })
  }
  const { openSqlite } = await import('../store/sqlite/store.ts')
  return openSqlite({ path: place.kind === 'file' ? place.path : IN_MEMORY, nowMs: () => clock.nowMs() })
}
