import { randomInt } from 'node:crypto'
import type { Socket } from 'node:net'
import postgres from 'postgres'
import { isConnectionGone, NoAnswer, rememberSent } from './errors.ts'
import { type Hosts, openHosts, plainUrl, statementMsOf } from './hosts.ts'
import { ARRAY_TYPES } from './values.ts'

/** A pool, or one connection of it inside a transaction: both take queries. */
export type Sql = postgres.Sql<{ bigint: number }> | postgres.TransactionSql<{ bigint: number }>
export type Pool = Client & {
  /** Grows with each renewal. */
  readonly generation: number
  /**
   * Replaces all connections. The client keeps remains of a broken connection: an answer that the next statement gets,
   * half a message before the next handshake, or an occupied place in the pool. Does nothing if the generation has changed.
   */
  renew(generation: number): void
  /** Like `begin`, with its own limits. */
  transaction<T>(run: (tx: Tx) => Promise<T>, limits?: Limits): Promise<T>
}

/** How long the server may be silent before the connection is dropped. */
interface Limits {
  /** Per statement; the pool's limit when left out. */
  statementMs?: number
  /** For the whole transaction, including the commit. */
  wholeMs?: number
}

type Client = postgres.Sql<{ bigint: number }>
export type Tx = postgres.TransactionSql<{ bigint: number }>

export interface ClientOptions {
  url: string
  /** The schema that holds the tables; 'redress' when left out. */
  schema: string
  connectionsMax: number
  /** Shared by the pools of a process, so that they leave a server together; a new one when left out. */
  hosts?: Hosts
  /** Timeout per statement, if it differs from the address. */
  statementMs?: number
  /** Called with each connection that is made. */
  onSocket?: (socket: Socket) => void
  /** Called when the server has committed something without waiting for its synchronous standby. */
  onNotReplicated?: () => void
}

/** The client's deadline is this much later than the server's own, whose error says more. */
const LATER_THAN_SERVER_MS = 1_000
const LOCK_MS_MAX = 10_000

/**
 * Settings of the role or the database must not change the meaning of a statement, so the connection sets all that
 * matter. `default_transaction_read_only` is left out on purpose: an administrator who sets it wants no writes.
 *
 * The planner settings keep plans stable. Every statement finds its rows by an index. With old statistics of a table that has
 * just grown, the planner would hash the whole table at each claim.
 */
const SETTINGS = {
  application_name: 'redress',
  // A day of the history begins at the same moment for all.
  TimeZone: 'UTC',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  bytea_output: 'hex',
  extra_float_digits: '1',
  standard_conforming_strings: 'on',
  array_nulls: 'on',
  transform_null_equals: 'off',
  // Claims and closes must see rows that others committed while they waited for a lock.
  default_transaction_isolation: 'read committed',
  default_transaction_deferrable: 'off',
  idle_in_transaction_session_timeout: 30_000,
  // As text: the client drops falsy values.
  idle_session_timeout: '0',
  enable_nestloop: 'on',
  enable_indexscan: 'on',
  enable_indexonlyscan: 'on',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  enable_sort: 'off',
  // A plan that must use a disabled method has a huge cost, and JIT compilation would seem worth it.
  jit: 'off',
  // The planner does not know the size of a page: a parallel worker is not worth starting for fifty rows.
  max_parallel_workers_per_gather: '0',
  // Planned once per connection: planning a claim costs as much as claiming a dozen jobs.
  plan_cache_mode: 'force_generic_plan',
} as const

