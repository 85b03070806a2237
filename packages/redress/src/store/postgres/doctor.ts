import type {
  DoctorStore,
  HistoryReader,
  HorizonHolder,
  PartitionFacts,
  PostgresFacts,
  TableHealth,
  TlsFacts,
} from '../contract/doctor.ts'
import { readJobFacts } from '../scripts/doctor.ts'
import { awaiting } from '../scripts/tx/script.ts'
import { type ClientOptions, openPool, type Pool, type Sql, type Tx } from './connection/client.ts'
import { hostsOf } from './connection/hosts.ts'
import { openingError, placeOf } from './connection/opening.ts'
import { isLocal, tlsOf } from './connection/tls.ts'
import { openTxOf } from './connection/tx.ts'
import { KNOWN_VERSION, versionOf } from './schema/migrate.ts'
import { HISTORY_TABLES, missingPartitions, wantedDays } from './schema/partitions.ts'

const NOTIFIED_MS_MAX = 3000
const QUERY_CHARS_MAX = 80
/** The doctor gets a longer timeout: counting a large backlog is slower than the statements of a worker. */
const STATEMENT_MS_MAX = 60_000
/** The planner settings for claims are wrong for queries of the catalogs. */
const OWN_PLANS = `
  SET LOCAL enable_seqscan = on; SET LOCAL enable_sort = on; SET LOCAL enable_hashjoin = on;
  SET LOCAL enable_bitmapscan = on; SET LOCAL enable_mergejoin = on; SET LOCAL plan_cache_mode = auto`

export interface PostgresDoctorOptions {
  url: string
  schema?: string
  /** This machine's clock. */
  nowMs: () => number
}

/** A connection of its own, because the store would not open if something is wrong. */
export function openPostgresDoctor({ url, schema = 'redress', nowMs }: PostgresDoctorOptions): DoctorStore {
  const client: ClientOptions = { url, schema, connectionsMax: 1, statementMs: STATEMENT_MS_MAX }
  const sql = openPool(client)
  const txOf = openTxOf({ now: serverNow, givenNowMs: () => null, wakeWorkers: () => undefined })
  return {
    async facts() {
      try {
        // Outside of the transaction, which would itself hold back vacuum.
        const clockAheadMs = await clockAhead(sql, nowMs)
        const notified = await tryNotify(sql, client)
        return await sql.begin('READ ONLY', async (tx) => {
          await tx.unsafe(OWN_PLANS)
          const tls = await tlsFacts(tx, url)
          const base: PostgresFacts = { ...(await readBase(tx, schema)), clockAheadMs, notified, tls }
          const isReadable = base.version.found === base.version.known && base.rightsMissing.length === 0
          const jobs = isReadable ? await awaiting(readJobFacts(txOf(tx), await serverNow(tx))) : null
          return { place: placeOf(url), base, jobs }
        })
      } catch (error) {
        throw openingError(error, url)
      }
    },
    stop: () => sql.end({ timeout: 1 }),
  }
}

async function tlsFacts(tx: Tx, url: string): Promise<TlsFacts> {
  const [row] = await tx<{ ssl: boolean }[]>`SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`
  const { mode, checks } = tlsOf(url)
  return { mode, checks, isEncrypted: row?.ssl === true, isLocal: hostsOf(url).every(({ name }) => isLocal(name)) }
}

async function readBase(tx: Tx, schema: string): Promise<Omit<PostgresFacts, 'clockAheadMs' | 'notified' | 'tls'>> {
  const [server] = await tx<Record<string, string>[]>`
    SELECT current_setting('server_version_num') AS version, pg_is_in_recovery()::text AS standby,
      current_setting('synchronous_commit') AS synced, current_setting('fsync') AS fsync,
      current_setting('full_page_writes') AS pages, current_setting('autovacuum') AS autovacuum,
      current_user::text AS me,
      pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')::text AS sees_others,
      (to_regnamespace(quote_ident(${schema})) IS NOT NULL)::text AS has_schema,
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS connections_max,
      (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections_used`
  const { version, standby, synced, fsync, pages, autovacuum, me, ...rest } = server as Record<string, string>
  const hasSchema = rest.has_schema === 'true'
  const rightsMissing = await missingRights(tx, schema, hasSchema)
  return {
    kind: 'postgres',
    serverVersion: Number(version),
    isStandby: standby === 'true',
    settings: {
      synchronousCommit: String(synced),
      fsync: String(fsync),
      fullPageWrites: String(pages),
      autovacuum: String(autovacuum),
    },
    schema,
    hasSchema,
    version: { found: await versionFound(tx, rightsMissing), known: KNOWN_VERSION },
    user: String(me),
    rightsMissing,
    seesOthers: rest.sees_others === 'true',
    holders: await holdersOf(tx, standby === 'true'),
    tables: await tablesOf(tx, schema),
    partitions: hasSchema && rightsMissing.length === 0 ? await partitionFacts(tx) : null,
    connections: { max: Number(rest.connections_max), used: Number(rest.connections_used) },
  }
}

