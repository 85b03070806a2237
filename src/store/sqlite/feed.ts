import type { EventData, EventKind } from '../../core/events.ts'
import { statusAfter } from '../../core/status-after.ts'
import type { FeedEvent, FeedStore } from '../feed.ts'
import type { SqliteContext } from './context.ts'
import { REMOVED_EVENTS } from './pruning.ts'

type Row = Record<string, number | string | null>

export function openFeed(
  { connection, types, read }: Pick<SqliteContext, 'connection' | 'types' | 'read'>,
  onCommit: FeedStore['onCommit'],
): FeedStore {
  // With the events in one statement: they must be seen as they stand at one and the same moment.
  const page = connection.prepare(`
    SELECT events.seq, events.at, events.kind, events.job, events.attempt, events.data, events.subject,
      job_specs.id AS job_id, job_specs.type, job_specs.owner, batches.id AS batch_id,
      failures.code, failures.message, failures.waiting,
      (SELECT position FROM cursors WHERE name = '${REMOVED_EVENTS}') AS removed_to
    FROM events LEFT JOIN job_specs ON job_specs.key = events.job
      LEFT JOIN batches ON batches.key = job_specs.batch
      LEFT JOIN failures ON failures.seq = json_extract(events.data, '$.failure')
    WHERE events.seq > ? ORDER BY events.seq LIMIT ?`)
  const removed = connection.prepare(`SELECT position AS removed_to FROM cursors WHERE name = '${REMOVED_EVENTS}'`)
  const last = connection.prepare('SELECT coalesce(max(seq), 0) AS seq FROM events')

  const toEvent = (row: Row): FeedEvent[] => {
    const data = row.data === null ? {} : (JSON.parse(row.data as string) as object)
    const at = { seq: row.seq as number, atMs: row.at as number }
    if (row.subject !== null) {
      return [{ ...at, subject: row.subject as string, kind: row.kind as string, data: { ...data } }]
    }
    // The job was removed, and only the number of its last event is kept.
    if (row.job_id === null) return []
    const type = types.byKey(row.type as number)
    const kind = row.kind as EventKind
    const isFinal = kind === 'failed'
    return [
      {
        ...at,
        subject: null,
        kind,
        jobId: row.job_id as string,
        type: type.name,
        queue: type.queue,
        owner: row.owner as string | null,
        batchId: row.batch_id as string | null,
        attempt: row.attempt as number,
        status: statusAfter(kind, data),
        failure:
          row.code === null
            ? null
            : {
                code: row.code as string,
                message: (isFinal ? row.message : row.waiting) as string,
                isPublic: isFinal || type.policy.errors === 'latest',
              },
        data: data as EventData,
      },
    ]
  }

  return {
    feed: ({ afterSeq, limit }) =>
      read('reading the feed', () => {
        const rows = page.all(afterSeq, limit) as Row[]
        const [first = (removed.get() ?? {}) as Row] = rows
        const removedToSeq = (first.removed_to as number | null | undefined) ?? 0
        return {
          events: rows.flatMap(toEvent),
          nextSeq: (rows.at(-1)?.seq as number | undefined) ?? afterSeq,
          hasMore: rows.length === limit,
          removedToSeq: removedToSeq > afterSeq ? removedToSeq : null,
        }
      }),
    lastSeq: () => read('reading the feed', () => (last.get() as { seq: number }).seq),
    onCommit,
  }
}
