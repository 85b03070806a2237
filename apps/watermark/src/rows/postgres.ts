import { openPostgresRows, type PostgresQuery } from 'redress/store'
import { type Driver, type Tables, versionsAfter } from './rows.ts'

/** Beside the schema of the store, which must contain no other tables. */
const SCHEMA = 'redress_apps'
/** Any number that no other program locks. */
const MIGRATION_LOCK = 0x72647274

/** A small separate pool on the server of the store; it follows the primary as the store does. */
export async function postgresRows(url: string): Promise<Driver> {
  const { ask, transaction, close } = await openPostgresRows({ url, schema: SCHEMA })
  return {
    ask,
    atomically: (steps) =>
      transaction(async (inside) => {
        const rows: object[][] = []
        for (const { sql, params = [] } of steps) rows.push((await inside(sql, params)).rows)
        return rows
      }),
    migrate: (tables) => transaction((inside) => migrate(inside, tables)),
    versionOf: (app) => transaction((inside) => versionOf(inside, app)),
    close,
  }
}

async function migrate(ask: PostgresQuery, tables: Tables): Promise<void> {
  // If several processes start at once, one makes the tables and the others find them.
  await ask('SELECT pg_advisory_xact_lock($1::bigint)', [MIGRATION_LOCK])
  // IF NOT EXISTS needs the right to create schemas, even if an administrator has created this one.
  const there = await ask('SELECT 1 FROM pg_namespace WHERE nspname = $1', [SCHEMA])
  if (there.count === 0) await ask(`CREATE SCHEMA ${SCHEMA}`)
  await ask('CREATE TABLE IF NOT EXISTS app_tables (name text PRIMARY KEY, version bigint NOT NULL)')
  const versions = versionsAfter((await versionOf(ask, tables.name)) ?? 0, tables)
  if (versions.length === 0) return
  for (const version of versions) await ask(version)
  await ask(
    `INSERT INTO app_tables (name, version) VALUES ($1, $2)
      ON CONFLICT (name) DO UPDATE SET version = excluded.version`,
    [tables.name, tables.versions.length],
  )
}

async function versionOf(ask: PostgresQuery, app: string): Promise<number | null> {
  const there = await ask('SELECT to_regclass($1)::text AS name', [`${SCHEMA}.app_tables`])
  if ((there.rows[0] as { name: string | null }).name === null) return null
  const found = await ask('SELECT version FROM app_tables WHERE name = $1', [app])
  return (found.rows[0] as { version: number } | undefined)?.version ?? null
}
