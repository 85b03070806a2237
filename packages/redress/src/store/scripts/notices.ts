import { type NoticeContent, noticeOf, typeOfChannel } from '../../core/notice/notice.ts'
import type { NoticeStore, StoredNotice } from '../contract/notices.ts'
import type { NewJob } from '../contract/store.ts'
import { derivedId } from './derived-id.ts'
import type { ScriptContext, Tx } from './tx/context.ts'
import type { Script } from './tx/script.ts'
import { type Dialect, NONE, type Sql, sql } from './tx/sql.ts'

/** A row of the outbox  */
interface NoticeRow {
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

function noticeFromRow(row: NoticeRow): StoredNotice {
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
function deliveryOf(notice: StoredNotice, channel: string): NewJob {
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

const columns = ({ jsonArray }: Dialect): Sql => sql`
  notices.*, (SELECT ${jsonArray(sql`channel`)} FROM notice_waits WHERE notice = notices.seq) AS waiting`

export function openNotices({ dialect, history, read, write, submit }: ScriptContext): NoticeStore {
  /** Sorted by number. */
  const waitingFor = function* (tx: Tx, channel: string, limit: number): Script<StoredNotice[]> {
    const rows = yield* tx.all<NoticeRow>`
      SELECT ${columns(dialect)} FROM notice_waits JOIN notices ON notices.seq = notice_waits.notice
      WHERE channel = ${channel} ORDER BY notice LIMIT ${limit}`
    return rows.map(noticeFromRow)
  }

  const relay = function* (tx: Tx, channel: string, limit: number, nowMs: number): Script<number> {
    const notices = yield* waitingFor(tx, channel, limit)
    if (notices.length === 0) return 0
    const jobs = notices.map((notice) => deliveryOf(notice, channel))
    yield* submit(tx, jobs, nowMs)
    const seqs = dialect.inNumbers(notices.map(({ seq }) => seq))
    yield* tx.run`DELETE FROM notice_waits WHERE channel = ${channel} AND notice ${seqs}`
    yield* tx.run`
      UPDATE notices SET relayed_at = ${nowMs}
      WHERE seq ${seqs} AND NOT EXISTS (SELECT 1 FROM notice_waits WHERE notice = notices.seq)`
    tx.hintWork()
    return notices.length
  }

  return {
    addNotices: ({ notices, by }) =>
      write('adding notices', function* (tx, nowMs) {
        const added = yield* history.tell(tx, notices, null, nowMs)
        if (by !== undefined) {
          const ids = added.map(({ seq }) => String(seq))
          yield* history.audit(tx, by, { atMs: nowMs, act: by.act, target: 'notice', ids })
        }
        return added
      }),

    notices: ({ isWaiting = false, beforeSeq = Number.MAX_SAFE_INTEGER, limit }) =>
      read('listing notices', function* (tx) {
        const rows = yield* tx.all<NoticeRow>`
          SELECT ${columns(dialect)} FROM notices
          WHERE seq < ${beforeSeq} ${isWaiting ? sql`AND relayed_at IS NULL` : NONE} ORDER BY seq DESC LIMIT ${limit}`
        return rows.map(noticeFromRow)
      }),

    async relayNotices({ channels, limit }) {
      // Looked for first: a check every second must not take the write lock when there is nothing to relay.
      const waited = await read(
        'looking for notices',
        (tx) => tx.all<{ channel: string }>`
        SELECT channel FROM ${dialect.table(
          { channel: 'text' },
          channels.map((channel) => ({ channel })),
        )} AS asked
        WHERE EXISTS (SELECT 1 FROM notice_waits WHERE notice_waits.channel = asked.channel) ORDER BY i`,
      )
      if (waited.length === 0) return 0
      return write(
        'relaying notices',
        function* (tx, nowMs) {
          let relayed = 0
          for (const { channel } of waited) {
            if (relayed < limit) relayed += yield* relay(tx, channel, limit - relayed, nowMs)
          }
          return relayed
        },
        { alone: 'notices' },
      )
    },

    async forgetNotices({ keptMs, limit }) {
      const found = await read('looking for old notices', function* (tx) {
        const atMs = yield* tx.now()
        return yield* tx.all<{ seq: number }>`
          SELECT seq FROM notices WHERE relayed_at < ${atMs - keptMs} AND until <= ${atMs} ORDER BY seq LIMIT ${limit}`
      })
      if (found.length === 0) return 0
      // Compared again: a repeat may have been counted on it since it was found.
      return write(
        'forgetting notices',
        (tx, nowMs) => tx.run`
        DELETE FROM notices
        WHERE seq ${dialect.inNumbers(found.map(({ seq }) => seq))} AND relayed_at < ${nowMs - keptMs} AND until <= ${nowMs}`,
      )
    },
  }
}
