import { appendFileSync, chmodSync, cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import { until } from '../until.ts'
import { type OwnPostgres, serverIn, startOwnPostgres } from './postgres.ts'

export interface TestCluster {
  primary: OwnPostgres
  standby: OwnPostgres
  /** Both addresses. */
  url: string
  /** The standby becomes the primary; the old one stays alive, and is not told. */
  promote(): Promise<void>
  stop(): Promise<void>
}

const STANDBY = 'second'

/** A primary, and a standby that must have each commit before it is acknowledged. */
export async function startCluster(): Promise<TestCluster> {
  const primary = await startOwnPostgres()
  // A copy of the files of a server that has ended is a backup.
  await primary.end()
  const folder = mkdtempSync(join(tmpdir(), 'redress-pg-'))
  chmodSync(folder, 0o700)
  const data = join(folder, 'data')
  cpSync(join(primary.folder, 'data'), data, { recursive: true })
  chmodSync(data, 0o700)
  writeFileSync(join(data, 'standby.signal'), '')
  const from = `host=127.0.0.1 port=${primary.port} user=postgres application_name=${STANDBY}`
  appendFileSync(join(data, 'postgresql.auto.conf'), `primary_conninfo = '${from}'\n`)
  appendFileSync(join(primary.folder, 'data', 'postgresql.auto.conf'), `synchronous_standby_names = '${STANDBY}'\n`)
  await primary.start()
  const standby = await serverIn(folder, [])
  await standby.start()
  const sql = postgres(primary.url, { max: 1 })
  await until('each commit waits for the standby', async () => {
    const [row] = await sql`SELECT sync_state FROM pg_stat_replication`
    return row?.sync_state === 'sync'
  })
  await sql.end()
  return {
    primary,
    standby,
    url: `postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres?target_session_attrs=read-write`,
    async promote() {
      const own = postgres(standby.url, { max: 1 })
      // Without waiting inside the statement: what the standby still replays may cancel it.
      await own`SELECT pg_promote(false)`
      await until('the standby takes writes', async () => {
        const [row] = await own`SELECT pg_is_in_recovery() AS standby`
        return row?.standby === false
      })
      await own.end()
    },
    async stop() {
      await standby.crash()
      await primary.crash()
      for (const one of [primary, standby]) rmSync(one.folder, { recursive: true, force: true })
    },
  }
}
