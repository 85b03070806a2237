import { randomInt } from 'node:crypto'
import type { Socket } from 'node:net'
import postgres from 'postgres'
import { ARRAY_TYPES } from './array-types.ts'
import { isConnectionGone } from './errors.ts'
import { type Hosts, openHosts, plainUrl } from './hosts.ts'

/** A pool, or one connection of it inside a transaction: both take queries. */
export type Sql = postgres.Sql<{ bigint: number }> | postgres.TransactionSql<{ bigint: number }>
export type Pool = Client & {
  /** Grows with each renewal. */
  readonly generation: number
  /**
   * Connections that broke off leave something behind in the client: an answer that the next statement gets, half a
   * message that the next greeting begins with, a place that stays taken. So they are left behind as a whole, and what
   * is asked from now on is asked on new ones. Nothing is done where it is another generation by now.
   */
  renew(generation: number): void
}
type Client = postgres.Sql<{ bigint: number }>
export type Tx = postgres.TransactionSql<{ bigint: number }>
/** A part of a statement. */
export type Fragment = postgres.PendingQuery<postgres.Row[]>

export interface ClientOptions {
  url: string
  /** The schema that holds the tables; 'redress' when left out. */
  schema: string
  connectionsMax: number
  /** Of a process whose pools leave a server together; one of its own when left out. */
  hosts?: Hosts
  /** Called with each connection that is made. */
  onSocket?: (socket: Socket) => void
  /** Called when the server has committed something without waiting for the standby that must have it. */
  onNotReplicated?: () => void
}

/**
 * Plans are kept stable: every statement of ours finds its rows by an index, and a planner that has not seen fresh
 * statistics of a table that just grew would otherwise hash it as a whole, at each claim.
 */
const SETTINGS = {
  application_name: 'redress',
  // A day of the history begins at the same moment for all.
  TimeZone: 'UTC',
  statement_timeout: 30_000,
  idle_in_transaction_session_timeout: 30_000,
  lock_timeout: 10_000,
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  enable_sort: 'off',
  // Where a plan has no way around what is switched off, its cost looks as if compiling it could pay.
  jit: 'off',
  // How many rows a page has is not known when its plan is made: for fifty of them no helper is worth starting.
  max_parallel_workers_per_gather: '0',
  // Planned once per connection: planning a claim costs as much as claiming a dozen jobs.
  plan_cache_mode: 'force_generic_plan',
} as const

export function openPool(options: ClientOptions): Pool {
  const { url, schema, connectionsMax, hosts = openHosts(url), onSocket, onNotReplicated } = options
  const given = {
    max: connectionsMax,
    connect_timeout: 10,
    idle_timeout: 60,
    // Each connection waits by itself; the client's own way would have some wait for twenty seconds.
    backoff: (failures: number) => (Math.min(1_000, 50 * 2 ** failures) / 1_000) * (randomInt(50, 100) / 100),
    socket: async (place: Parameters<Hosts['socket']>[0]) => {
      const socket = await hosts.socket(place)
      onSocket?.(socket)
      return socket
    },
    onnotice: ({ routine }: postgres.Notice) => {
      if (routine === 'SyncRepWaitForLSN') onNotReplicated?.()
    },
    connection: { ...SETTINGS, search_path: quoted(schema) } as Record<string, string | number | boolean>,
    // Keys, counts and milliseconds all fit a double; a BigInt would have to be turned back everywhere.
    types: { bigint: { to: 20, from: [20], parse: Number, serialize: String }, ...ARRAY_TYPES },
    fetch_types: false,
  }
  let client: Client = postgres(plainUrl(url), given)
  let generation = 0
  const begin = (how: string, run: Run): Promise<unknown> =>
    losingConnections((guarded) => client.begin(how, guarded as never), run)
  const facade = {
    begin: (first: string | Run, second?: Run) =>
      typeof first === 'string' ? begin(first, second as Run) : begin('', first),
    unsafe: (...args: Parameters<Client['unsafe']>) => client.unsafe(...args),
    listen: (...args: Parameters<Client['listen']>) => client.listen(...args),
    // One that is made for nobody but whoever reserves it is never handed out by the client, unless it asks for types first.
    reserve: async () => {
      await client`SELECT 1`
      return client.reserve()
    },
    options: client.options,
    get generation() {
      return generation
    },
    renew(of: number): void {
      if (of !== generation) return
      generation++
      const old = client
      client = (postgres as unknown as (parsed: unknown) => Client)(old.options)
      void old.end({ timeout: RETIRED_S_MAX })
    },
    end: (how?: { timeout?: number }) => client.end(how),
  }
  const send = (...args: Parameters<Client>) => client(...args)
  return Object.defineProperties(send, Object.getOwnPropertyDescriptors(facade)) as unknown as Pool
}

/** So long what is under way on connections that did not break off may still take. */
const RETIRED_S_MAX = 2

type Run = (tx: Tx) => unknown

/**
 * A transaction of the client that may lose its connection. When it does, the client would send a ROLLBACK, and so
 * might we send the next statement: on a connection that is closed, which ends the process, or that belongs to
 * somebody else by then. So nothing more is sent, and what ran in it is left where it stands.
 */
async function losingConnections(begin: (run: Run) => Promise<unknown>, run: Run): Promise<unknown> {
  let isOver = false
  const lost = (): void => {
    isOver = true
  }
  try {
    return await begin(async (tx) => {
      try {
        return await run(guarded(tx, () => isOver, lost))
      } catch (error) {
        // The end of a connection is told a moment after the errors of what was under way on it.
        await new Promise((resolve) => setImmediate(resolve))
        return isOver ? new Promise(() => undefined) : Promise.reject(error)
      }
    })
  } finally {
    lost()
  }
}

function guarded(tx: Tx, isOver: () => boolean, lost: () => void): Tx {
  const guard = <Args extends unknown[], Answer>(send: (...args: Args) => Answer) => {
    return (...args: Args): Answer => {
      if (isOver())
        throw Object.assign(new Error('the connection of this transaction is gone'), { code: 'CONNECTION_CLOSED' })
      return watched(send(...args), lost)
    }
  }
  return Object.assign(guard(tx as never), tx, { unsafe: guard(tx.unsafe as never) }) as unknown as Tx
}

/** Whoever catches the error may send the next statement at once: by then it must be known. */
function watched<Answer>(answer: Answer, lost: () => void): Answer {
  const query = answer as { reject?: (error: unknown) => void }
  const { reject } = query
  if (typeof reject === 'function') {
    query.reject = (error) => {
      if (isConnectionGone(error)) lost()
      reject(error)
    }
  }
  return answer
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`
