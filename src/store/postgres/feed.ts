import { FEED_SCAN_MAX, type FeedFilter, type FeedStore } from '../feed.ts'
import { type FeedRow, feedEventOf, pageOf } from '../feed-rows.ts'
import type { KnownType } from '../known-type.ts'
import type { Sql } from './client.ts'
import type { PgContext } from './context.ts'

/**
 * The highest number of an event up to which everything has happened: no transaction that is still under way has a
 * number up to it, and none will get one. Numbers are given before the commit, so that a later one is often
 * visible before an earlier one; whoever reads on from the last number that was seen must not read beyond this.
 *
 * To be asked in a statement of its own, before the one that reads. A transaction that stays open after it has written
 * (a caller's own, in `submitIn`) holds it back until it ends: that is the price of numbers that can be read in order.
 */
async function settledTo(sql: Sql): Promise<number> {
  const [row] = await sql<{ seq: number }[]>`SELECT settled_to('events') AS seq`
  return (row as { seq: number }).seq
}

export function openFeed({ types, read, wakes }: PgContext): FeedStore {
  const wanted = (sql: Sql, { jobs, types, queues, owners, batches, subjects, hasSchedules }: FeedFilter) => sql`
    AND (events.subject = ANY(${[...subjects]}::text[])
      OR job_specs.id = ANY(${[...jobs]}::text[])
      OR job_specs.owner = ANY(${[...owners]}::text[])
      OR job_specs.type IN (SELECT key FROM job_types
        WHERE name = ANY(${[...types]}::text[]) OR queue = ANY(${[...queues]}::text[]))
      OR batches.id = ANY(${[...batches]}::text[])
      OR (${hasSchedules}::boolean AND events.data LIKE '%"schedule":%'))`

  /** How far a page of a filtered feed scans. */
  const scanEnd = async (sql: Sql, afterSeq: number, settledSeq: number): Promise<number> => {
    const [row] = await sql<{ seq: number }[]>`
      SELECT seq FROM events WHERE seq > ${afterSeq} AND seq <= ${settledSeq}
      ORDER BY seq LIMIT 1 OFFSET ${FEED_SCAN_MAX - 1}`
    return row?.seq ?? settledSeq
  }

  const page = async (
    sql: Sql,
    afterSeq: number,
    limit: number,
    toSeq: number,
    only?: FeedFilter,
  ): Promise<FeedRow[]> => {
    // With the events in one statement: they must be seen as they stand at one and the same moment.
    return sql<FeedRow[]>`
      SELECT page.*, removed.position AS removed_to
      FROM (SELECT (SELECT position FROM cursors WHERE name = 'removed_events') AS position) AS removed
        LEFT JOIN LATERAL (
          SELECT events.seq, events.at, events.kind, events.job, events.attempt, events.data, events.subject,
            job_specs.id AS job_id, job_specs.type, job_specs.owner, job_specs.retried_from, batches.id AS batch_id
          FROM events LEFT JOIN job_specs ON job_specs.key = events.job
            LEFT JOIN batches ON batches.key = job_specs.batch
          WHERE events.seq > ${afterSeq} AND events.seq <= ${toSeq} ${only === undefined ? sql`` : wanted(sql, only)}
          ORDER BY events.seq LIMIT ${limit}
        ) AS page ON true
      ORDER BY page.seq`
  }

  /** The failures that these events are about. They are read here, not in SQL, whose JSON knows no \u0000. */
  const failuresOf = async (sql: Sql, rows: readonly FeedRow[]): Promise<Map<number, FeedRow>> => {
    const seqs = rows.flatMap(({ subject, data }) => (subject === null ? (failureIn(data) ?? []) : []))
    if (seqs.length === 0) return new Map()
    const found = await sql<FeedRow[]>`
      SELECT seq, code, message, waiting FROM failures WHERE seq = ANY(${seqs}::bigint[])`
    return new Map(found.map((row) => [row.seq as number, row]))
  }

  return {
    feed: ({ afterSeq, limit, only }) =>
      read('reading the feed', async (sql) => {
        const lastSeq = await settledTo(sql)
        const toSeq = only === undefined ? lastSeq : await scanEnd(sql, afterSeq, lastSeq)
        const found = await page(sql, afterSeq, limit, toSeq, only)
        const rows = found.filter(({ seq }) => seq !== null)
        const failures = await failuresOf(sql, rows)
        const needed = new Set(rows.flatMap(({ type }) => (type === null ? [] : [type as number])))
        const typeOf = new Map<number, KnownType>()
        for (const key of needed) typeOf.set(key, await types.byKey(key))
        return pageOf({
          rows,
          events: rows.flatMap((row) => {
            const { code = null, message = null, waiting = null } = failures.get(failureIn(row.data) ?? 0) ?? {}
            return feedEventOf({ ...row, code, message, waiting }, (key) => typeOf.get(key) as KnownType)
          }),
          afterSeq,
          limit,
          toSeq: only === undefined ? null : toSeq,
          lastSeq,
          removedTo: found[0]?.removed_to as number | null | undefined,
        })
      }),

    lastSeq: () =>
      read('reading the feed', async (sql) => {
        const toSeq = await settledTo(sql)
        // Also when it was removed: its number was the newest all the same.
        const [row] = await sql<{ seq: number }[]>`
          SELECT greatest((SELECT max(seq) FROM events WHERE seq <= ${toSeq}),
            (SELECT least(position, ${toSeq}) FROM cursors WHERE name = 'removed_events'), 0) AS seq`
        return (row as { seq: number }).seq
      }),

    onCommit: wakes.onCommit,
  }
}

const failureIn = (data: FeedRow[string] | undefined): number | null =>
  typeof data === 'string' ? ((JSON.parse(data) as { failure?: number }).failure ?? null) : null
