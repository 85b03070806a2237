import type { MinuteCount } from '../../core/activity.ts'
import { minuteOf } from '../../core/activity.ts'
import { type ActivityCount, type ActivityStore, activityRows } from '../activity.ts'
import { numbers, texts } from './arrays.ts'
import type { Tx } from './client.ts'
import type { PgContext } from './context.ts'
import { isUnknown } from './errors.ts'

export function openActivity({ types, read, write }: PgContext): ActivityStore {
  const add = async (tx: Tx, counts: readonly ActivityCount[], nowMs: number): Promise<void> => {
    // Another process may have said since that a type is not to be counted.
    await types.refresh(tx)
    const rows = activityRows(counts, types.known(), nowMs)
    if (rows.length === 0) return
    await tx`
      INSERT INTO activity (minute, type, what, count)
      SELECT * FROM unnest(${numbers(rows.map(({ minute }) => minute))}::bigint[],
        ${numbers(rows.map(({ type }) => type))}::bigint[], ${texts(rows.map(({ what }) => what))}::text[],
        ${numbers(rows.map(({ count }) => count))}::bigint[])
      ON CONFLICT (minute, type, what) DO UPDATE SET count = activity.count + excluded.count`
  }

  return {
    async addActivity({ counts }) {
      try {
        await write('adding what was counted', (tx, nowMs) => add(tx, counts, nowMs), undefined, { isImpatient: true })
      } catch (error) {
        // Added again, it might count twice: a gap is the smaller fault.
        if (!isUnknown(error)) throw error
      }
    },

    activity: ({ types: names, sinceMs }) =>
      read('reading what was counted', (sql) => {
        return sql<MinuteCount[]>`
          SELECT minute AS "minuteMs", what, sum(count)::bigint AS count FROM activity
          WHERE minute >= ${minuteOf(sinceMs)}
            AND type IN (SELECT key FROM job_types WHERE name = ANY(${texts(names)}::text[]))
          GROUP BY minute, what`
      }),

    async pruneActivity({ olderThanMs, limit }) {
      const found = await read('looking for old counts', async (sql, nowMs) => {
        const [row] = await sql<{ minute: number | null }[]>`SELECT min(minute) AS minute FROM activity`
        return { before: (await nowMs()) - olderThanMs, minute: row?.minute ?? null }
      })
      const { before, minute } = found
      // Nothing to do is the rule, and must lock nothing.
      if (minute === null || minute >= before) return 0
      return write('removing old counts', async (tx) => {
        const { count } = await tx`
          DELETE FROM activity WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM activity WHERE minute < ${before} ORDER BY minute LIMIT ${limit} FOR UPDATE SKIP LOCKED))`
        return count
      })
    },
  }
}