async function versionFound(tx: Tx, rightsMissing: readonly string[]): Promise<number> {
  // A denied read is reported as a missing privilege.
  if (rightsMissing.includes('SELECT on redress_version')) return 0
  return (await versionOf(tx))?.version ?? 0
}

async function missingRights(tx: Tx, schema: string, hasSchema: boolean): Promise<string[]> {
  if (!hasSchema) {
    const [row] = await tx<{ may: boolean; name: string }[]>`
      SELECT has_database_privilege(current_database(), 'CREATE') AS may, current_database()::text AS name`
    return row?.may === true ? [] : [`CREATE on the database ${row?.name}`]
  }
  const rows = await tx<{ missing: string }[]>`
    WITH ours AS (
      SELECT pg_class.oid, relname, relkind FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
      WHERE nspname = ${schema} AND relkind IN ('r', 'p', 'S'))
    SELECT wanted || ' on the schema ' || ${schema} AS missing FROM unnest(ARRAY['USAGE', 'CREATE']) AS wanted
    WHERE NOT has_schema_privilege(quote_ident(${schema}), wanted)
    UNION ALL
    SELECT wanted || ' on ' || relname FROM ours, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted
    -- CASE, for the order of two conditions is the planner's choice, and the functions refuse what is of the other kind.
    WHERE CASE WHEN relkind <> 'S' THEN NOT has_table_privilege(oid, wanted) ELSE false END
    UNION ALL
    SELECT 'USAGE on ' || relname FROM ours
    WHERE CASE WHEN relkind = 'S' THEN NOT has_sequence_privilege(oid, 'USAGE') ELSE false END`
  return rows.map(({ missing }) => missing)
}

interface HolderRow {
  name: string
  what: string
  for_ms: number | null
  transactions: number | null
  wal_bytes: number
  is_active: boolean
}

/** 'psql of ann on 10.0.0.7, idle in transaction'. */
const SESSION = (tx: Tx) => tx`coalesce(nullif(application_name, ''), backend_type) || ' of '
  || coalesce(usename, 'the server') || coalesce(' on ' || host(client_addr), '') || coalesce(', ' || state, '')`

/** Sessions and prepared transactions of other databases hold nothing here; slots and standbys do. */
async function holdersOf(tx: Tx, isStandby: boolean): Promise<HorizonHolder[]> {
  const sessions = await tx<HolderRow[]>`
    SELECT pid::text AS name,
      ${SESSION(tx)} AS what,
      floor(extract(epoch FROM clock_timestamp() - xact_start) * 1000)::bigint AS for_ms,
      greatest(age(backend_xmin), age(backend_xid))::bigint AS transactions, 0::bigint AS wal_bytes,
      state IS DISTINCT FROM 'idle in transaction' AS is_active
    FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
      AND (datname IS NULL OR datname = current_database())`
  const prepared = await tx<HolderRow[]>`
    SELECT gid AS name, 'prepared by ' || owner AS what,
      floor(extract(epoch FROM clock_timestamp() - prepared) * 1000)::bigint AS for_ms,
      age(transaction)::bigint AS transactions, 0::bigint AS wal_bytes, false AS is_active
    FROM pg_prepared_xacts WHERE database = current_database()`
  const now = isStandby ? tx`pg_last_wal_replay_lsn()` : tx`pg_current_wal_lsn()`
  const slots = await tx<HolderRow[]>`
    SELECT slot_name::text AS name, slot_type || coalesce(' of ' || plugin, '') AS what, NULL::bigint AS for_ms,
      age(xmin)::bigint AS transactions, coalesce(pg_wal_lsn_diff(${now}, restart_lsn), 0)::bigint AS wal_bytes,
      active AS is_active
    FROM pg_replication_slots WHERE xmin IS NOT NULL OR NOT active`
  const toHolder =
    (kind: HorizonHolder['kind']) =>
    (row: HolderRow): HorizonHolder => ({
      kind,
      name: row.name,
      what: row.what,
      forMs: row.for_ms,
      transactions: row.transactions,
      walBytes: row.wal_bytes,
      isActive: row.is_active,
    })
  return [...sessions.map(toHolder('session')), ...prepared.map(toHolder('prepared')), ...slots.map(toHolder('slot'))]
}

