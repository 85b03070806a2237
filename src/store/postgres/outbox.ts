import { createHash } from 'node:crypto'
import { inBatch, kindOf, type NewNotice, type NoticeJob, sortedSet, tellOrCount } from '../../core/notices.ts'
import type { LastNoticeRow } from '../notice-rows.ts'
import type { AddedNotice } from '../notices.ts'
import type { BatchKey } from '../store.ts'
import type { Tx } from './client.ts'
import type { PgContext } from './context.ts'
import { printable } from './text.ts'

/** Notices that come with one change, and the batch of the job that was changed. */
export interface Told {
  notices: readonly NewNotice[] | undefined
  batch: BatchKey | null
}

/** What was told last of one cause. */
interface Latest {
  /** 0 until it is added. */
  seq: number
  atMs: number
  untilMs: number
  repeats: number
}

interface Keyed {
  notice: NewNotice
  kind: string
  names: readonly string[]
  channels: string
  key: string
}

interface NewRow extends Keyed {
  batch: BatchKey | null
  latest: Latest
  earlier: number
  earlierAtMs: number | null
}

/** Where every part of the store leaves what is to be told, inside its own transaction. */
export function openOutbox(now: PgContext['now']) {
  const tellAll = async (tx: Tx, told: readonly Told[], nowMs: number): Promise<AddedNotice[]> => {
    const all = told.flatMap(({ notices = [], batch }) => notices.map((notice) => ({ ...keyed(notice), batch })))
    if (all.length === 0) return []
    const counted = all.filter(({ notice }) => notice.windowMs > 0)
    const latestOf = counted.length === 0 ? new Map<string, Latest>() : await lockLatest(tx, counted)
    // Asked again, for it may have waited: the one that it waited for must not seem to be of a time to come.
    const atMs = counted.length === 0 ? nowMs : await now(tx)

    const added: NewRow[] = []
    const counts = new Map<Latest, number>()
    const answers = all.map((one): { latest: Latest; isNew: boolean } => {
      const before = one.notice.windowMs === 0 ? null : (latestOf.get(one.key) ?? null)
      const decided = tellOrCount(one.notice, before, atMs)
      if (decided.count) {
        const latest = before as Latest
        latest.repeats++
        if (latest.seq !== 0) counts.set(latest, (counts.get(latest) ?? 0) + 1)
        return { latest, isNew: false }
      }
      const { untilMs, earlier, earlierAtMs } = decided
      const latest = { seq: 0, atMs, untilMs, repeats: 0 }
      added.push({ ...one, latest, earlier, earlierAtMs })
      // The later ones of the same cause are compared with this one.
      latestOf.set(one.key, latest)
      return { latest, isNew: true }
    })

    await add(tx, added, atMs)
    if (counts.size > 0) {
      const rows = [...counts].map(([{ seq }, count]) => ({ seq, count })).toSorted((a, b) => a.seq - b.seq)
      await tx`
        UPDATE notices SET repeats = repeats + more.count, last_at = ${atMs}
        FROM unnest(${rows.map(({ seq }) => seq)}::bigint[], ${rows.map(({ count }) => count)}::bigint[])
          AS more (seq, count)
        WHERE notices.seq = more.seq`
    }
    return answers.map(({ latest, isNew }) => ({ seq: latest.seq, isNew }))
  }

  return {
    /** In one call for all that a transaction tells: who tells of several causes takes their locks in one order. */
    tellAll,

    tell: (tx: Tx, notices: readonly NewNotice[] | undefined, batch: BatchKey | null, nowMs: number) =>
      tellAll(tx, [{ notices, batch }], nowMs),
  }
}

/**
 * The last one of each cause. Until the end of the transaction nobody else tells of these causes: there may be no row
 * yet that could be locked.
 */
