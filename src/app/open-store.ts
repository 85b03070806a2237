import { dirname, join, resolve } from 'node:path'
import { RedressError } from '../core/errors.ts'
import { redactText } from '../core/redact.ts'
import type { Clock } from '../runtime/clock.ts'
import { Journal } from '../runtime/journal.ts'
import { openSqlite } from '../store/sqlite/store.ts'
import type { Store } from '../store/store.ts'
import { withWriteAhead } from '../store/write-ahead.ts'

const STORE_DEFAULT = 'sqlite:.redress/redress.db'
const IN_MEMORY = ':memory:'

/**
 * Where an app that does not say keeps its jobs. The environment comes first, so that one program can be run on
 * another store without being changed: `redress worker app.ts --data DIR` sets it.
 */
export function defaultLocation(): string {
  return process.env.REDRESS_STORE || STORE_DEFAULT
}

/** The store's file, or null where it has none. */
export function fileOf(location: string): string | null {
  const path = /^sqlite:(.+)$/.exec(location)?.[1]
  if (path === undefined) {
    throw new RedressError(
      'OPTION_INVALID',
      `${JSON.stringify(redactText(location))} is not a store: write sqlite:path/to/file.db or sqlite::memory:.`,
    )
  }
  return path === IN_MEMORY ? null : resolve(path)
}

export interface Opened {
  store: Store
  /** Where `audit: 'write-ahead'` puts its lines; null where there is no place for them. */
  failureLog: string | null
}

export function openStore(
  location: string | Store,
  clock: Clock,
  failureLog: string | undefined,
  tellLogBroken: (error: unknown) => void,
): Opened {
  const file = typeof location === 'string' ? fileOf(location) : null
  const store =
    typeof location === 'string' ? openSqlite({ path: file ?? IN_MEMORY, nowMs: () => clock.nowMs() }) : location
  const path = failureLog ?? (file === null ? null : join(dirname(file), 'failures.jsonl'))
  if (path === null) return { store, failureLog: null }
  const journal = new Journal(resolve(path))
  return { store: withWriteAhead(store, journal, tellLogBroken), failureLog: journal.path }
}
