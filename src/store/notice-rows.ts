import { type NoticeContent, noticeOf, typeOfChannel } from '../core/notices.ts'
import { derivedId } from './derived-id.ts'
import type { StoredNotice } from './notices.ts'
import type { NewJob } from './store.ts'

/** A row of the outbox as every driver has it. */
export interface NoticeRow {
  seq: number
  at: number
  kind: string
  channels: string
  /** JSON: the channels that it waits for. */
  waiting: string
  subject: string
  cause: string
  until: number
  repeats: number
  last_at: number
  earlier: number
  earlier_at: number | null
  data: string
  relayed_at: number | null
}

export type LastNoticeRow = Pick<NoticeRow, 'seq' | 'at' | 'until' | 'repeats'>

export function noticeFromRow(row: NoticeRow): StoredNotice {
  return {
    seq: row.seq,
    atMs: row.at,
    kind: row.kind,
    subject: row.subject,
    cause: row.cause,
    channels: JSON.parse(row.channels) as string[],
    waiting: (JSON.parse(row.waiting) as string[]).sort(),
    repeats: row.repeats,
    lastAtMs: row.last_at,
    untilMs: row.until,
    earlier: row.earlier,
    earlierAtMs: row.earlier_at,
    relayedAtMs: row.relayed_at,
    content: JSON.parse(row.data) as NoticeContent,
  }
}

/** The job that brings a notice to a channel. */
export function deliveryOf(notice: StoredNotice, channel: string): NewJob {
  return {
    id: idOf(notice, channel),
    type: typeOfChannel(channel),
    payload: JSON.stringify({ seq: notice.seq, notice: noticeOf(notice) }),
    owner: null,
    priority: 0,
    delayMs: 0,
    dedupe: null,
    retriedFrom: null,
    rejected: null,
    batch: null,
    limitKey: null,
  }
}

/**
 * Always the same for one notice and channel, so that it cannot become two jobs; and different from those of another
 * store, for a receiver of both takes it for the mark by which doubles are known.
 */
const idOf = ({ seq, atMs, subject, cause }: StoredNotice, channel: string): string =>
  derivedId('notice', seq, atMs, subject, cause, channel)
