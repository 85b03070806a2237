import type { DepthStore, TypeDepth } from '../../contract/depths.ts'
import type { ScriptContext } from '../tx/context.ts'

interface Counted {
  type: number
  state: 'ready' | 'waiting' | 'active' | 'orphaned'
  n: number
}

export function openDepths({ types, read }: ScriptContext): DepthStore {
  return {
    depths: () =>
      read('counting what is to be done', function* (tx) {
        const [atMs] = yield* tx.together(tx.now(), types.refresh(tx))
        const depths = new Map(
          types.known().map(({ key, name, queue }): [number, TypeDepth] => {
            return [key, { type: name, queue, ready: 0, waiting: 0, active: 0, orphaned: 0 }]
          }),
        )
        // Each count walks one partial index, which holds only jobs that have not ended.
        const counts = yield* tx.all<Counted>`
          SELECT type, 'ready' AS state, count(*) AS n FROM jobs WHERE ready IS NOT NULL GROUP BY type
          UNION ALL SELECT type, CASE WHEN due_at <= ${atMs} THEN 'ready' ELSE 'waiting' END, count(*)
            FROM jobs WHERE due_at IS NOT NULL AND ready IS NULL GROUP BY 1, 2
          UNION ALL SELECT type, 'active', count(*) FROM jobs
            WHERE lease_until IS NOT NULL AND orphaned_at IS NULL GROUP BY type
          UNION ALL SELECT type, 'orphaned', count(*) FROM jobs
            WHERE orphaned_at IS NOT NULL AND status = 'processing' GROUP BY type`
        for (const { type, state, n } of counts) {
          const depth = depths.get(type)
          if (depth === undefined) continue
          depth[state] += n
          if (state === 'orphaned') depth.active += n
        }
        return [...depths.values()]
      }),
  }
}
