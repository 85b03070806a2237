import { type LaneKind, type LeaseColumns, PROMOTIONS_MAX } from '../../scripts/jobs/claiming.ts'

/**
 * The statements of a claim, as text, because the number of lanes varies. A claim from lanes without limits is one statement
 * and one round trip, however many lanes it has.
 */

const IS_WAITING = 'due_at IS NOT NULL AND ready IS NULL'
const TURN = 'priority DESC, queued_at, key'
/** For a job that is found by its key. Written unlike the condition of the index, so that the planner does not scan that index. */
const STILL_READY = 'coalesce(ready, 0) = 1'

/**
 * What a claim needs to know beside the jobs, in one row. $1: the time, or NULL for the database's own clock. `next_due` is in
 * the future: a job that is due and was not claimed is held by something, and a worker would poll for it without end.
 */
const STATE = `
  SELECT clock.now, coalesce((SELECT position FROM cursors WHERE name = 'types'), 0) AS version,
    EXISTS (SELECT 1 FROM jobs WHERE ${IS_WAITING} AND due_at <= clock.now) AS is_due,
    (SELECT min(due_at) FROM jobs WHERE ${IS_WAITING} AND due_at > clock.now) AS next_due,
    ARRAY(SELECT name FROM queues WHERE resume_at IS NULL OR resume_at > clock.now) AS paused,
    (SELECT min(resume_at) FROM queues WHERE resume_at > clock.now) AS next_resume
  FROM (SELECT coalesce($1::bigint, redress_now()) AS now) AS clock`

/** The columns are those of `StateRow`. $2: types; `ready` lists those with a ready job. */
export const LOOK_SQL = `
  WITH state AS MATERIALIZED (${STATE})
  SELECT now, version, is_due, next_due, next_resume, paused, ARRAY(
    SELECT lane.type FROM unnest($2::bigint[]) AS lane (type) CROSS JOIN LATERAL (
      SELECT 1 FROM jobs WHERE ready IS NOT NULL AND jobs.type = lane.type LIMIT 1) AS first) AS ready
  FROM state`

export type StateRow = [
  nowMs: number,
  version: number,
  isDue: boolean,
  nextDueAtMs: number | null,
  nextResumeAtMs: number | null,
  paused: string[],
  ready: number[],
]

/** Skips jobs that another process is moving now. */
export const PROMOTE_SQL = `
  UPDATE jobs SET ready = 1 WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM jobs WHERE ${IS_WAITING} AND due_at <= (SELECT coalesce($1::bigint, redress_now()))
    ORDER BY due_at LIMIT ${PROMOTIONS_MAX} FOR UPDATE SKIP LOCKED))`

/**
 * The ready jobs of a type, in the order of the index. A type of NULL matches nothing, which shuts the lane. OFFSET keeps the
 * planner from flattening the lanes, because then it would have to sort.
 */
const lane = (type: string, also = ''): string =>
  `SELECT key, priority, queued_at FROM jobs WHERE ready IS NOT NULL AND type = ${type} ${also} ORDER BY ${TURN} OFFSET 0`

/**
 * The same, without the jobs of a priority that are before the reached position. $9, $10 and $11: the positions. The parts are
 * in order, but the planner does not know that and sorts them. So the limit is only as large as needed, with room for jobs
 * that other claims take at the same time.
 */
function laneAfter(type: string, i: number): string {
  const priority = `($9::bigint[])[${i}]`
  const place = `(($10::bigint[])[${i}], ($11::bigint[])[${i}])`
  const parts = [
    lane(type, `AND priority > ${priority}`),
    lane(type, `AND priority = ${priority} AND (queued_at, key) > ${place}`),
    lane(type, `AND priority < ${priority}`),
  ]
  return `SELECT * FROM (${parts.map((sql) => `(${sql})`).join(' UNION ALL ')}) AS lane LIMIT $7::bigint * 2 + 1000`
}

