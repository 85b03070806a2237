import type { Row } from '../rows.ts'
import type { Sql, Tx } from './client.ts'

/**
 * Reads failures that are not counted yet, each exactly once, in the order of their numbers as far as that is possible.
 *
 * Numbers become visible out of order: of two transactions that fail jobs at the same time, the one with the lower
 * numbers may commit later, and a cursor that has passed them would never see them. Waiting until no older transaction is
 * under way would be safe, but then anybody's long transaction, even in another database of the server, would keep all
 * failures from being counted. So what was missing when the cursor passed is remembered (`uncounted_failures`) and
 * looked for again, and everything else is counted as soon as it is committed.
 *
 * A missing number is given up when it can never come: a transaction has its own number before its failures have theirs
 * (a trigger sees to it), and ours is taken after we saw the gap. Whoever could still fill it is older than we are. So
 * when nobody older than we were is under way any more, and the number is still not there, it was undone.
 *
 * Only for callers that exclude each other.
 */

const CURSOR = 'failure_groups'

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
  gaps: KnownGap[]
  /** All transactions with a lower number have ended. */
  ended_before: number
  /** The caller has written already; then its number may be lower than that of somebody who fills a gap. */
  has_written: boolean
}

const COLUMNS = (sql: Sql) => sql`
  seq, job, at, code, fault, message, context, fingerprint, to_status,
  (SELECT type FROM job_specs WHERE job_specs.key = failures.job) AS type`

/** Takes the next ones. The caller counts them in the same transaction. */
export async function takeUncounted(tx: Tx, limit: number): Promise<Row[]> {
  const { position, gaps, ended_before, has_written } = await standing(tx)
  if (has_written) throw new Error('failures must be counted before anything is written')
  const late = gaps.length === 0 ? [] : await lateOnes(tx, limit)
  const room = limit - late.length
  const next =
    room === 0
      ? []
      : await tx<Row[]>`SELECT ${COLUMNS(tx)} FROM failures WHERE seq > ${position} ORDER BY seq LIMIT ${room}`
  // From here on we write, and have a number.
  if (late.length > 0 || gaps.some(({ until }) => until <= ended_before)) {
    const isAllSeen = room > 0
    const left = gaps
      .filter(({ until }) => !isAllSeen || until > ended_before)
      .flatMap((gap) => gapsIn(gap, late).map((part) => ({ ...part, until: gap.until })))
    await tx`DELETE FROM uncounted_failures`
    await remember(tx, left)
  }
  const last = next.at(-1)?.seq as number | undefined
  if (last !== undefined) {
    await moveOn(tx, last)
    await remember(tx, gapsIn({ first: position + 1, last }, next))
  }
  return [...late, ...next]
}

/** Whether there may be something to take; cheap, for it is asked often. */
export async function hasUncounted(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ has: boolean }[]>`
    SELECT EXISTS (SELECT 1 FROM uncounted_failures) OR coalesce((SELECT max(seq) FROM failures), 0) >
      coalesce((SELECT position FROM cursors WHERE name = ${CURSOR}), 0) AS has`
  return row?.has ?? false
}

/** The jobs among these that have a failure which is not counted yet. */
export async function jobsWithUncounted(tx: Tx, jobs: readonly number[]): Promise<Set<number>> {
  const rows = await tx<{ job: number }[]>`
    SELECT DISTINCT job FROM failures
    WHERE job = ANY(${jobs as number[]}::bigint[])
      AND (seq > coalesce((SELECT position FROM cursors WHERE name = ${CURSOR}), 0)
        OR EXISTS (SELECT 1 FROM uncounted_failures WHERE seq BETWEEN first_seq AND last_seq))`
  return new Set(rows.map(({ job }) => job))
}

async function standing(tx: Tx): Promise<Standing> {
  const [row] = await tx<Standing[]>`
    SELECT coalesce((SELECT position FROM cursors WHERE name = ${CURSOR}), 0) AS position,
      coalesce((SELECT json_agg(json_build_object('first', first_seq, 'last', last_seq, 'until', until))
        FROM uncounted_failures), '[]') AS gaps,
      pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS ended_before,
      pg_current_xact_id_if_assigned() IS NOT NULL AS has_written`
  return row as Standing
}

const lateOnes = (tx: Tx, limit: number) => tx<Row[]>`
  SELECT ${COLUMNS(tx)} FROM uncounted_failures JOIN failures ON seq BETWEEN first_seq AND last_seq
  ORDER BY seq LIMIT ${limit}`

async function moveOn(tx: Tx, position: number): Promise<void> {
  await tx`
    INSERT INTO cursors (name, position) VALUES (${CURSOR}, ${position})
    ON CONFLICT (name) DO UPDATE SET position = excluded.position`
}

async function remember(tx: Tx, gaps: readonly (Gap & { until?: number })[]): Promise<void> {
  if (gaps.length === 0) return
  await tx`
    INSERT INTO uncounted_failures (first_seq, last_seq, until)
    SELECT first, last, coalesce(until, pg_current_xact_id()::text::bigint)
    FROM unnest(${gaps.map(({ first }) => first)}::bigint[], ${gaps.map(({ last }) => last)}::bigint[],
      ${gaps.map(({ until }) => until ?? null)}::bigint[]) AS gap (first, last, until)`
}

/** What is left of it without those that are there. */
function gapsIn({ first, last }: Gap, there: readonly Row[]): Gap[] {
  const gaps: Gap[] = []
  let from = first
  for (const row of there) {
    const seq = row.seq as number
    if (seq < first || seq > last) continue
    if (seq > from) gaps.push({ first: from, last: seq - 1 })
    from = seq + 1
  }
  if (from <= last) gaps.push({ first: from, last })
  return gaps
}
