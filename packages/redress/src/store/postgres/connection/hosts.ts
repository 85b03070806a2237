import { connect, type Socket } from 'node:net'
import postgres from 'postgres'
import { RedressError } from '../../../core/errors.ts'
import { parameterOf, queryOf, secured, TLS_PARAMETERS, type Tls, tlsOf } from './tls.ts'

export interface Host {
  name: string
  port: number
}

/** A host that accepts writes. */
interface Primary {
  host: Host
  /** Each promotion begins a new timeline: of two servers that both act as primary, the higher one is right. */
  timeline: number
}

const PORT = Number(process.env.PGPORT) || 5432
const LOOK_MS_MAX = 3_000
/** How long to wait for the other hosts after one primary has answered: there may be a newer one. */
const OTHERS_MS = 300
/** Connections that are opened within this time share one search for the primary. */
const FRESH_MS = 500
const WATCH_MS = 5_000

/** The hosts of an address such as `postgres://user@one:5432,two/name`. */
export function hostsOf(url: string): Host[] {
  const authority = /^[^:]+:\/\/([^/?#]*)/.exec(url)?.[1] ?? ''
  const named = authority.slice(authority.lastIndexOf('@') + 1)
  if (named === '') return []
  return named.split(',').map((text) => {
    const {
      name = text,
      six,
      port,
    } = /^(?:\[(?<six>[^\]]+)\]|(?<name>[^:]*))(?::(?<port>\d+))?$/.exec(text)?.groups ?? {}
    return { name: decodeURIComponent(six ?? name), port: port === undefined ? PORT : Number(port) }
  })
}

/** Parameters that Redress handles itself; the client would send the other ones to the server. */
const OWN_PARAMETERS: ReadonlySet<string> = new Set(['target_session_attrs', 'statement_timeout', ...TLS_PARAMETERS])

/** The address for the client: with one host, and without the parameters that Redress handles itself. */
export function plainUrl(url: string): string {
  const [host] = hostsOf(url)
  const name = host === undefined ? '' : host.name.includes(':') ? `[${host.name}]` : encodeURIComponent(host.name)
  const plain = host === undefined ? url : url.replace(/^([^:]+:\/\/(?:[^/?#]*@)?)[^/?#]*/, `$1${name}:${host.port}`)
  const [base = plain] = plain.split(/[?#]/)
  const kept = queryOf(plain)
    .split('&')
    .filter((one) => one !== '' && !OWN_PARAMETERS.has(/^[^=]*/.exec(one)?.[0] ?? ''))
  return kept.length === 0 ? base : `${base}?${kept.join('&')}`
}

/** Well below a lease of half a minute, so that an unanswered renewal can be retried. */
const STATEMENT_MS = 14_000
const STATEMENT_MS_MIN = 1_000
const STATEMENT_MS_MAX = 600_000
const UNIT_MS: Readonly<Record<string, number>> = { '': 1, ms: 1, s: 1_000, min: 60_000 }

/** `?statement_timeout=5s`: how long the server may work on one statement. */
export function statementMsOf(url: string): number {
  const text = parameterOf(url, 'statement_timeout')
  if (text === null) return STATEMENT_MS
  const { amount = '', unit = '' } = /^(?<amount>\d{1,9})\s*(?<unit>ms|s|min|)$/.exec(text)?.groups ?? {}
  const ms = Number(amount) * (UNIT_MS[unit] as number)
  if (ms >= STATEMENT_MS_MIN && ms <= STATEMENT_MS_MAX) return ms
  throw new RedressError(
    'OPTION_INVALID',
    `statement_timeout in the address of the store must be between 1s and 10min; got ${JSON.stringify(text)}.`,
    { action: 'Write milliseconds, or a number with ms, s or min: statement_timeout=14s.' },
  )
}

export type Hosts = ReturnType<typeof openHosts>

/**
 * Opens the connections of this process. With several hosts in the address it looks for the primary at each new
 * connection. It leaves a server that is no longer the primary, also an old primary that still runs after a promotion.
 *
 * The client can try several hosts by itself, but it does so without end, without a pause and without an error.
 */
export function openHosts(url: string) {
  const hosts = hostsOf(url)
  const tls = tlsOf(url)
  const sockets = new Map<Socket, Host>()
  let current: Primary | null = null
  let found: { promise: Promise<Primary | null>; atMs: number } | null = null
  let watch: NodeJS.Timeout | null = null
  let next = 0

  const find = (): Promise<Primary | null> => {
    if (found === null || performance.now() - found.atMs > FRESH_MS) {
      found = { promise: findPrimary(url, hosts, tls), atMs: performance.now() }
    }
    return found.promise
  }

  const forgetClosed = (): void => {
    for (const socket of sockets.keys()) if (socket.destroyed) sockets.delete(socket)
  }

  /** Statements in flight there fail with the end of their connection. */
  const leave = (isLeft: (host: Host) => boolean = () => true): void => {
    for (const [socket, host] of sockets) if (isLeft(host)) socket.destroy()
    forgetClosed()
  }

  const look = async (): Promise<void> => {
    const primary = await find()
    if (primary === null || primary.timeline < (current?.timeline ?? 0)) return
    current = primary
    leave((host) => host !== primary.host)
  }

  return {
    /** Opens a connection for the client. It always returns a socket: after an error the client would lose a place of its pool. */
    async socket({ path, host, port }: { path: unknown; host: string[]; port: number[] }): Promise<Socket> {
      // In a later turn: only then does the client listen for errors of the socket.
      await null
      forgetClosed()
      if (path) return remember(connect(String(path)), { name: String(path), port: 0 })
      const [only = { name: host[0] ?? 'localhost', port: port[0] ?? PORT }] = hosts
      if (hosts.length <= 1) return remember(await dial(only, tls), only)
      const primary = await find()
      if (primary !== null) current = primary
      // Without a primary, any host answers with an error that says so.
      const to = primary?.host ?? (hosts[next++ % hosts.length] as Host)
      return remember(await dial(to, tls), to)
    },

    leave: () => leave(),

    /** Looks for a newer primary at intervals. */
    watch(): void {
      if (hosts.length <= 1 || watch !== null) return
      watch = setInterval(() => void look(), WATCH_MS)
      watch.unref()
    },

    stop(): void {
      if (watch !== null) clearInterval(watch)
    },
  }

  function remember(socket: Socket, host: Host): Socket {
    sockets.set(socket, host)
    return socket
  }
}

const dial = ({ name, port }: Host, tls: Tls): Promise<Socket> => secured(connect(port, name), name, tls)

async function findPrimary(url: string, hosts: readonly Host[], tls: Tls): Promise<Primary | null> {
  const primaries: Primary[] = []
  let toldOfOne = (): void => undefined
  const one = new Promise<void>((resolve) => {
    toldOfOne = resolve
  })
  const all = Promise.all(
    hosts.map(async (host) => {
      const timeline = await timelineOf(url, host, tls)
      if (timeline === null) return
      primaries.push({ host, timeline })
      toldOfOne()
    }),
  )
  await Promise.race([all, one.then(() => afterMs(OTHERS_MS))])
  return (
    primaries.toSorted((a, b) => b.timeline - a.timeline || hosts.indexOf(a.host) - hosts.indexOf(b.host))[0] ?? null
  )
}

/** null if the server cannot be reached or accepts no writes. */
async function timelineOf(url: string, host: Host, tls: Tls): Promise<number | null> {
  let socket: Socket | null = null
  const made = async (): Promise<Socket> => {
    socket = await dial(host, tls)
    return socket
  }
  const sql = postgres(plainUrl(url), {
    ...{ ssl: false, socket: made as never, max: 1, connect_timeout: LOOK_MS_MAX / 1_000 },
    ...{ fetch_types: false, prepare: false, onnotice: () => undefined, connection: { application_name: 'redress' } },
  })
  const asked = sql<{ file: string | null }[]>`
    SELECT CASE WHEN NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'
      THEN pg_walfile_name(pg_current_wal_lsn()) END AS file`
  try {
    const answer = await Promise.race([asked, afterMs(LOOK_MS_MAX)])
    const file = answer?.[0]?.file ?? null
    return file === null ? null : Number.parseInt(file.slice(0, 8), 16)
  } catch {
    return null
  } finally {
    asked.catch(() => undefined)
    void sql.end({ timeout: 0 }).then(() => socket?.destroy())
  }
}

const afterMs = (ms: number): Promise<undefined> => new Promise((resolve) => setTimeout(resolve, ms, undefined).unref())
