import { type EventData, statusAfter } from '../../core/job/events.ts'
import { FEED_SCAN_MAX, type FeedEvent, type FeedFilter, type FeedStore, type JobFeedEvent } from '../contract/feed.ts'
import type { ActorAndReason } from '../contract/store.ts'
import { toEventNumber, toRowNumber } from './history.ts'
import { REMOVED_EVENTS } from './jobs/pruning.ts'
import { eventRowsOf, parse, type Row } from './jobs/rows.ts'
import type { KnownType } from './jobs/types.ts'
import type { ScriptContext, Tx } from './tx/context.ts'
import type { Script } from './tx/script.ts'
import { NONE, type Sql, sql } from './tx/sql.ts'

/**
 * The highest number up to which no event can still appear. PostgreSQL gives numbers before the commit, so that a later
 * number is often visible before an earlier one: a reader that continues from the last number must not read beyond this.
 *
 * It must be asked in a statement of its own, before the one that reads. A transaction that stays open after it has
 * written (a caller's own, in `submitIn`) holds it back until it ends.
 */
const SETTLED = {
  sqlite: sql`SELECT coalesce(max(seq), 0) AS seq FROM events`,
  postgres: sql`SELECT settled_to('events') AS seq`,
}

/** The newest event, even if it was removed. SQLite gives the number of a removed newest event again. */
const newestOf = {
  sqlite: (toSeq: number): Sql => sql`SELECT CAST(${toSeq} AS bigint) AS seq`,
  postgres: (toSeq: number): Sql => sql`
    SELECT greatest((SELECT max(seq) FROM events WHERE seq <= ${toSeq}),
      (SELECT least(position, ${toSeq}) FROM cursors WHERE name = ${REMOVED_EVENTS}), 0) AS seq`,
}

/**
 * In the row of a job, owner and batch come after the payload, which may be large, and most rows do not match. So SQLite
 * looks them up in their indexes.
 */
const MATCHES = {
  sqlite: {
    owner: (isOne: Sql) => sql`EXISTS (
      SELECT 1 FROM job_specs AS owned INDEXED BY specs_of_owner WHERE owned.owner ${isOne} AND owned.key = events.job)`,
    batch: (isOne: Sql) => sql`EXISTS (
      SELECT 1 FROM job_specs AS member INDEXED BY specs_of_batch
      WHERE member.batch IN (SELECT key FROM batches WHERE id ${isOne}) AND member.key = events.job)`,
  },
  postgres: {
    owner: (isOne: Sql) => sql`job_specs.owner ${isOne}`,
    batch: (isOne: Sql) => sql`batches.id ${isOne}`,
  },
}

function matches({ dialect }: Tx, only: FeedFilter): Sql {
  const { jobs, types, queues, owners, batches, subjects, hasSchedules } = only
  const match = dialect.choose(MATCHES)
  const any = (texts: readonly string[], condition: (isOne: Sql) => Sql): Sql[] =>
    texts.length === 0 ? [] : [condition(dialect.inTexts(texts))]
  const ofType = (column: Sql) => (isOne: Sql) =>
    sql`job_specs.type IN (SELECT key FROM job_types WHERE ${column} ${isOne})`
  const conditions = [
    ...any(subjects, (isOne) => sql`events.subject ${isOne}`),
    ...any(jobs, (isOne) => sql`job_specs.id ${isOne}`),
    ...any(types, ofType(sql`name`)),
    ...any(queues, ofType(sql`queue`)),
    ...any(owners, match.owner),
    ...any(batches, match.batch),
    ...(hasSchedules ? [sql`events.data LIKE '%"schedule":%'`] : []),
    // They are few, and `isWanted` looks at them: what they are about is in their data.
    sql`events.kind = 'deleted' AND events.subject IS NOT NULL`,
  ]
  return conditions.reduce((one, other) => sql`${one} OR ${other}`, sql`false`)
}

