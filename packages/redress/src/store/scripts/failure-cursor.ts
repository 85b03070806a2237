import type { GroupedFailure } from '../../core/failure/group.ts'
import type { JobKey } from '../contract/store.ts'
import type { Tx } from './tx/context.ts'
import type { Script } from './tx/script.ts'
import { sql } from './tx/sql.ts'

/**
 * Reads failures that are not counted yet, each exactly once, as far as possible in the order of their numbers. The caller
 * counts them in the same transaction, and no second transaction may do so at the same time.
 *
 * On SQLite numbers become visible in order. On PostgreSQL they do not: of two transactions that fail jobs at once, the
 * one with the lower numbers may commit later, and a cursor that has passed them would never see them. Waiting until no
 * older transaction runs would be safe, but then any long transaction, even in another database of the server, would
 * block all counting. So the numbers that are missing when the cursor passes are stored (`uncounted_failures`) and looked
 * for again.
 *
 * A missing number is given up when it can never come. A trigger gives a transaction its own number before its failures
 * get theirs, and the reader gets its number after it saw the gap. So any transaction that could fill the gap is older
 * than the reader. If all of those have ended and the number is still missing, it was rolled back.
 */

const CURSOR = 'failure_groups'
const POSITION = sql`coalesce((SELECT position FROM cursors WHERE name = ${CURSOR}), 0)`

/** `type` is null if the job was removed. */
export type UncountedFailure = Omit<GroupedFailure, 'type' | 'context' | 'isFinal'> & {
  type: number | null
  context: string | null
  to: string
}

const COLUMNS = sql`
  seq, job, at AS "atMs", code, fault, message, context, fingerprint, to_status AS "to",
  (SELECT type FROM job_specs WHERE job_specs.key = failures.job) AS type`

/** Numbers from one to another, both included. */
interface Gap {
  first: number
  last: number
}

interface KnownGap extends Gap {
  /** Every transaction that could fill it has a lower number. */
  until: number
}

interface Standing {
  position: number
  /** All transactions with a lower number have ended. */
  ended_before: number
  /** A caller that has written already may have a lower number than a transaction that fills a gap. */
  has_written: boolean
}

/** Whether there may be something to take; cheap, because it is asked often. */
export function* hasUncounted(tx: Tx): Script<boolean> {
  const hasGaps = tx.dialect.choose({
    sqlite: sql`false`,
    postgres: sql`EXISTS (SELECT 1 FROM uncounted_failures)`,
  })
  const row = yield* tx.get<{ has: unknown }>`
    SELECT ${hasGaps} OR coalesce((SELECT max(seq) FROM failures), 0) > ${POSITION} AS has`
  return Boolean(row?.has)
}

/** The jobs among these with a failure that is not counted yet. */
export function* jobsWithUncounted(tx: Tx, jobs: readonly JobKey[]): Script<Set<JobKey>> {
  const isInGap = tx.dialect.choose({
    sqlite: sql`false`,
    postgres: sql`EXISTS (SELECT 1 FROM uncounted_failures WHERE seq BETWEEN first_seq AND last_seq)`,
  })
  const rows = yield* tx.all<{ job: JobKey }>`
    SELECT DISTINCT job FROM failures WHERE job ${tx.dialect.inNumbers(jobs)} AND (seq > ${POSITION} OR ${isInGap})`
  return new Set(rows.map(({ job }) => job))
}

/** Takes the next failures and moves the cursor. */
export const takeUncounted = (tx: Tx, limit: number): Script<UncountedFailure[]> =>
  tx.dialect.choose({ sqlite: takeInOrder, postgres: takeWithGaps })(tx, limit)

function* takeInOrder(tx: Tx, limit: number): Script<UncountedFailure[]> {
  const next = yield* tx.all<UncountedFailure>`
    SELECT ${COLUMNS} FROM failures WHERE seq > ${POSITION} ORDER BY seq LIMIT ${limit}`
  yield* moveTo(tx, next.at(-1)?.seq)
  return next
}

function* moveTo(tx: Tx, position: number | undefined): Script<void> {
  if (position === undefined) return
  yield* tx.run`
    INSERT INTO cursors (name, position) VALUES (${CURSOR}, ${position})
    ON CONFLICT (name) DO UPDATE SET position = excluded.position`
}

function* takeWithGaps(tx: Tx, limit: number): Script<UncountedFailure[]> {
  const [standing, gaps] = yield* tx.together(
    tx.get<Standing>`
      SELECT ${POSITION} AS position, pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS ended_before,
        pg_current_xact_id_if_assigned() IS NOT NULL AS has_written`,
    tx.all<KnownGap>`SELECT first_seq AS first, last_seq AS last, until FROM uncounted_failures`,
  )
  const { position, ended_before, has_written } = standing as Standing
  if (has_written) throw new Error('failures must be counted before anything is written')
  const late =
    gaps.length === 0
      ? []
      : yield* tx.all<UncountedFailure>`
          SELECT ${COLUMNS} FROM uncounted_failures JOIN failures ON seq BETWEEN first_seq AND last_seq
          ORDER BY seq LIMIT ${limit}`
  const room = limit - late.length
  const next =
    room === 0
      ? []
      : yield* tx.all<UncountedFailure>`
          SELECT ${COLUMNS} FROM failures WHERE seq > ${position} ORDER BY seq LIMIT ${room}`
  // With the first write below, this transaction gets its number.
  if (late.length > 0 || gaps.some(({ until }) => until <= ended_before)) {
    const isAllSeen = room > 0
    const left = gaps
      .filter(({ until }) => !isAllSeen || until > ended_before)
      .flatMap((gap) => gapsIn(gap, late).map((part) => ({ ...part, until: gap.until })))
    yield* tx.run`DELETE FROM uncounted_failures`
    yield* remember(tx, left)
  }
  const last = next.at(-1)?.seq
  if (last !== undefined) {
    yield* moveTo(tx, last)
    yield* remember(tx, gapsIn({ first: position + 1, last }, next))
  }
  return [...late, ...next]
}

function* remember(tx: Tx, gaps: readonly (Gap & { until?: number })[]): Script<void> {
  if (gaps.length === 0) return
  const rows = gaps.map(({ first, last, until = null }) => ({ first, last, until }))
  yield* tx.run`
    INSERT INTO uncounted_failures (first_seq, last_seq, until)
    SELECT first, last, coalesce(until, pg_current_xact_id()::text::bigint)
    FROM ${tx.dialect.table({ first: 'bigint', last: 'bigint', until: 'bigint' }, rows)} AS gap`
}

/** The parts of a gap that are left without the given failures. */
function gapsIn({ first, last }: Gap, found: readonly { seq: number }[]): Gap[] {
  const gaps: Gap[] = []
  let from = first
  for (const { seq } of found) {
    if (seq < first || seq > last) continue
    if (seq > from) gaps.push({ first: from, last: seq - 1 })
    from = seq + 1
  }
  if (from <= last) gaps.push({ first: from, last })
  return gaps
}
