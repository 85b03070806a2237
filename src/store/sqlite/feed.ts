import { FEED_SCAN_MAX, type FeedFilter, type FeedStore } from '../feed.ts'
import { type FeedRow, feedEventOf, pageOf } from '../feed-rows.ts'
import { REMOVED_EVENTS } from '../retention.ts'
import type { SqliteContext } from './context.ts'

/**
 * ?4 is the filter. Owners and batches are looked up in their indexes: in the row they come after the payload, which
 * may be large, and most rows are filtered out.
 */
const WANTED = `AND (
    events.subject IN (SELECT value FROM json_each(?4, '$.subjects'))
    OR job_specs.id IN (SELECT value FROM json_each(?4, '$.jobs'))
    OR job_specs.type IN (
      SELECT key FROM job_types WHERE name IN (SELECT value FROM json_each(?4, '$.types'))
        OR queue IN (SELECT value FROM json_each(?4, '$.queues')))
    OR EXISTS (SELECT 1 FROM job_specs AS owned INDEXED BY specs_of_owner
      WHERE owned.owner IN (SELECT value FROM json_each(?4, '$.owners')) AND owned.key = events.job)
    OR EXISTS (SELECT 1 FROM job_specs AS member INDEXED BY specs_of_batch
      WHERE member.batch IN (SELECT key FROM batches WHERE id IN (SELECT value FROM json_each(?4, '$.batches')))
        AND member.key = events.job)
    OR json_extract(?4, '$.hasSchedules') AND events.data LIKE '%"schedule":%')`

export function openFeed(
  { connection, types, read }: Pick<SqliteContext, 'connection' | 'types' | 'read'>,
  onCommit: FeedStore['onCommit'],
): FeedStore {
  // With the events in one statement: they must be seen as they stand at one and the same moment.
  const pageSql = (wanted: string) => `
    SELECT events.seq, events.at, events.kind, events.job, events.attempt, events.data, events.subject,
      job_specs.id AS job_id, job_specs.type, job_specs.owner, job_specs.retried_from, batches.id AS batch_id,
      failures.code, failures.message, failures.waiting,
      (SELECT position FROM cursors WHERE name = '${REMOVED_EVENTS}') AS removed_to
    FROM events LEFT JOIN job_specs ON job_specs.key = events.job
      LEFT JOIN batches ON batches.key = job_specs.batch
      LEFT JOIN failures ON failures.seq = json_extract(events.data, '$.failure')
    WHERE events.seq > ?1 AND events.seq <= ?2 ${wanted} ORDER BY events.seq LIMIT ?3`
  const page = connection.prepare(pageSql(''))
  const filteredPage = connection.prepare(pageSql(WANTED))
  const scanEnd = connection.prepare(
    `SELECT seq FROM events WHERE seq > ? ORDER BY seq LIMIT 1 OFFSET ${FEED_SCAN_MAX - 1}`,
  )
  const removed = connection.prepare(`SELECT position AS removed_to FROM cursors WHERE name = '${REMOVED_EVENTS}'`)
  const last = connection.prepare('SELECT coalesce(max(seq), 0) AS seq FROM events')
  const lastSeq = (): number => (last.get() as { seq: number }).seq

  const wantedPage = (
    afterSeq: number,
    limit: number,
    only: FeedFilter,
  ): { rows: FeedRow[]; toSeq: number; lastSeq: number } => {
    // Read first: events committed after this are found with the next page.
    const newestSeq = lastSeq()
    const toSeq = (scanEnd.get(afterSeq) as { seq: number } | undefined)?.seq ?? newestSeq
    const rows = filteredPage.all(afterSeq, toSeq, limit, JSON.stringify(only)) as FeedRow[]
    return { rows, toSeq, lastSeq: newestSeq }
  }

  return {
    feed: ({ afterSeq, limit, only }) =>
      read('reading the feed', () => {
        const found =
          only === undefined
            ? { rows: page.all(afterSeq, Number.MAX_SAFE_INTEGER, limit) as FeedRow[], toSeq: null, lastSeq: 0 }
            : wantedPage(afterSeq, limit, only)
        const [first = (removed.get() ?? {}) as FeedRow] = found.rows
        return pageOf({
          ...found,
          afterSeq,
          limit,
          removedTo: first.removed_to as number | null | undefined,
          events: found.rows.flatMap((row) => feedEventOf(row, types.byKey)),
        })
      }),
    lastSeq: () => read('reading the feed', lastSeq),
    onCommit,
  }
}
