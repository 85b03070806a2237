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
  /** Whether it can be filled with a million jobs for growth to be measured. */
  canGrow: boolean
  /** An empty store, used by nobody else. */
  fresh(): Promise<Fresh>
  stop(): Promise<void>
}

export interface Fresh {
  store: string
  openFloor(): Promise<Floor>
  remove(): Promise<void>
}

/** Files in a folder. */
export function sqlitePlace(dir: string): Place {
  return {
    canGrow: false,
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
export async function postgresPlace(dir: string, given: string | null): Promise<Place> {
  const server =
    given === null ? await startPostgres({ dir, settings: SETTINGS }) : { url: given, stop: async () => undefined }
  const sql = postgres(server.url, { max: 1, onnotice: () => undefined })
  const [row] = await sql`SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync,
    current_setting('synchronous_commit') AS commits, current_setting('shared_buffers') AS buffers`
  let databases = 0
  return {
    canGrow: true,
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