async function lockLatest(tx: Tx, wanted: readonly Keyed[]): Promise<Map<string, Latest>> {
  const distinct = [...new Map(wanted.map((one) => [one.key, one])).values()].toSorted((a, b) =>
    a.key < b.key ? -1 : 1,
  )
  const keys = distinct.map(({ key }) => key)
  await tx`SELECT pg_advisory_xact_lock(key) FROM unnest(${keys}::bigint[]) AS key`
  // Locked, so that it is not forgotten while something is counted on it.
  const rows = await tx<(LastNoticeRow & { i: number })[]>`
    SELECT wanted.i, last.seq, last.at, last.until, last.repeats
    FROM unnest(${distinct.map(({ kind }) => kind)}::text[], ${distinct.map(({ notice }) => notice.cause)}::text[],
        ${distinct.map(({ channels }) => channels)}::text[]) WITH ORDINALITY AS wanted (kind, cause, channels, i),
      LATERAL (
        SELECT seq, at, until, repeats FROM notices
        WHERE md5(kind || ' ' || cause || ' ' || channels) = md5(wanted.kind || ' ' || wanted.cause || ' ' || wanted.channels)
          AND kind = wanted.kind AND cause = wanted.cause AND channels = wanted.channels
        ORDER BY seq DESC LIMIT 1 FOR UPDATE
      ) AS last`
  return new Map(
    rows.map(({ i, seq, at, until, repeats }) => [
      distinct[i - 1]?.key as string,
      { seq, atMs: at, untilMs: until, repeats },
    ]),
  )
}

async function add(tx: Tx, rows: readonly NewRow[], atMs: number): Promise<void> {
  if (rows.length === 0) return
  const keys = [...new Set(rows.flatMap(({ batch }) => (batch === null ? [] : [batch])))]
  const batches = new Map<number, NoticeJob['batch']>()
  if (keys.length > 0) {
    const found = await tx<{ key: number; id: string; name: string }[]>`
      SELECT key, id, name FROM batches WHERE key = ANY(${keys}::bigint[])`
    for (const { key, id, name } of found) batches.set(key, { id, name })
  }
  const contentOf = ({ notice, batch }: NewRow) =>
    batch === null ? notice.content : inBatch(notice.content, batches.get(batch) ?? null)
  const added = await tx<{ seq: number }[]>`
    INSERT INTO notices (at, kind, channels, subject, cause, until, last_at, repeats, earlier, earlier_at, data)
    SELECT ${atMs}, kind, channels, subject, cause, until, ${atMs}, repeats, earlier, earlier_at, data
    FROM unnest(
        ${rows.map(({ kind }) => kind)}::text[], ${rows.map(({ channels }) => channels)}::text[],
        ${rows.map(({ notice }) => notice.subject)}::text[], ${rows.map(({ notice }) => notice.cause)}::text[],
        ${rows.map(({ latest }) => latest.untilMs)}::bigint[],
        ${rows.map(({ latest }) => latest.repeats)}::bigint[], ${rows.map(({ earlier }) => earlier)}::bigint[],
        ${rows.map(({ earlierAtMs }) => earlierAtMs)}::bigint[],
        ${rows.map((row) => JSON.stringify(contentOf(row)))}::text[])
      WITH ORDINALITY AS one (kind, channels, subject, cause, until, repeats, earlier, earlier_at, data, i)
    ORDER BY i RETURNING seq`
  for (const [i, { latest }] of rows.entries()) latest.seq = (added[i] as { seq: number }).seq
  const waits = rows.flatMap(({ names, latest }) => names.map((channel) => ({ channel, seq: latest.seq })))
  await tx`
    INSERT INTO notice_waits (channel, notice)
    SELECT * FROM unnest(${waits.map(({ channel }) => channel)}::text[], ${waits.map(({ seq }) => seq)}::bigint[])`
}

/** `key`: the name of the lock that all share who tell of the same cause. */
function keyed(given: NewNotice): Keyed {
  const notice = { ...given, subject: printable(given.subject), cause: printable(given.cause) }
  const kind = kindOf(notice.content)
  const names = sortedSet(notice.channels)
  const channels = JSON.stringify(names)
  return { notice, kind, names, channels, key: causeKey(kind, notice.cause, channels) }
}

/** `channels` as they are stored. A text: it is larger than a number can be. */
export const causeKey = (kind: string, cause: string, channels: string): string =>
  createHash('sha256')
    .update(JSON.stringify([kind, cause, channels]))
    .digest()
    .readBigInt64BE()
    .toString()
