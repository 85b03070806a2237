import { deliveryOf, type NoticeRow, noticeFromRow } from '../notice-rows.ts'
import type { NoticeStore } from '../notices.ts'
import type { NewJob } from '../store.ts'
import type { Sql, Tx } from './client.ts'
import type { PgContext } from './context.ts'

const columns = (sql: Sql) => sql`
  notices.*, coalesce((SELECT json_agg(channel) FROM notice_waits WHERE notice = notices.seq), '[]'::json)::text AS waiting`

export function openNotices(
  { history, read, write, hintWork }: PgContext,
  submitMany: (tx: Tx, jobs: readonly NewJob[], nowMs: number) => Promise<unknown>,
): NoticeStore {
  /** In the order of their numbers. */
  const waitingFor = async (tx: Tx, channel: string, limit: number) => {
    const rows = await tx<NoticeRow[]>`
      SELECT ${columns(tx)} FROM notice_waits JOIN notices ON notices.seq = notice_waits.notice
      WHERE channel = ${channel} ORDER BY notice LIMIT ${limit}`
    return rows.map((row) => ({ channel, notice: noticeFromRow(row) }))
  }

  return {
    addNotices: ({ notices, by }) =>
      write('adding notices', async (tx, nowMs) => {
        const added = await history.tell(tx, notices, null, nowMs)
        if (by !== undefined) {
          const ids = added.map(({ seq }) => String(seq))
          await history.audit(tx, by, { atMs: nowMs, act: by.act, target: 'notice', ids })
        }
        return added
      }),

    notices: ({ isWaiting = false, beforeSeq = Number.MAX_SAFE_INTEGER, limit }) =>
      read('listing notices', async (sql) => {
        const rows = await sql<NoticeRow[]>`
          SELECT ${columns(sql)} FROM notices
          WHERE seq < ${beforeSeq} ${isWaiting ? sql`AND relayed_at IS NULL` : sql``} ORDER BY seq DESC LIMIT ${limit}`
        return rows.map(noticeFromRow)
      }),

    async relayNotices({ channels, limit }) {
      // Looked for first: nobody may wait for the others every second only to find that there is nothing to do.
      const waited = await read(
        'looking for notices',
        (sql) => sql<{ channel: string }[]>`
          SELECT channel FROM unnest(${[...channels]}::text[]) WITH ORDINALITY AS asked (channel, i)
          WHERE EXISTS (SELECT 1 FROM notice_waits WHERE notice_waits.channel = asked.channel) ORDER BY i`,
      )
      if (waited.length === 0) return 0
      return write(
        'relaying notices',
        async (tx, nowMs) => {
          const relayed: Awaited<ReturnType<typeof waitingFor>> = []
          for (const { channel } of waited) {
            if (relayed.length < limit) relayed.push(...(await waitingFor(tx, channel, limit - relayed.length)))
          }
          if (relayed.length === 0) return 0
          const jobs = relayed.map(({ notice, channel }) => deliveryOf(notice, channel))
          await submitMany(tx, jobs, nowMs)
          const seqs = relayed.map(({ notice }) => notice.seq)
          await tx`
            DELETE FROM notice_waits USING unnest(${relayed.map(({ channel }) => channel)}::text[], ${seqs}::bigint[])
              AS relayed (channel, notice)
            WHERE notice_waits.channel = relayed.channel AND notice_waits.notice = relayed.notice`
          await tx`
            UPDATE notices SET relayed_at = ${nowMs}
            WHERE seq = ANY(${seqs}::bigint[]) AND NOT EXISTS (SELECT 1 FROM notice_waits WHERE notice = notices.seq)`
          hintWork(tx)
          return relayed.length
        },
        'notices',
      )
    },

    async forgetNotices({ keptMs, limit }) {
      const found = await read('looking for old notices', async (sql, nowMs) => {
        const atMs = await nowMs()
        return sql<{ seq: number }[]>`
          SELECT seq FROM notices WHERE relayed_at < ${atMs - keptMs} AND until <= ${atMs} ORDER BY seq LIMIT ${limit}`
      })
      if (found.length === 0) return 0
      return write('forgetting notices', async (tx, nowMs) => {
        // Compared again: a repeat may have been counted on it since it was found.
        const { count } = await tx`
          DELETE FROM notices
          WHERE seq = ANY(${found.map(({ seq }) => seq)}::bigint[]) AND relayed_at < ${nowMs - keptMs} AND until <= ${nowMs}`
        return count
      })
    },
  }
}
