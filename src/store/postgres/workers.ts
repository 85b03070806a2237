import type { StoredWorker, WorkerKey } from '../store.ts'
import type { PgContext } from './context.ts'

interface WorkerRow {
  id: string
  host: string
  pid: number
  types: string
  started_at: number
  seen_at: number
  stopped_at: number | null
}

export function openWorkers({ write, read }: PgContext) {
  return {
    enlist: ({ id, host, pid, types }: { id: string; host: string; pid: number; types: readonly string[] }) =>
      write(
        'enlisting a worker',
        async (tx, nowMs): Promise<WorkerKey> => {
          const served = JSON.stringify(types)
          // A worker with a name of its own comes back under it after a restart.
          const [row] = await tx<{ key: WorkerKey }[]>`
          INSERT INTO workers (id, host, pid, started_at, seen_at, types)
          VALUES (${id}, ${host}, ${pid}, ${nowMs}, ${nowMs}, ${served})
          ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, started_at = excluded.started_at,
            seen_at = excluded.seen_at, types = excluded.types, stopped_at = NULL
          RETURNING key`
          return (row as { key: WorkerKey }).key
        },
        undefined,
        { mayRepeat: true },
      ),

    dismiss: ({ worker }: { worker: WorkerKey }) =>
      write(
        'dismissing a worker',
        async (tx, nowMs): Promise<void> => {
          await tx`UPDATE workers SET seen_at = ${nowMs}, stopped_at = ${nowMs} WHERE key = ${worker}`
          // Whoever leaves does not wait: that it is silent says the same.
        },
        undefined,
        { isImpatient: true },
      ),

    workers: () =>
      read('reading workers', async (sql): Promise<StoredWorker[]> => {
        const rows = await sql<WorkerRow[]>`
          SELECT id, host, pid, types, started_at, seen_at, stopped_at FROM workers ORDER BY key`
        return rows.map((row) => ({
          id: row.id,
          host: row.host,
          pid: row.pid,
          types: JSON.parse(row.types) as string[],
          startedAtMs: row.started_at,
          seenAtMs: row.seen_at,
          stoppedAtMs: row.stopped_at,
        }))
      }),
  }
}