/**
 * Merges the lanes row by row and locks each row, until there are enough. The cost is that of the claimed rows, however many
 * wait behind them, and only claimed rows are locked.
 */
const merged = (lanes: readonly string[], columns: string, max: string): string => {
  const line = lanes.length === 1 ? lanes[0] : `${lanes.map((sql) => `(${sql})`).join(' UNION ALL ')} ORDER BY ${TURN}`
  return `
  SELECT ${columns} FROM (${line}) AS line CROSS JOIN LATERAL (
    SELECT ctid AS at, key, type, limit_key FROM jobs WHERE jobs.key = line.key AND ${STILL_READY}
    FOR UPDATE SKIP LOCKED
  ) AS locked
  LIMIT ${max}`
}

const RETURNING = `
  RETURNING key, type, attempt, spent, queued_at, priority, forward_only, coalesce(due_since, queued_at) AS due_since,
    greatest(counts_from, queued_at) AS counts_from`

/**
 * $3: the worker, $4: types, $5: how long their leases last; `state` has the time. Nothing is joined: with old statistics of
 * an empty table the planner would choose a nested loop over all rows.
 */
const leaseThose = (which: string): string => `
  leased AS (
    UPDATE jobs SET status = 'processing', ready = NULL, due_at = NULL, attempt = attempt + 1, worker = $3::bigint,
      claimed_at = (SELECT now FROM state), untold_claim = (SELECT now FROM state),
      lease_until = (SELECT now FROM state) + ($5::bigint[])[array_position($4::bigint[], type)]
    WHERE ${which}
    ${RETURNING}
  )`

const LEASED = `
  SELECT leased.key, leased.type, leased.attempt, leased.spent, leased.counts_from, leased.priority,
    spec.id, spec.payload, spec.owner, spec.created_at, spec.retried_from, leased.forward_only,
    CASE WHEN spec.left_batch IS NULL THEN spec.batch END AS batch, spec.trace, leased.due_since, spec.ttl_until,
    leased.queued_at
  FROM leased CROSS JOIN LATERAL (
    SELECT id, payload, owner, created_at, retried_from, batch, left_batch, trace, ttl_until FROM job_specs
    WHERE job_specs.key = leased.key OFFSET 0) AS spec`

/** `placeMs` is the sort key in the queue. */
export type LeasedRow = [...LeaseColumns, placeMs: number]

/** The first row of the answer to `plainSql`, in the columns of the others. */
export type PlainStateRow = [
  key: null,
  version: number,
  isDue: number,
  _: null,
  nowMs: number,
  nextDueAtMs: number | null,
  id: null,
  payload: null,
  owner: null,
  nextResumeAtMs: number | null,
  retriedFrom: null,
  forwardOnly: null,
  looked: number,
]

/** How many index entries this connection has read: the first row of the answer has it before the claim, the last row after. */
const LOOKED = `pg_stat_get_xact_tuples_returned('jobs_ready'::regclass)`

/**
 * Claims from lanes without limits. $2: the version of the types that the claim knows; if it has changed, nothing is claimed.
 * $6: the queues of the types. $7: the maximum. $8: claim nothing while due jobs wait for their promotion. `isAfter`: the
 * lanes begin at given positions.
 */