export function openFeed(
  { types, read }: Pick<ScriptContext, 'types' | 'read'>,
  onCommit: FeedStore['onCommit'],
): FeedStore {
  const settledTo = function* (tx: Tx): Script<number> {
    const row = yield* tx.get<{ seq: number }>`${tx.dialect.choose(SETTLED)}`
    return (row as { seq: number }).seq
  }

  /** How far a page of a filtered feed scans. */
  const scanEnd = function* (tx: Tx, afterSeq: number, lastSeq: number): Script<number> {
    const row = yield* tx.get<{ seq: number }>`
      SELECT seq FROM events WHERE seq > ${afterSeq} AND seq <= ${lastSeq}
      ORDER BY seq LIMIT 1 OFFSET ${FEED_SCAN_MAX - 1}`
    return row?.seq ?? lastSeq
  }

  /** The failures that these events name. Read by their numbers, because PostgreSQL's JSON rejects \u0000. */
  const failuresOf = function* (tx: Tx, rows: readonly Row[]): Script<Map<number, Row>> {
    const seqs = rows.flatMap((row) => (row.subject === null ? (dataOf(row).failure ?? []) : []))
    if (seqs.length === 0) return new Map()
    const found = yield* tx.all<Row>`
      SELECT seq, code, message, waiting FROM failures WHERE seq ${tx.dialect.inNumbers(seqs)}`
    return new Map(found.map((row) => [row.seq as number, row]))
  }

  return {
    feed: ({ afterSeq: afterEvent, limit, only }) =>
      read('reading the feed', function* (tx) {
        const afterSeq = toRowNumber(afterEvent)
        const lastSeq = yield* settledTo(tx)
        const toSeq = only === undefined ? lastSeq : yield* scanEnd(tx, afterSeq, lastSeq)
        // The removed number is read in the same statement: both must be of one moment.
        const found = yield* tx.all<Row>`
          SELECT page.*, removed.position AS removed_to
          FROM (SELECT (SELECT position FROM cursors WHERE name = ${REMOVED_EVENTS}) AS position) AS removed
            LEFT JOIN (
              SELECT events.seq, events.at, events.kind, events.job, events.attempt, events.data, events.claimed_at,
                events.subject,
                job_specs.id AS job_id, job_specs.type, job_specs.owner, job_specs.retried_from, batches.id AS batch_id
              FROM events LEFT JOIN job_specs ON job_specs.key = events.job
                LEFT JOIN batches ON batches.key = job_specs.batch
              WHERE events.seq > ${afterSeq} AND events.seq <= ${toSeq}
                ${only === undefined ? NONE : sql`AND (${matches(tx, only)})`}
              ORDER BY events.seq LIMIT ${limit}) AS page ON true
          ORDER BY page.seq`
        const rows = found.filter(({ seq }) => seq !== null)
        const told = rows.flatMap(eventRowsOf).filter(({ seq }) => (seq as number) > afterEvent)
        const failures = yield* failuresOf(tx, rows)
        const events: FeedEvent[] = []
        // A row can tell of two events.
        const shown = told.slice(0, limit)
        for (const row of shown) {
          const { subject, kind, job_id, type } = row
          if (kind === 'deleted') {
            const event = deletedEventOf(row)
            if (only === undefined || isWanted(event, only)) events.push(event)
          } else if (subject !== null) {
            events.push({ ...placeOf(row), subject: String(subject), kind: String(kind), data: { ...dataOf(row) } })
          } else if (job_id !== null) {
            // Else the job was removed, and only its last event is kept.
            const failure = failures.get(dataOf(row).failure ?? 0)
            events.push(jobEventOf(row, yield* types.byKey(tx, type as number), failure))
          }
        }
        const isFull = rows.length === limit || told.length > limit
        const readTo = (shown.at(-1)?.seq as number | undefined) ?? afterEvent
        const removedTo = toEventNumber((found[0]?.removed_to ?? 0) as number)
        return {
          events,
          nextSeq: isFull || only === undefined ? readTo : Math.max(afterEvent, toEventNumber(toSeq)),
          hasMore: isFull || (only !== undefined && toSeq < lastSeq),
          removedToSeq: removedTo > afterEvent ? removedTo : null,
        }
      }),

    lastSeq: () =>
      read('reading the feed', function* (tx) {
        const row = yield* tx.get<{ seq: number }>`${tx.dialect.choose(newestOf)(yield* settledTo(tx))}`
        return toEventNumber((row as { seq: number }).seq)
      }),

    onCommit,
  }
}

const placeOf = (row: Row) => ({ seq: row.seq as number, atMs: row.at as number })

/** The data of the event `deleted`: the job itself cannot be read any more. */
type DeletedData = Pick<JobFeedEvent, 'type' | 'queue' | 'owner' | 'batchId' | 'retriedFrom' | 'status' | 'attempt'> &
  ActorAndReason

/** It is stored under the subject 'job:ID', and readers get it like any other event of the job. */
function deletedEventOf(row: Row): JobFeedEvent {
  const { actor, reason, ...about } = parse<DeletedData>(row.data as string | null, {} as DeletedData)
  const jobId = String(row.subject).slice('job:'.length)
  const { status } = about
  return {
    ...placeOf(row),
    ...about,
    subject: null,
    kind: 'deleted',
    jobId,
    failure: null,
    data: { actor, reason, status },
  }
}

/** As `matches`, for an event whose job is gone. */
function isWanted({ jobId, type, queue, owner, batchId }: JobFeedEvent, only: FeedFilter): boolean {
  const isIn = (name: string | null, names: readonly string[]): boolean => name !== null && names.includes(name)
  return (
    isIn(jobId, only.jobs) ||
    isIn(type, only.types) ||
    isIn(queue, only.queues) ||
    isIn(owner, only.owners) ||
    isIn(batchId, only.batches)
  )
}

const dataOf = (row: Row): EventData => parse<EventData>(row.data as string | null, {})

function jobEventOf(row: Row, type: KnownType, failure: Row | undefined): FeedEvent {
  const data = dataOf(row)
  const kind = row.kind as JobFeedEvent['kind']
  const isFinal = kind === 'failed'
  return {
    ...placeOf(row),
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
      failure === undefined
        ? null
        : {
            code: failure.code as string,
            message: (isFinal ? failure.message : failure.waiting) as string,
            isPublic: isFinal || type.policy.errors === 'latest',
          },
    data,
  }
}
