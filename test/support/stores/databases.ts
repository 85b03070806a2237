import { onTestFinished } from 'vitest'
import { openPool, type Pool } from '../../../packages/redress/src/store/postgres/connection/client.ts'

let made = 0

/** A connection of the test's own, which sees the schema's tables. */
export function rawPostgres(url: string, schema = 'redress'): Pool {
  const sql = openPool({ url, schema, connectionsMax: 2 })
  onTestFinished(() => sql.end({ timeout: 1 }))
  return sql
}

/** A database of the test's own on this server: for what looks at a whole one, such as a command. */
export async function ownDatabase(url: string): Promise<string> {
  const name = `test_${process.pid}_${++made}`
  const sql = rawPostgres(url)
  await sql.unsafe(`CREATE DATABASE ${name}`)
  onTestFinished(async () => void (await sql.unsafe(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)))
  const own = new URL(url)
  own.pathname = `/${name}`
  return own.href
}
