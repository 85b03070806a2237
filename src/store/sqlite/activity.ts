import type { MinuteCount } from '../../core/activity.ts'
import { minuteOf } from '../../core/activity.ts'
import { type ActivityStore, activityRows } from '../activity.ts'
import type { SqliteContext } from './context.ts'

export function openActivity({ connection, types, nowMs, read, write }: SqliteContext): ActivityStore {
  const add = connection.prepare(`
    INSERT INTO activity (minute, type, what, count) VALUES (?, ?, ?, ?)
    ON CONFLICT (minute, type, what) DO UPDATE SET count = count + excluded.count`)
  const sums = connection.prepare(`
    SELECT minute AS minuteMs, what, sum(count) AS count FROM activity
    WHERE minute >= ?1 AND type IN (SELECT value FROM json_each(?2)) GROUP BY minute, what`)
  const oldest = connection.prepare('SELECT min(minute) AS minute FROM activity')
  const remove = connection.prepare(`
    DELETE FROM activity WHERE (minute, type, what) IN (
      SELECT minute, type, what FROM activity WHERE minute < ?1 ORDER BY minute LIMIT ?2)`)

  return {
    addActivity: ({ counts }) =>
      write('adding what was counted', () => {
        // Another process may have said since that a type is not to be counted.
        types.refresh()
        for (const { minute, type, what, count } of activityRows(counts, types.known(), nowMs())) {
          add.run(minute, type, what, count)
        }
      }),

    activity: ({ types: names, sinceMs }) =>
      read('reading what was counted', () => {
        types.refresh()
        const keys = names.flatMap((name) => types.byName(name)?.key ?? [])
        return sums.all(minuteOf(sinceMs), JSON.stringify(keys)) as unknown as MinuteCount[]
      }),

    async pruneActivity({ olderThanMs, limit }) {
      const before = nowMs() - olderThanMs
      // Nothing to do is the rule, and must not take the write lock.
      const { minute } = await read('looking for old counts', () => oldest.get() as { minute: number | null })
      if (minute === null || minute >= before) return 0
      return write('removing old counts', () => Number(remove.run(before, limit).changes))
    },
  }
}
