import type { FeedStore } from '../feed.ts'
import { type FeedRow, feedEventOf } from '../feed-rows.ts'
import { REMOVED_EVENTS } from '../retention.ts'
import type { SqliteContext } from './context.ts'

export function openFeed(
  { connection, types, read }: Pick<SqliteContext, 'connection' | 'types' | 'read'>,
  onCommit: FeedStore['onCommit'],
): FeedStore {
  // With the events in one statement: they must be seen as they stand at one and the same moment.
  const page = connection.prepare(`
    SELECT events.seq, events.at, events.kind, events.job, events.attempt, events.data, events.subject,
      job_specs.id AS job_id, job_specs.type, job_specs.owner, job_specs.retried_from, batches.id AS batch_id,
      failures.code, failures.message, failures.waiting,
      (SELECT position FROM cursors WHERE name = '${REMOVED_EVENTS}') AS removed_to
    FROM events LEFT JOIN job_specs ON job_specs.key = events.job
      LEFT JOIN batches ON batches.key = job_specs.batch
      LEFT JOIN failures ON failures.seq = json_extract(events.data, '$.failure')
    WHERE events.seq > ? ORDER BY events.seq LIMIT ?`)
  const removed = connection.prepare(`SELECT position AS removed_to FROM cursors WHERE name = '${REMOVED_EVENTS}'`)
  const last = connection.prepare('SELECT coalesce(max(seq), 0) AS seq FROM events')

  return {
    feed: ({ afterSeq, limit }) =>
      read('reading the feed', () => {
        const rows = page.all(afterSeq, limit) as FeedRow[]
        const [first = (removed.get() ?? {}) as FeedRow] = rows
        const removedToSeq = (first.removed_to as number | null | undefined) ?? 0
        return {
          events: rows.flatMap((row) => feedEventOf(row, types.byKey)),
          nextSeq: (rows.at(-1)?.seq as number | undefined) ?? afterSeq,
          hasMore: rows.length === limit,
          removedToSeq: removedToSeq > afterSeq ? removedToSeq : null,
        }
      }),
    lastSeq: () => read('reading the feed', () => (last.get() as { seq: number }).seq),
    onCommit,
  }
}
