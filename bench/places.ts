import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import postgres from 'postgres'
import { startPostgres } from '../test/support/stores/postgres.ts'
import type { Floor } from './floor.ts'
import { openPostgresFloor } from './floor-postgres.ts'
import { openSqliteFloor } from './floor-sqlite.ts'

/** Where stores are made for measuring. */
export interface Place {
  /** What is measured, in a few words. */
  title: string
  /** The first process of the database server, if it runs on this machine. */
  serverPid: number | null
  /** An empty store, used by nobody else. */
  fresh(): Promise<Fresh>
  stop(): Promise<void>
}

export interface Fresh {
  store: string
  openFloor(): Promise<Floor>
  remove(): Promise<void>
}

/** Runs something on an empty store, which is removed afterwards. */
export async function onFresh(place: Place, run: (fresh: Fresh) => Promise<void>): Promise<void> {
  const fresh = await place.fresh()
  try {
    await run(fresh)
  } finally {
    await fresh.remove()
  }
}

/** Files in a folder. */
export function sqlitePlace(dir: string): Place {
  return {
    serverPid: null,
    title: `SQLite ${process.versions.sqlite}, synchronous=FULL`,
    async fresh() {
      const folder = mkdtempSync(join(dir, 'redress-bench-'))
      const path = join(folder, 'bench.db')
      return {
        store: `sqlite:${path}`,
        openFloor: () => openSqliteFloor(path),
        remove: async () => rmSync(folder, { recursive: true }),
      }
    },
    stop: async () => undefined,
  }
}

/** As a small server would have them; whatever is measured, all of it runs with these. */
const SETTINGS = ['shared_buffers=256MB', 'max_wal_size=4GB']

/** Databases of a server of our own, or of the one that is given, in which the role must be allowed to make them. */
export async function postgresPlace(
  dir: string,
  given: string | null,
  settings: readonly string[] = [],
): Promise<Place> {
  const server =
    given === null
      ? await startPostgres({ dir, settings: [...SETTINGS, ...settings] })
      : { url: given, stop: async () => undefined }
  const sql = postgres(server.url, { max: 1, onnotice: () => undefined })
  const [row] = await sql`SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync,
    current_setting('synchronous_commit') AS commits, current_setting('shared_buffers') AS buffers`
  let databases = 0
  return {
    serverPid: await serverPidOf(sql, server.url),
    title: `PostgreSQL ${row?.version}, fsync=${row?.fsync}, synchronous_commit=${row?.commits}, shared_buffers=${row?.buffers}`,
    async fresh() {
      const name = `redress_bench_${process.pid}_${databases++}`
      await sql.unsafe(`CREATE DATABASE ${name}`)
      const store = new URL(server.url)
      store.pathname = `/${name}`
      return {
        store: store.href,
        openFloor: () => openPostgresFloor(store.href),
        // Also checkpoints: what one measurement left to be written does not burden the next.
        remove: async () => void (await sql.unsafe(`DROP DATABASE ${name} WITH (FORCE)`)),
      }
    },
    async stop() {
      await sql.end()
      await server.stop()
    },
  }
}

/** Read from the server's own file, for which the role must be a superuser. */
async function serverPidOf(sql: postgres.Sql, url: string): Promise<number | null> {
  if (!['127.0.0.1', 'localhost', '[::1]', ''].includes(new URL(url).hostname)) return null
  try {
    const [row] = await sql`SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int AS pid`
    return Number(row?.pid)
  } catch {
    return null
  }
}