async function partitionFacts(tx: Tx): Promise<PartitionFacts | null> {
  if ((await versionOf(tx)) === null) return null
  // The next maintenance creates tables further ahead.
  const [today, tomorrow] = await wantedDays(tx)
  const missing = (await missingPartitions(tx))
    .filter(({ day }) => day === today || day === tomorrow)
    .map(({ table, day }) => `${table} ${day}`)
  const filledRests: string[] = []
  for (const table of HISTORY_TABLES) {
    const [row] = await tx`SELECT 1 FROM ${tx(`${table}_rest`)} LIMIT 1`
    if (row !== undefined) filledRests.push(`${table}_rest`)
  }
  return { missing, filledRests, readers: await readersOf(tx) }
}

async function readersOf(tx: Tx): Promise<HistoryReader[]> {
  const tables = HISTORY_TABLES.flatMap((table) => [table, `${table}_rest`])
  const rows = await tx<{ pid: number; what: string; for_ms: number | null; query: string; table: string }[]>`
    SELECT pid, ${SESSION(tx)} AS what,
      floor(extract(epoch FROM clock_timestamp() - xact_start) * 1000)::bigint AS for_ms,
      left(regexp_replace(btrim(query), '[[:space:]]+', ' ', 'g'), ${QUERY_CHARS_MAX}) AS query,
      (SELECT min(relation::regclass::text) FROM pg_locks WHERE pg_locks.pid = pg_stat_activity.pid
        AND locktype = 'relation' AND granted AND relation = ANY (${tables}::text[]::regclass[])) AS table
    FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND pid IN (
      SELECT pg_locks.pid FROM pg_locks WHERE locktype = 'relation' AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND relation = ANY (${tables}::text[]::regclass[]))
    ORDER BY xact_start NULLS LAST`
  return rows
    .filter(({ table }) => table !== null)
    .map(({ pid, what, for_ms, query, table }) => ({ pid, what, forMs: for_ms, query, table }))
}

async function tablesOf(tx: Tx, schema: string): Promise<TableHealth[]> {
  const rows = await tx<{ name: string; live: number; dead: number; ago: number | null }[]>`
    SELECT relname::text AS name, n_live_tup AS live, n_dead_tup AS dead,
      floor(extract(epoch FROM clock_timestamp() - greatest(last_autovacuum, last_vacuum)) * 1000)::bigint AS ago
    FROM pg_stat_user_tables WHERE schemaname = ${schema} ORDER BY relname`
  return rows.map(({ name, live, dead, ago }) => ({ table: name, liveRows: live, deadRows: dead, vacuumedMsAgo: ago }))
}

const serverNow = async (sql: Sql): Promise<number> => {
  const [row] = await sql<{ now: number }[]>`
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now`
  return row?.now ?? 0
}

async function clockAhead(sql: Pool, nowMs: () => number): Promise<number> {
  // The first query also opens the connection, so it is not measured.
  await serverNow(sql)
  const before = nowMs()
  const there = await serverNow(sql)
  return there - Math.round((before + nowMs()) / 2)
}

/** Whether a NOTIFY on one connection reaches a LISTEN on another. A pooler that switches connections breaks this. */
async function tryNotify(sql: Pool, client: ClientOptions): Promise<PostgresFacts['notified']> {
  const ear = openPool(client)
  const heard = Promise.withResolvers<void>()
  const timer = setTimeout(() => heard.reject(new Error('no word came back')), NOTIFIED_MS_MAX)
  // It may reject before it is awaited.
  heard.promise.catch(() => undefined)
  try {
    const channel = `${client.schema}_doctor`
    const word = await wordOf(sql)
    const beganMs = await withinTime(
      ear.listen(channel, (said) => void (said === word && heard.resolve())).then(() => performance.now()),
      heard.promise,
    )
    await sql`SELECT pg_notify(${channel}, ${word})`
    await heard.promise
    return { ms: Math.round(performance.now() - beganMs) }
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) }
  } finally {
    clearTimeout(timer)
    await ear.end({ timeout: 1 }).catch(() => undefined)
  }
}

/** Unique, because several doctors may run at once. */
async function wordOf(sql: Pool): Promise<string> {
  const [row] = await sql<{ word: string }[]>`SELECT pg_backend_pid() || ' ' || clock_timestamp() AS word`
  return row?.word ?? ''
}

const withinTime = <T>(wanted: Promise<T>, limit: Promise<void>): Promise<T> =>
  Promise.race([wanted, limit.then(() => wanted)])
