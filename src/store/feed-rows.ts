import type { EventData, EventKind } from '../core/events.ts'
import type { Policy } from '../core/policy.ts'
import { statusAfter } from '../core/status-after.ts'
import type { FeedEvent, FeedPage } from './feed.ts'

/** An event, its job and its failure, as every driver joins them. */
export type FeedRow = Record<string, number | string | null>

/** None where the job was removed, and only the number of its last event is kept. */
export function feedEventOf(
  row: FeedRow,
  typeOf: (key: number) => { name: string; queue: string; policy: Policy },
): FeedEvent[] {
  const data = row.data === null ? {} : (JSON.parse(row.data as string) as object)
  const at = { seq: row.seq as number, atMs: row.at as number }
  if (row.subject !== null) {
    return [{ ...at, subject: row.subject as string, kind: row.kind as string, data: { ...data } }]
  }
  if (row.job_id === null) return []
  const type = typeOf(row.type as number)
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
      retriedFrom: row.retried_from as string | null,
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

/** The rows as a page. `toSeq` is how far a filtered feed was scanned; null for an unfiltered feed. */
export function pageOf(found: {
  rows: readonly FeedRow[]
  events: FeedEvent[]
  afterSeq: number
  limit: number
  toSeq: number | null
  lastSeq: number
  removedTo: number | null | undefined
}): FeedPage {
  const { rows, events, afterSeq, limit, toSeq, lastSeq, removedTo } = found
  const isFull = rows.length === limit
  const readTo = (rows.at(-1)?.seq as number | undefined) ?? afterSeq
  return {
    events,
    nextSeq: isFull || toSeq === null ? readTo : Math.max(afterSeq, toSeq),
    hasMore: isFull || (toSeq !== null && toSeq < lastSeq),
    removedToSeq: (removedTo ?? 0) > afterSeq ? (removedTo as number) : null,
  }
}