export function plainSql(laneCount: number, isAfter = false): string {
  const type = (i: number): string => `(
    SELECT CASE WHEN version = $2::bigint AND NOT ($8::boolean AND is_due) AND ($6::text[])[${i}] <> ALL (paused)
      THEN ($4::bigint[])[${i}] END FROM state)`
  const picked =
    laneCount === 1 && !isAfter
      ? `SELECT ctid AS at FROM jobs WHERE ready IS NOT NULL AND type = ${type(1)} ORDER BY ${TURN} LIMIT $7::bigint
        FOR UPDATE SKIP LOCKED`
      : merged(
          Array.from({ length: laneCount }, (_, i) =>
            isAfter ? laneAfter(type(i + 1), i + 1) : lane(type(i + 1)),
          ).flat(),
          'locked.at',
          '$7::bigint',
        )
  return `
  WITH state AS MATERIALIZED (SELECT *, ${LOOKED} AS looked FROM (${STATE}) AS state),
    ${leaseThose(`ctid = ANY (ARRAY(${picked}))`)}
  SELECT NULL::bigint AS key, version AS type, is_due::int::bigint AS attempt, NULL AS spent, now AS queued_at,
    next_due AS priority, NULL AS id, NULL AS payload, NULL AS owner, next_resume AS created_at, NULL AS retried_from,
    NULL::bigint AS forward_only, looked AS batch, NULL AS trace,
    NULL::bigint AS due_since, NULL::bigint AS ttl_until, NULL::bigint AS counts_from
  FROM state
  UNION ALL ${LEASED}
  UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ${LOOKED}, NULL, NULL, NULL, NULL`
}

/**
 * The next jobs of lanes of which some are limited. $1: the maximum. Then for each lane: a type, a type and its maximum, or the
 * keys to choose from. Returns key, type and limit key, in the order of the queue.
 */
export function pickSql(lanes: readonly LaneKind[]): string {
  let parameters = 1
  const next = (): string => `$${++parameters}`
  const sql: Readonly<Record<LaneKind, () => string>> = {
    free: () => lane(`${next()}::bigint`),
    bounded: () => `${lane(`${next()}::bigint`)} LIMIT ${next()}::bigint`,
    chosen: () => `SELECT key, priority, queued_at FROM jobs
      WHERE ${STILL_READY} AND key = ANY (${next()}::bigint[]) ORDER BY ${TURN} OFFSET 0`,
  }
  return merged(
    lanes.map((kind) => sql[kind]()),
    'locked.key, locked.type, locked.limit_key',
    '$1::bigint',
  )
}

/** Leases jobs that this transaction has locked. $1: the time, $2: their keys. */
export const LEASE_PICKED_SQL = `
  WITH state AS (SELECT $1::bigint AS now), ${leaseThose(`key = ANY ($2::bigint[]) AND ${STILL_READY}`)}
  ${LEASED}`

/**
 * Renews leases that their worker does not know of. $1: the time or NULL, $2: the worker, $3: types, $4: how long their leases
 * last, $5: only jobs claimed after this time, $6: except these, which the worker knows.
 */
export const FIND_LOST_SQL = `
  WITH state AS MATERIALIZED (SELECT coalesce($1::bigint, redress_now()) AS now),
  held AS MATERIALIZED (
    SELECT key, orphaned_at FROM jobs WHERE key = ANY (ARRAY(
      SELECT key FROM jobs WHERE lease_until IS NOT NULL AND orphaned_at IS NULL AND worker = $2::bigint
        AND claimed_at > $5::bigint AND started_at IS NULL
      UNION ALL
      SELECT key FROM jobs WHERE orphaned_at IS NOT NULL AND worker = $2::bigint AND claimed_at > $5::bigint
        AND started_at IS NULL)) AND key <> ALL ($6::bigint[]) AND status = 'processing' AND worker = $2::bigint
    ORDER BY key FOR UPDATE
  ), leased AS (
    UPDATE jobs SET orphaned_at = NULL,
      lease_until = (SELECT now FROM state) + ($4::bigint[])[array_position($3::bigint[], type)]
    WHERE key = ANY (ARRAY(SELECT key FROM held))
    ${RETURNING}
  ), recorded AS (
    INSERT INTO events (job, at, kind, attempt, worker)
    SELECT key, (SELECT now FROM state), 'recovered', attempt, $2::bigint FROM leased
    WHERE key = ANY (ARRAY(SELECT key FROM held WHERE orphaned_at IS NOT NULL))
  )
  ${LEASED}`
