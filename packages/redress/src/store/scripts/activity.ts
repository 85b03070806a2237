import { type MinuteCount, minuteOf } from '../../core/job/activity.ts'
import type { ActivityCount, ActivityStore } from '../contract/activity.ts'
import { plain } from './jobs/rows.ts'
import type { KnownType } from './jobs/types.ts'
import type { ScriptContext } from './tx/context.ts'

interface ActivityRow {
  minute: number
  type: number
  what: string
  count: number
}

export function openActivity({ types, read, write }: ScriptContext): ActivityStore {
  return {
    addActivity: ({ counts }) =>
      write(
        'adding what was counted',
        function* (tx, nowMs) {
          // Another process may have excluded a type from the counts since.
          yield* types.refresh(tx)
          const rows = rowsOf(counts, types.known(), nowMs)
          if (rows.length === 0) return
          const columns = { minute: 'bigint', type: 'bigint', what: 'text', count: 'bigint' } as const
          yield* tx.run`
            INSERT INTO activity (minute, type, what, count)
            SELECT minute, type, what, count FROM ${tx.dialect.table(columns, rows)} AS given WHERE true
            ON CONFLICT (minute, type, what) DO UPDATE SET count = activity.count + excluded.count`
        },
        // Added again, the same calls could count twice: a gap is the smaller fault.
        { isImpatient: true, mayGoMissing: true },
      ),

    activity: ({ types: names, sinceMs }) =>
      read('reading what was counted', function* (tx) {
        const rows = yield* tx.all<MinuteCount>`
          SELECT minute AS "minuteMs", what, CAST(sum(count) AS bigint) AS count FROM activity
          WHERE minute >= ${minuteOf(sinceMs)}
            AND type IN (SELECT key FROM job_types WHERE name ${tx.dialect.inTexts(names)})
          GROUP BY minute, what`
        return plain(rows)
      }),

    async pruneActivity({ olderThanMs, limit }) {
      const { minute, beforeMs } = await read('looking for old counts', function* (tx) {
        const beforeMs = (yield* tx.now()) - olderThanMs
        const oldest = yield* tx.get<{ minute: number | null }>`SELECT min(minute) AS minute FROM activity`
        return { minute: oldest?.minute ?? null, beforeMs }
      })
      // Usually there is nothing to remove, and then no lock is taken.
      if (minute === null || minute >= beforeMs) return 0
      return write(
        'removing old counts',
        (tx) => tx.run`
          WITH old AS (
            SELECT minute, type, what FROM activity WHERE minute < ${beforeMs} ORDER BY minute LIMIT ${limit}
            ${tx.dialect.forUpdate} ${tx.dialect.skipLocked})
          DELETE FROM activity WHERE (minute, type, what) IN (SELECT minute, type, what FROM old)`,
      )
    },
  }
}

/** One row per minute, type and thing, in the order of the key: two writers lock the same rows in the same order. */
function rowsOf(counts: readonly ActivityCount[], types: readonly KnownType[], nowMs: number): ActivityRow[] {
  const keys = new Map(types.filter(({ policy }) => policy.aggregates).map(({ name, key }) => [name, key]))
  const rows = new Map<string, ActivityRow>()
  for (const { agoMs, type: name, what, count } of counts) {
    const type = keys.get(name)
    if (type === undefined || count === 0) continue
    const minute = minuteOf(nowMs - Math.max(0, agoMs))
    const id = `${minute} ${type} ${what}`
    const row = rows.get(id)
    if (row === undefined) rows.set(id, { minute, type, what, count })
    else row.count += count
  }
  return [...rows.values()].sort((a, b) => a.minute - b.minute || a.type - b.type || (a.what < b.what ? -1 : 1))
}