export function openPool(options: ClientOptions): Pool {
  const { url, schema, connectionsMax, hosts = openHosts(url), onSocket, onNotReplicated } = options
  const { statementMs = statementMsOf(url) } = options
  const deadlineMs = statementMs + LATER_THAN_SERVER_MS
  /** Includes connections of former generations until they are closed. */
  const sockets = new Map<Socket, { generation: number; pid: number | null }>()
  const given = {
    max: connectionsMax,
    connect_timeout: 10,
    idle_timeout: 60,
    // The sockets from the hosts are already encrypted as the address requires.
    ssl: false as const,
    // With the client's own backoff some connections would wait for twenty seconds.
    backoff: (failures: number) => (Math.min(1_000, 50 * 2 ** failures) / 1_000) * (randomInt(50, 100) / 100),
    socket: async (place: Parameters<Hosts['socket']>[0]) => {
      const socket = await hosts.socket(place)
      const one = { generation, pid: null as number | null }
      sockets.set(socket, one)
      socket.once('close', () => sockets.delete(socket))
      onBackendPid(socket, (pid) => {
        one.pid = pid
      })
      onSocket?.(socket)
      return socket
    },
    onnotice: ({ routine }: postgres.Notice) => {
      if (routine === 'SyncRepWaitForLSN') onNotReplicated?.()
    },
    connection: {
      ...SETTINGS,
      statement_timeout: statementMs,
      lock_timeout: Math.min(LOCK_MS_MAX, statementMs),
      search_path: quoted(schema),
    } as Record<string, string | number | boolean>,
    // Keys, counts and milliseconds all fit a double; a BigInt would have to be turned back everywhere.
    types: { bigint: { to: 20, from: [20], parse: Number, serialize: String }, ...ARRAY_TYPES },
    fetch_types: false,
  }
  /** Destroys the connection and every statement in flight on it. */
  const giveUp = ({ pid }: Backend, error: NoAnswer): boolean => {
    const [socket] = [...sockets].findLast(([, one]) => one.pid !== null && one.pid === pid) ?? []
    socket?.destroy(error)
    return socket !== undefined
  }
  const deadlines: Deadlines = {
    statementMs: deadlineMs,
    giveUp,
    isWaitingForStandby: (pid, withinMs) => isWaitingForStandby(client.options, pid, withinMs),
  }
  /** The last statement made by `unsafe`: the client begins a transaction with one. */
  let opening: Statement | null = null
  const makeClient = (how: unknown): Client => {
    const made =
      typeof how === 'string' ? postgres(how, given) : (postgres as unknown as (parsed: unknown) => Client)(how)
    const { unsafe } = made
    const timed = (...args: Parameters<Client['unsafe']>) => {
      const query = inTime(unsafe(...args), deadlines)
      opening = query as unknown as Statement
      return query
    }
    return Object.assign(made, { unsafe: timed })
  }
  let generation = 0
  let client: Client = makeClient(plainUrl(url))
  const begin = (how: string, run: Run, limits: Limits = {}): Promise<unknown> => {
    const start = (guarded: Run) => {
      opening = null
      const transaction = client.begin(how, guarded as never)
      return { transaction, opening: opening as Statement | null }
    }
    return losingConnections(start, run, { ...deadlines, ...limits })
  }
  const destroyOf = (isMeant: (generation: number) => boolean): void => {
    for (const [socket, one] of sockets) if (isMeant(one.generation)) socket.destroy()
  }
  const facade = {
    begin: (first: string | Run, second?: Run) =>
      typeof first === 'string' ? begin(first, second as Run) : begin('', first),
    transaction: (run: Run, limits?: Limits) => begin('', run, limits),
    unsafe: (...args: Parameters<Client['unsafe']>) => client.unsafe(...args),
    listen: (...args: Parameters<Client['listen']>) => client.listen(...args),
    // The client never hands out a connection that it opens only for `reserve`, so a statement opens it first.
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
      client = makeClient(old.options)
      // If the network drops packets, a graceful close never completes.
      void old.end({ timeout: RETIRED_S_MAX }).then(() => destroyOf((one) => one <= of))
    },
    end: async (how?: { timeout?: number }) => {
      await client.end(how)
      if (how?.timeout !== undefined) destroyOf(() => true)
    },
  }
  const send = (...args: Parameters<Client>) => inTime(client(...args), deadlines)
  return Object.defineProperties(send, Object.getOwnPropertyDescriptors(facade)) as unknown as Pool
}

/** How long statements on the replaced connections may still take. */
const RETIRED_S_MAX = 2

type Run = (tx: Tx) => unknown

// ---- deadlines ----------------------------------------------------------------------------------------------------

/** One connection of the client; the number is the pid of the server process. */
interface Backend {
  pid: number | null
}

/** The parts of the client's statement that are used here. */
interface Statement {
  /** null until it is sent. */
  state: Backend | null
  handler: (query: Statement) => unknown
  canceller: ((query: Statement) => Promise<unknown>) | null
  resolve(answer: unknown): void
  reject(error: unknown): void
  cursor(...args: unknown[]): AsyncIterable<unknown>
}

interface Deadlines extends Limits {
  statementMs: number
  /** False if the connection is unknown. */
  giveUp(backend: Backend, error: NoAnswer): boolean
  isWaitingForStandby(pid: number, withinMs: number): Promise<boolean>
}

/**
 * If the network drops packets without a reset, a statement would never be answered. So each statement has a
 * deadline. After it the connection is destroyed: a late answer would be taken for the answer to the next statement.
 */
function inTime<Answer>(answer: Answer, deadlines: Deadlines, onGone: () => void = () => undefined): Answer {
  const query = answer as unknown as Statement
  if (typeof query?.handler !== 'function') return answer
  const { handler, resolve, reject, cursor } = query
  let isSettled = false
  let done = (): void => undefined
  const begin = (): (() => void) => startDeadline(query, deadlines.statementMs, deadlines)
  query.handler = (self) => {
    done = begin()
    return handler(self)
  }
  query.resolve = (value) => {
    isSettled = true
    done()
    resolve(value)
  }
  query.reject = (error) => {
    done()
    // The client may also report errors of the next connection to the last statement of this one.
    if (!isSettled) failed(error)
    isSettled = true
    reject(error)
  }
  query.cursor = (...args) => {
    const rows = cursor.apply(query, args)
    // The time between two pages belongs to the reader.
    const next = async (pages: AsyncIterator<unknown>): Promise<IteratorResult<unknown>> => {
      const over = begin()
      try {
        return await pages.next()
      } catch (error) {
        failed(error)
        throw error
      } finally {
        over()
        done()
      }
    }
    return {
      [Symbol.asyncIterator]: () => {
        const pages = rows[Symbol.asyncIterator]()
        const end = async () => (await pages.return?.()) ?? { done: true as const, value: undefined }
        return { next: () => next(pages), return: end }
      },
    }
  }
  return answer

  function failed(error: unknown): void {
    rememberSent(error, query.state !== null)
    // The caller may catch the error and send the next statement at once: by then the loss must be known.
    if (isConnectionGone(error)) onGone()
  }
}

