import { inBatch, kindOf, type NewNotice, type NoticeJob, sortedSet, tellOrCount } from '../../core/notices.ts'
import { deliveryOf, type LastNoticeRow, type NoticeRow, noticeFromRow } from '../notice-rows.ts'
import type { AddedNotice, NoticeFilter, NoticeStore } from '../notices.ts'
import type { BatchKey, NewJob } from '../store.ts'
import type { Connection } from './connection.ts'
import type { SqliteContext } from './context.ts'

/** Where every part of the store leaves what is to be told, inside its own transaction. */
export function openOutbox(connection: Connection) {
  const last = connection.prepare(`
    SELECT seq, at, until, repeats FROM notices WHERE kind = ?1 AND cause = ?2 AND channels = ?3
    ORDER BY seq DESC LIMIT 1`)
  const count = connection.prepare('UPDATE notices SET repeats = repeats + 1, last_at = ?2 WHERE seq = ?1')
  const add = connection.prepare(`
    INSERT INTO notices (at, kind, channels, subject, cause, until, last_at, earlier, earlier_at, data)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?1, ?7, ?8, ?9)`)
  const addWait = connection.prepare('INSERT INTO notice_waits (channel, notice) VALUES (?, ?)')
  const findBatch = connection.prepare('SELECT id, name FROM batches WHERE key = ?')

  const tell = (notice: NewNotice, batch: BatchKey | null, nowMs: number): AddedNotice => {
    const kind = kindOf(notice.content)
    const names = sortedSet(notice.channels)
    const channels = JSON.stringify(names)
    const before =
      notice.windowMs === 0 ? undefined : (last.get(kind, notice.cause, channels) as LastNoticeRow | undefined)
    const counted = before && { atMs: before.at, untilMs: before.until, repeats: before.repeats }
    const decided = tellOrCount(notice, counted ?? null, nowMs)
    if (decided.count) {
      const { seq } = before as { seq: number }
      count.run(seq, nowMs)
      return { seq, isNew: false }
    }
    const content =
      batch === null ? notice.content : inBatch(notice.content, findBatch.get(batch) as NoticeJob['batch'])
    const { untilMs, earlier, earlierAtMs } = decided
    const { subject, cause } = notice
    const data = JSON.stringify(content)
    const added = add.run(nowMs, kind, channels, subject, cause, untilMs, earlier, earlierAtMs, data)
    const seq = Number(added.lastInsertRowid)
    for (const channel of names) addWait.run(channel, seq)
    return { seq, isNew: true }
  }

  return {
    tell(notices: readonly NewNotice[] | undefined, batch: BatchKey | null, nowMs: number): AddedNotice[] {
      return notices === undefined ? [] : notices.map((notice) => tell(notice, batch, nowMs))
    },
  }
}

const COLUMNS = `notices.*, (SELECT json_group_array(channel) FROM notice_waits WHERE notice = notices.seq) AS waiting`

export function openNotices(
  { connection, history, nowMs, read, write, hintWork }: SqliteContext,
  submit: (job: NewJob, nowMs: number) => unknown,
): NoticeStore {
  const list = connection.prepare(`SELECT ${COLUMNS} FROM notices WHERE seq < ? ORDER BY seq DESC LIMIT ?`)
  const listWaiting = connection.prepare(
    `SELECT ${COLUMNS} FROM notices WHERE relayed_at IS NULL AND seq < ? ORDER BY seq DESC LIMIT ?`,
  )
  const waitingFor = connection.prepare(`
    SELECT ${COLUMNS} FROM notice_waits JOIN notices ON notices.seq = notice_waits.notice
    WHERE channel = ? ORDER BY notice LIMIT ?`)
  const isAnyWaiting = connection.prepare('SELECT 1 FROM notice_waits WHERE channel = ? LIMIT 1')
  const endWait = connection.prepare('DELETE FROM notice_waits WHERE channel = ? AND notice = ?')
  const markRelayed = connection.prepare(`
    UPDATE notices SET relayed_at = ?2
    WHERE seq = ?1 AND NOT EXISTS (SELECT 1 FROM notice_waits WHERE notice = ?1)`)
  const old = connection.prepare('SELECT seq FROM notices WHERE relayed_at < ?1 AND until <= ?2 ORDER BY seq LIMIT ?3')
  // Compared again: a repeat may have been counted on it since it was found.
  const forget = connection.prepare('DELETE FROM notices WHERE seq = ?1 AND relayed_at < ?2 AND until <= ?3')

  const relay = (channel: string, limit: number): number => {
    const atMs = nowMs()
    const rows = waitingFor.all(channel, limit) as unknown as NoticeRow[]
    for (const row of rows) {
      submit(deliveryOf(noticeFromRow(row), channel), atMs)
      endWait.run(channel, row.seq)
      markRelayed.run(row.seq, atMs)
    }
    if (rows.length > 0) hintWork()
    return rows.length
  }

  return {
    addNotices: ({ notices, by }) =>
      write('adding notices', () => {
        const atMs = nowMs()
        const added = history.tell(notices, null, atMs)
        if (by !== undefined) {
          const ids = added.map(({ seq }) => String(seq))
          history.audit(by, { atMs, act: by.act, target: 'notice', ids })
        }
        return added
      }),

    notices: ({ isWaiting = false, beforeSeq = Number.MAX_SAFE_INTEGER, limit }: NoticeFilter) =>
      read('listing notices', () => {
        const rows = (isWaiting ? listWaiting : list).all(beforeSeq, limit) as unknown as NoticeRow[]
        return rows.map(noticeFromRow)
      }),

    async relayNotices({ channels, limit }) {
      // Looked for first: nobody may take the write lock every second only to find that there is nothing to do.
      const isWaiting = (channel: string) => isAnyWaiting.get(channel) !== undefined
      const waited = await read('looking for notices', () => channels.filter(isWaiting))
      if (waited.length === 0) return 0
      return write('relaying notices', () => waited.reduce((sum, channel) => sum + relay(channel, limit - sum), 0))
    },

    async forgetNotices({ keptMs, limit }) {
      const find = () => old.all(nowMs() - keptMs, nowMs(), limit) as { seq: number }[]
      const found = await read('looking for old notices', find)
      if (found.length === 0) return 0
      return write('forgetting notices', () => {
        const atMs = nowMs()
        return found.reduce((sum, { seq }) => sum + Number(forget.run(seq, atMs - keptMs, atMs).changes), 0)
      })
    },
  }
}
