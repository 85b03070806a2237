import { RedressError } from '../../../core/errors.ts'
import type { Pool } from './client.ts'
import { isDisconnected, isTlsError, storeError } from './errors.ts'
import { hostsOf, plainUrl } from './hosts.ts'

const VERSION_MIN = 14

/** Refuses a server that is too old, not durable or a standby. */
export async function checkServer(sql: Pool): Promise<void> {
  const [row] = await sql<{ version: number; synced: string; standby: boolean }[]>`
    SELECT current_setting('server_version_num')::int AS version, current_setting('synchronous_commit') AS synced,
      pg_is_in_recovery() AS standby`
  const { version, synced, standby } = row as { version: number; synced: string; standby: boolean }
  if (version < VERSION_MIN * 10_000) {
    throw new RedressError(
      'STORE_SERVER_TOO_OLD',
      `This server is PostgreSQL ${Math.floor(version / 10_000)}; Redress needs ${VERSION_MIN} or newer.`,
    )
  }
  // The next crash of the server would lose acknowledged jobs without a trace.
  if (synced === 'off') {
    throw new RedressError('STORE_NOT_DURABLE', 'synchronous_commit is off: an acknowledged job could be lost.')
  }
  if (standby) {
    throw new RedressError('STORE_UNREACHABLE', 'This server is a standby and takes no writes.', {
      action: 'Give the address of the primary, or all addresses: postgres://one,two/name.',
    })
  }
}

/** Why a store could not be opened, in one sentence that says what to do. The address is named without its password. */
export function openingError(error: unknown, url: string): RedressError {
  if (error instanceof RedressError) return error
  const where = placeOf(url)
  const because = error instanceof Error ? error.message : String(error)
  const code = String((error as { code?: unknown } | null)?.code ?? '')
  switch (code) {
    case '28P01':
    case '28000':
      return new RedressError('STORE_DENIED', `PostgreSQL at ${where} does not let us in: ${because}.`, {
        cause: error,
      })
    case '3D000':
      return new RedressError('STORE_NOT_FOUND', `PostgreSQL at ${where} has no such database: ${because}.`, {
        cause: error,
        action: 'Check the name, or make it: CREATE DATABASE.',
      })
    case '42501':
      return new RedressError('STORE_DENIED', `This user may not make or use the tables at ${where}: ${because}.`, {
        cause: error,
        action: 'Grant it CREATE on the database, or make the schema for it and grant it that schema.',
      })
  }
  if (isTlsError(error)) {
    return new RedressError('STORE_DENIED', `No trusted connection to PostgreSQL at ${where}: ${because}.`, {
      cause: error,
      action: 'Check sslmode, sslrootcert and the name in the address: see "TLS" in the guide to PostgreSQL.',
    })
  }
  if (isDisconnected(error) || /^E[A-Z]+$/.test(code)) {
    return new RedressError('STORE_UNREACHABLE', `PostgreSQL at ${where} cannot be reached: ${because || code}.`, {
      cause: error,
    })
  }
  return storeError(error, `opening the store at ${where}`)
}

/** The address for messages: without user and password. */
export function placeOf(url: string): string {
  const { pathname } = URL.parse(plainUrl(url)) ?? { pathname: '' }
  const hosts = hostsOf(url).map(({ name, port }) => `${name.includes(':') ? `[${name}]` : name}:${port}`)
  return `${hosts.join() || 'the given address'}${pathname}`
}
