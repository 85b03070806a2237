import {
  inBatch,
  kindOf,
  type NewNotice,
  type NoticeContent,
  type NoticeJob,
  noticeOf,
  sendOrCount,
  sortedSet,
  typeOfChannel,
} from '../../core/notice/notice.ts'
import type { AddedNotice, NoticeStore, StoredNotice } from '../contract/notices.ts'
import type { BatchKey, NewJob } from '../contract/store.ts'
import { derivedId } from './derived-id.ts'
import type { ScriptContext, Tx } from './tx/context.ts'
import type { Script } from './tx/script.ts'
import { type Dialect, NONE, type Sql, sql } from './tx/sql.ts'

/** Lists and objects are stored as JSON. */
type NoticeRow = Omit<StoredNotice, 'channels' | 'waiting' | 'content'> & {
  channels: string
  waiting: string
  content: string
}

const noticeFromRow = ({ channels, waiting, content, ...row }: NoticeRow): StoredNotice => ({
  ...row,
  channels: JSON.parse(channels) as string[],
  waiting: (JSON.parse(waiting) as string[]).sort(),
  content: JSON.parse(content) as NoticeContent,
})

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
  notices.seq, notices.at AS "atMs", kind, subject, cause, channels, repeats, last_at AS "lastAtMs", until AS "untilMs",
  earlier, earlier_at AS "earlierAtMs", relayed_at AS "relayedAtMs", data AS content,
  (SELECT ${jsonArray(sql`channel`)} FROM notice_waits WHERE notice = notices.seq) AS waiting`

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
    tx.wakeWorkers()
    return notices.length
  }

  return {
    addNotices: ({ notices, by }) =>
      write('adding notices', function* (tx, nowMs) {
        const added = yield* history.notify(tx, notices, null, nowMs)
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

/** Notices that come with one change, and the batch of the job that was changed. */
export interface ChangeNotices {
  notices: readonly NewNotice[] | undefined
  batch: BatchKey | null
}

/** The newest notice of one cause. */
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
  /** JSON, as it is stored. */
  channels: string
  /** Equal for notices of the same cause. Also the name of their lock. */
  key: string
}

interface NewRow extends Keyed {
  batch: BatchKey | null
  latest: Latest
  earlier: number
  earlierAtMs: number | null
}

/**
 * Leaves notices in the outbox, as part of the transaction that they tell of. One call for all notices of a transaction:
 * the locks of several causes are taken in one order.
 */
export function* notifyAll(tx: Tx, told: readonly ChangeNotices[], nowMs: number): Script<AddedNotice[]> {
  const all = told.flatMap(({ notices = [], batch }) => notices.map((notice) => ({ ...keyed(notice), batch })))
  if (all.length === 0) return []
  const counted = all.filter(({ notice }) => notice.windowMs > 0)
  const latestOf = yield* lockLatest(tx, counted)
  // Read again after a wait for the lock: otherwise the notice that this one waited for would seem to be of the future.
  const atMs = counted.length === 0 ? nowMs : yield* tx.now()

  const added: NewRow[] = []
  const counts = new Map<Latest, number>()
  const answers = all.map((one): { latest: Latest; isNew: boolean } => {
    const before = one.notice.windowMs === 0 ? null : (latestOf.get(one.key) ?? null)
    const decided = sendOrCount(one.notice, before, atMs)
    if (decided.count) {
      const latest = before as Latest
      latest.repeats++
      if (latest.seq !== 0) counts.set(latest, (counts.get(latest) ?? 0) + 1)
      return { latest, isNew: false }
    }
    const { untilMs, earlier, earlierAtMs } = decided
    const latest = { seq: 0, atMs, untilMs, repeats: 0 }
    added.push({ ...one, latest, earlier, earlierAtMs })
    // Later notices of the same cause are compared with this one.
    latestOf.set(one.key, latest)
    return { latest, isNew: true }
  })

  yield* add(tx, added, atMs)
  if (counts.size > 0) {
    const rows = [...counts].map(([{ seq }, count]) => ({ seq, count })).toSorted((a, b) => a.seq - b.seq)
    yield* tx.run`
      UPDATE notices SET repeats = repeats + more.count, last_at = ${atMs}
      FROM ${tx.dialect.table({ seq: 'bigint', count: 'bigint' }, rows)} AS more WHERE notices.seq = more.seq`
  }
  return answers.map(({ latest, isNew }) => ({ seq: latest.seq, isNew }))
}

/** The newest notice of each cause. A lock by name, because the first notice of a cause has no row to lock. */
function* lockLatest(tx: Tx, wanted: readonly Keyed[]): Script<Map<string, Latest>> {
  if (wanted.length === 0) return new Map()
  const distinct = [...new Map(wanted.map((one) => [one.key, one])).values()]
  yield* tx.lock(distinct.map(({ key }) => `notice ${key}`))
  const table = tx.dialect.table(
    { kind: 'text', cause: 'text', channels: 'text' },
    distinct.map(({ kind, notice, channels }) => ({ kind, cause: notice.cause, channels })),
  )
  // In the words of the index.
  const ofCause = tx.dialect.choose({
    sqlite: NONE,
    postgres: sql`md5(kind || ' ' || cause || ' ' || channels)
      = md5(wanted.kind || ' ' || wanted.cause || ' ' || wanted.channels) AND`,
  })
  // The row is locked: it must not be forgotten while a repeat is counted on it.
  const rows = yield* tx.all<{ i: number; seq: number; at: number; until: number; repeats: number }>`
    SELECT wanted.i, latest.seq, latest.at, latest.until, latest.repeats
    FROM ${table} AS wanted CROSS JOIN notices AS latest WHERE latest.seq = (
      SELECT seq FROM notices
      WHERE ${ofCause} kind = wanted.kind AND cause = wanted.cause AND channels = wanted.channels
      ORDER BY seq DESC LIMIT 1)
    ${tx.dialect.choose({ sqlite: NONE, postgres: sql`FOR UPDATE OF latest` })}`
  return new Map(
    rows.map(({ i, seq, at, until, repeats }) => [
      distinct[i - 1]?.key as string,
      { seq, atMs: at, untilMs: until, repeats },
    ]),
  )
}

function* add(tx: Tx, rows: readonly NewRow[], atMs: number): Script<void> {
  if (rows.length === 0) return
  const keys = [...new Set(rows.flatMap(({ batch }) => (batch === null ? [] : [batch])))]
  const batches = new Map<number, NoticeJob['batch']>()
  if (keys.length > 0) {
    const found = yield* tx.all<{ key: number; id: string; name: string }>`
      SELECT key, id, name FROM batches WHERE key ${tx.dialect.inNumbers(keys)}`
    for (const { key, id, name } of found) batches.set(key, { id, name })
  }
  const contentOf = ({ notice, batch }: NewRow) =>
    batch === null ? notice.content : inBatch(notice.content, batches.get(batch) ?? null)
  const table = tx.dialect.table(
    {
      ...{ kind: 'text', channels: 'text', subject: 'text', cause: 'text', until: 'bigint', repeats: 'bigint' },
      ...{ earlier: 'bigint', earlier_at: 'bigint', data: 'text' },
    },
    rows.map((row) => ({
      ...{ kind: row.kind, channels: row.channels, subject: row.notice.subject, cause: row.notice.cause },
      ...{ until: row.latest.untilMs, repeats: row.latest.repeats, earlier: row.earlier, earlier_at: row.earlierAtMs },
      data: JSON.stringify(contentOf(row)),
    })),
  )
  const added = yield* tx.all<{ seq: number }>`
    INSERT INTO notices (at, kind, channels, subject, cause, until, last_at, repeats, earlier, earlier_at, data)
    SELECT ${atMs}, kind, channels, subject, cause, until, ${atMs}, repeats, earlier, earlier_at, data
    FROM ${table} AS given ORDER BY i RETURNING seq`
  const seqs = added.map(({ seq }) => seq).toSorted((a, b) => a - b)
  for (const [i, { latest }] of rows.entries()) latest.seq = seqs[i] as number
  const waits = rows.flatMap(({ names, latest }) => names.map((channel) => ({ channel, notice: latest.seq })))
  yield* tx.run`
    INSERT INTO notice_waits (channel, notice)
    SELECT channel, notice FROM ${tx.dialect.table({ channel: 'text', notice: 'bigint' }, waits)} AS given`
}

function keyed(notice: NewNotice): Keyed {
  const kind = kindOf(notice.content)
  const names = sortedSet(notice.channels)
  const channels = JSON.stringify(names)
  return { notice, kind, names, channels, key: JSON.stringify([kind, notice.cause, channels]) }
}
