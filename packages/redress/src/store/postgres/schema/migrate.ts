import { RedressError } from '../../../core/errors.ts'
import type { Pool, Sql } from '../connection/client.ts'
import { addPartition, hasToday, keepPartitions, missingPartitions } from './partitions.ts'
import { MIGRATIONS } from './schema.ts'

/** An arbitrary number that no other program should lock. */
const MIGRATION_LOCK = 0x72647273

/** Another process may be migrating, and a large table takes time. */
const MIGRATION_MS_MAX = 600_000
const TABLE_LOCK_MS_MAX = 10_000

/** The version that this program migrates a store to. */
export const KNOWN_VERSION = MIGRATIONS.length

export interface StoreVersion {
  version: number
  /** The oldest version that a program may know and still work with the store. */
  oldest: number
  /** Tells this store from one of the same name in another database. */
  store: string
}

/** null if there is no store yet. */
export async function versionOf(sql: Sql): Promise<StoreVersion | null> {
  // As text: the connection may be a caller's own, and its client reads other types in its own way.
  const [table] = await sql<{ name: string | null }[]>`SELECT to_regclass('redress_version')::text AS name`
  if (table === undefined || table.name === null) return null
  const [row] = await sql<StoreVersion[]>`SELECT version, oldest, store::text FROM redress_version`
  return row ?? null
}

/** A store that a newer Redress has migrated can be used if the migration only added to it. */
export function refuseTooNew({ version, oldest }: StoreVersion, place: string): void {
  if (oldest <= KNOWN_VERSION) return
  throw new RedressError(
    'STORE_TOO_NEW',
    `${place} is of version ${version}, which versions from ${oldest} on can use; this Redress knows version ${KNOWN_VERSION}.`,
  )
}

/** A starting process waits for no lock, unless the tables are of an older version. */
export async function migrate(sql: Pool, schema: string): Promise<void> {
  const found = await versionOf(sql)
  if (found !== null) refuseTooNew(found, `The schema ${schema}`)
  if (found === null || found.version < KNOWN_VERSION) await makeTables(sql, schema)
  if (await hasToday(sql)) return
  await keepPartitions(await missingPartitions(sql), (run) => sql.transaction((tx) => run(tx, 0)))
}

/** If several processes start at once, one creates the tables and the others find them. */
async function makeTables(sql: Pool, schema: string): Promise<void> {
  await sql.transaction(
    async (tx) => {
      await tx.unsafe(`SET LOCAL statement_timeout = ${MIGRATION_MS_MAX}; SET LOCAL lock_timeout = ${MIGRATION_MS_MAX}`)
      await tx`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`
      // A transaction that waits for a table makes all others wait behind it.
      await tx.unsafe(`SET LOCAL lock_timeout = ${TABLE_LOCK_MS_MAX}`)
      // IF NOT EXISTS would need the right to create schemas, even if an administrator has already created this one.
      const [there] = await tx`SELECT 1 FROM pg_namespace WHERE nspname = ${schema}`
      if (there === undefined) await tx`CREATE SCHEMA ${tx(schema)}`
      await tx`
        CREATE TABLE IF NOT EXISTS redress_version (
          version int NOT NULL, oldest int NOT NULL, store uuid NOT NULL DEFAULT gen_random_uuid())`
      const found = await versionOf(tx)
      if (found !== null) refuseTooNew(found, `The schema ${schema}`)
      if ((found?.version ?? 0) >= KNOWN_VERSION) return
      for (const { sql: text } of MIGRATIONS.slice(found?.version ?? 0)) await tx.unsafe(text)
      const oldest = MIGRATIONS.at(-1)?.oldest ?? 0
      if (found !== null) {
        await tx`UPDATE redress_version SET version = ${KNOWN_VERSION}, oldest = ${oldest}`
        return
      }
      await tx`INSERT INTO redress_version (version, oldest) VALUES (${KNOWN_VERSION}, ${oldest})`
      for (const partition of await missingPartitions(tx)) await addPartition(tx, partition)
    },
    { statementMs: MIGRATION_MS_MAX },
  )
}