/** Returns a function that cancels the deadline. */
function startDeadline(query: Statement, ms: number, { giveUp, isWaitingForStandby }: Deadlines): () => void {
  let isOver = false
  let timer: NodeJS.Timeout
  const expire = (): void => {
    if (isOver) return
    const error = new NoAnswer(ms, query.state !== null)
    if (query.state !== null && giveUp(query.state, error)) return
    query.reject(error)
    // It still waits in the client for a connection, so it must not be sent any more.
    if (query.state === null) query.canceller?.(query)?.catch(() => undefined)
  }
  // A commit that waits for the synchronous standby is not a silent server. The server is asked in the last part of
  // the time.
  const ask = async (): Promise<void> => {
    timer = setTimeout(expire, ms / 4)
    const pid = query.state?.pid ?? null
    if (pid === null || !(await isWaitingForStandby(pid, ms / 4)) || isOver) return
    clearTimeout(timer)
    timer = setTimeout(() => void ask(), (ms * 3) / 4)
  }
  timer = setTimeout(() => void ask(), (ms * 3) / 4)
  return () => {
    isOver = true
    clearTimeout(timer)
  }
}

/** Asked on a separate connection, because all connections of the pool may be waiting. */
async function isWaitingForStandby(options: unknown, pid: number, withinMs: number): Promise<boolean> {
  const sql = (postgres as unknown as (parsed: unknown) => Client)({ ...(options as object), max: 1 })
  const asked = sql`SELECT 1 FROM pg_stat_activity WHERE pid = ${pid} AND wait_event = 'SyncRep'`
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<[]>((resolve) => {
    timer = setTimeout(resolve, withinMs, [])
  })
  try {
    return (await Promise.race([asked, late])).length > 0
  } catch {
    return false
  } finally {
    clearTimeout(timer)
    asked.catch(() => undefined)
    void sql.end({ timeout: 0 })
  }
}

/** Reports the pid of the server process, which the server sends after authentication. */
function onBackendPid(socket: Socket, tell: (pid: number) => void): void {
  const BACKEND_KEY_DATA = 0x4b
  let rest = Buffer.alloc(0)
  const read = (data: Buffer): void => {
    rest = Buffer.concat([rest, data])
    while (rest.length >= 5) {
      const end = rest.readUInt32BE(1) + 1
      if (rest.length < end) return
      if (rest[0] === BACKEND_KEY_DATA) {
        socket.off('data', read)
        tell(rest.readUInt32BE(5))
        return
      }
      rest = rest.subarray(end)
    }
  }
  socket.on('data', read)
}

// ---- transactions -------------------------------------------------------------------------------------------------

/**
 * A transaction that may lose its connection. The client would then send a ROLLBACK, and the script its next statement, on
 * a closed connection (which ends the process) or on one that another transaction has by then. So nothing more is sent, and
 * the script of the transaction is left unfinished.
 */
async function losingConnections(
  begin: (run: Run) => { transaction: Promise<unknown>; opening: Statement | null },
  run: Run,
  deadlines: Deadlines,
): Promise<unknown> {
  const { statementMs, wholeMs } = deadlines
  let isOver = false
  let done = (): void => undefined
  const lost = (): void => {
    isOver = true
  }
  const { transaction, opening } = begin(async (tx) => {
    try {
      return await run(guarded(tx, () => isOver, lost, deadlines))
    } catch (error) {
      // The client reports the end of a connection shortly after the errors of its statements.
      await new Promise((resolve) => setImmediate(resolve))
      return isOver ? new Promise(() => undefined) : Promise.reject(error)
    } finally {
      // The client sends COMMIT or ROLLBACK now.
      if (opening !== null && !isOver && wholeMs === undefined) done = startDeadline(opening, statementMs, deadlines)
    }
  })
  if (opening !== null && wholeMs !== undefined) done = startDeadline(opening, wholeMs, deadlines)
  try {
    return await transaction
  } finally {
    lost()
    done()
  }
}

function guarded(tx: Tx, isOver: () => boolean, lost: () => void, deadlines: Deadlines): Tx {
  const guard = <Args extends unknown[], Answer>(send: (...args: Args) => Answer) => {
    return (...args: Args): Answer => {
      if (isOver())
        throw Object.assign(new Error('the connection of this transaction is gone'), { code: 'CONNECTION_CLOSED' })
      return inTime(send(...args), deadlines, lost)
    }
  }
  return Object.assign(guard(tx as never), tx, { unsafe: guard(tx.unsafe as never) }) as unknown as Tx
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`
