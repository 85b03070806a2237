import type { DepthStore, TypeDepth } from '../depths.ts'
import type { SqliteContext } from './context.ts'

/** Each count walks one partial index, which holds only what is still to be done. */
const COUNTS = `
  SELECT type, 'ready' AS state, count(*) AS n FROM jobs WHERE ready IS NOT NULL GROUP BY type
  UNION ALL SELECT type, CASE WHEN due_at <= ?1 THEN 'ready' ELSE 'waiting' END AS state, count(*)
    FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL GROUP BY type, state
  UNION ALL SELECT type, 'active', count(*) FROM jobs
    WHERE lease_until IS NOT NULL AND orphaned_at IS NULL GROUP BY type
  UNION ALL SELECT type, 'orphaned', count(*) FROM jobs
    WHERE orphaned_at IS NOT NULL AND status = 'processing' GROUP BY type`

export function openDepths({ connection, types, nowMs, read }: SqliteContext): DepthStore {
  const counts = connection.prepare(COUNTS)
  return {
    depths: () =>
      read('counting what is to be done', () => {
        types.refresh()
        const byType = new Map(
          types
            .known()
            .map(({ key, name, queue }): [number, TypeDepth] => [
              key,
              { type: name, queue, ready: 0, waiting: 0, active: 0, orphaned: 0 },
            ]),
        )
        for (const { type, state, n } of counts.all(nowMs()) as unknown as Counted[]) {
          const depth = byType.get(type)
          if (depth === undefined) continue
          depth[state] += n
          if (state === 'orphaned') depth.active += n
        }
        return [...byType.values()]
      }),
  }
}

interface Counted {
  type: number
  state: 'ready' | 'waiting' | 'active' | 'orphaned'
  n: number
}
