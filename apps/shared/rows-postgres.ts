import type postgres from 'postgres'
import { RedressError } from 'redress'
import { type Answered, type Driver, type Step, type Tables, type Value, versionsAfter } from './rows.ts'

/** Beside the schema of the store, in which nobody else should make tables. */
const SCHEMA = 'redress_apps'
/** Any number, as long as nobody else's program locks the same one. */
const MIGRATION_LOCK = 0x72647274
const CONNECTIONS_MAX = 4
const TRIES_MAX = 5
/** So long what is under way may still take when a pool is ended. */
const ENDING_S_MAX = 1

type Sql = postgres.Sql<{ bigint: number }>
type Tx = postgres.TransactionSql<{ bigint: number }>

/** A small pool of our own on the server of the store. */
export async function postgresRows(url: string): Promise<Driver> {
  const { default: connect } = await import('postgres')
  const opened = (): Sql =>
    connect(url, {
      max: CONNECTIONS_MAX,
      connect_timeout: 10,
      idle_timeout: 60,
      onnotice: () => undefined,
      connection: { application_name: 'redress', search_path: SCHEMA, statement_timeout: 30_000, lock_timeout: 10_000 },
      // Counts and milliseconds fit a double; a BigInt would have to be turned back everywhere.
      types: { bigint: { to: 20, from: [20], parse: Number, serialize: String } },
      fetch_types: false,
    })
  let pool = opened()

  /**
   * A connection that broke off leaves something behind in the client: the next statement may get its error, or a place
   * stays taken. So the pool is left behind as a whole, and what is asked from now on is asked on new connections.
   */
  const using = async <T>(work: (sql: Sql) => Promise<T>): Promise<T> => {
    const used = pool
    try {
      return await work(used)
    } catch (error) {
      // A server that takes no writes any more is a standby by now: new connections find the one that does.
      if ((isGone(error) || codeOf(error) === '25006') && used === pool) {
        pool = opened()
        void used.end({ timeout: ENDING_S_MAX })
      }
      throw storeError(error)
    }
  }

  return {
    ask: (text, params) => using((sql) => ask(sql, text, params)),
    atomically: (steps) => using((sql) => repeated(() => begun(sql, (tx) => inOrder(tx, steps)))),
    migrate: (tables) => using((sql) => begun(sql, (tx) => migrate(tx, tables))),
    versionOf: (app) => using((sql) => begun(sql, (tx) => versionOf(tx, app))),
    close: () => pool.end({ timeout: ENDING_S_MAX }),
  }
}

async function ask(sql: Sql | Tx, text: string, params: readonly Value[]): Promise<Answered> {
  const answered = await sql.unsafe<object[]>(text, [...params], { prepare: true })
  return { rows: [...answered], count: answered.count }
}

async function inOrder(tx: Tx, steps: readonly Step[]): Promise<object[][]> {
  const rows: object[][] = []
  for (const { sql, params = [] } of steps) rows.push((await ask(tx, sql, params)).rows)
  return rows
}

async function migrate(tx: Tx, tables: Tables): Promise<void> {
  // Of several processes that start at once, one makes the tables and the others find them made.
  await tx`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK}::bigint)`
  // IF NOT EXISTS would need the right to make schemas even where somebody else has made this one for us.
  const [there] = await tx`SELECT 1 FROM pg_namespace WHERE nspname = ${SCHEMA}`
  if (there === undefined) await tx.unsafe(`CREATE SCHEMA ${SCHEMA}`)
  await tx`CREATE TABLE IF NOT EXISTS app_tables (name text PRIMARY KEY, version bigint NOT NULL)`
  const versions = versionsAfter((await versionOf(tx, tables.name)) ?? 0, tables)
  if (versions.length === 0) return
  for (const version of versions) await tx.unsafe(version)
  await tx`
    INSERT INTO app_tables (name, version) VALUES (${tables.name}, ${tables.versions.length})
    ON CONFLICT (name) DO UPDATE SET version = excluded.version`
}

async function versionOf(tx: Tx, app: string): Promise<number | null> {
  const [there] = await tx`SELECT to_regclass(${`${SCHEMA}.app_tables`}) AS name`
  if (there?.name === null) return null
  const [found] = await tx<{ version: number }[]>`SELECT version FROM app_tables WHERE name = ${app}`
  return found?.version ?? null
}

/**
 * A transaction that may lose its connection. When it does, the client would go on and send a ROLLBACK on what is closed,
 * which ends the process; so what ran in it is left where it stands, and the client tells by itself that it is over.
 */
async function begun<T>(sql: Sql, work: (tx: Tx) => Promise<T>): Promise<T> {
  const done = await sql.begin(async (tx) => {
    try {
      return await work(tx)
    } catch (error) {
      if (isGone(error)) return new Promise<never>(() => undefined)
      throw error
    }
  })
  return done as T
}

/** Undone through nobody's fault: it met another transaction. */
async function repeated<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (tries === TRIES_MAX || !['40001', '40P01', '55P03'].includes(codeOf(error))) throw error
    }
  }
}

const codeOf = (error: unknown): string => String((error as { code?: unknown } | null)?.code ?? '')

const isGone = (error: unknown): boolean =>
  ['57P01', '57P02', 'CONNECTION_CLOSED', 'CONNECTION_DESTROYED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT'].includes(
    codeOf(error),
  )

const isAway = (error: unknown): boolean =>
  isGone(error) ||
  ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENOENT', 'CONNECT_TIMEOUT', 'CONNECTION_ENDED'].includes(
    codeOf(error),
  ) ||
  /^(08|57P|25006|53300)/.test(codeOf(error))

function storeError(error: unknown): unknown {
  if (error instanceof RedressError) return error
  if (isAway(error)) {
    return new RedressError('STORE_UNREACHABLE', 'The server of the store cannot be reached.', { cause: error })
  }
  const because = error instanceof Error ? error.message : String(error)
  const code = codeOf(error) === '53100' ? 'STORE_FULL' : 'STORE_FAILED'
  return new RedressError(code, `The rows of an app could not be read or written: ${because}.`, { cause: error })
}
