import type { DepthStore, TypeDepth } from '../depths.ts'
import type { PgContext } from './context.ts'

interface Counted {
  type: number
  state: 'ready' | 'waiting' | 'active' | 'orphaned'
  n: number
}

export function openDepths({ types, read }: PgContext): DepthStore {
  return {
    depths: () =>
      read('counting what is to be done', async (sql, nowMs) => {
        const [atMs] = await Promise.all([nowMs(), types.refresh()])
        const byType = new Map(
          types
            .known()
            .map(({ key, name, queue }): [number, TypeDepth] => [
              key,
              { type: name, queue, ready: 0, waiting: 0, active: 0, orphaned: 0 },
            ]),
        )
        // Each count walks one partial index, which holds only what is still to be done.
        const counts = await sql<Counted[]>`
          SELECT type, 'ready' AS state, count(*) AS n FROM jobs WHERE ready IS NOT NULL GROUP BY type
          UNION ALL SELECT type, CASE WHEN due_at <= ${atMs} THEN 'ready' ELSE 'waiting' END, count(*)
            FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL GROUP BY 1, 2
          UNION ALL SELECT type, 'active', count(*) FROM jobs
            WHERE lease_until IS NOT NULL AND orphaned_at IS NULL GROUP BY type
          UNION ALL SELECT type, 'orphaned', count(*) FROM jobs
            WHERE orphaned_at IS NOT NULL AND status = 'processing' GROUP BY type`
        for (const { type, state, n } of counts) {
          const depth = byType.get(type)
          if (depth === undefined) continue
          depth[state] += n
          if (state === 'orphaned') depth.active += n
        }
        return [...byType.values()]
      }),
  }
}
