import { STATUSES, type Status } from '../../core/states.ts'
import type { JobFilter } from '../store.ts'
import type { Pool } from './client.ts'
import { printable } from './history.ts'
import type { KnownType } from './types.ts'

/** A filter in the database's own numbers. */
export interface KeyFilter extends Pick<JobFilter, 'status' | 'owner' | 'isOrphaned' | 'limit'> {
  type: KnownType | undefined
  batch: number | undefined
  beforeKey: number
}

/**
 * The keys of one page, the newest first; as a part of a statement. Whatever the filter, the page is found by walking one
 * index in its order. A planner that guesses wrong would rather walk back through the primary key until enough rows fit,
 * which are a million when hardly any fit. So every walk is ordered by all columns of its index, bounded below by a
 * comparison that is no equality (an equal column would drop out of the order): no other index has that order.
 */
export function pageOfKeys(sql: Pool, filter: KeyFilter, known: readonly KnownType[]) {
  const { batch, owner, beforeKey, limit } = filter
  if (batch !== undefined) {
    return sql`
      SELECT job_specs.key FROM job_specs JOIN jobs ON jobs.key = job_specs.key
      WHERE (batch, job_specs.key) < (${batch}::bigint, ${beforeKey}::bigint) AND batch >= ${batch} AND left_batch IS NULL
        ${alsoStatus(sql, filter)} ${alsoOwner(sql, filter)}
      ORDER BY batch DESC, job_specs.key DESC LIMIT ${limit}`
  }
  if (owner !== undefined) {
    return sql`
      SELECT job_specs.key FROM job_specs JOIN jobs ON jobs.key = job_specs.key
      WHERE (job_specs.owner, job_specs.key) < (${printable(owner)}::text, ${beforeKey}::bigint)
        AND job_specs.owner >= ${printable(owner)} ${alsoStatus(sql, filter)}
      ORDER BY job_specs.owner DESC, job_specs.key DESC LIMIT ${limit}`
  }
  if (filter.isOrphaned || filter.status === 'processing') return processing(sql, filter)
  if (filter.type === undefined && filter.status === undefined) {
    return sql`SELECT key FROM jobs WHERE key < ${beforeKey} ORDER BY key DESC LIMIT ${limit}`
  }
  const types = filter.type === undefined ? known : [filter.type]
  if (filter.status !== undefined) return resting(sql, types, [filter.status], filter)
  return sql`
    SELECT key FROM (
      SELECT key FROM (${processing(sql, filter)}) AS one
      UNION ALL
      SELECT key FROM (${resting(sql, types, RESTING, filter)}) AS other) AS page
    ORDER BY key DESC LIMIT ${limit}`
}

const RESTING: readonly Status[] = STATUSES.filter((status) => status !== 'processing')

/** Of each type and status that fits, as many as the page may need. */
function resting(sql: Pool, types: readonly KnownType[], statuses: readonly Status[], { beforeKey, limit }: KeyFilter) {
  const lanes = types.flatMap(({ key }) => statuses.map((status) => ({ key, status })))
  return sql`
    SELECT found.key
    FROM unnest(${lanes.map(({ key }) => key)}::bigint[], ${lanes.map(({ status }) => status)}::text[]) AS lane (type, status)
    CROSS JOIN LATERAL (
      SELECT key FROM jobs
      WHERE lease_until IS NULL AND (type, status, key) < (lane.type, lane.status, ${beforeKey}::bigint)
        AND (type, status) >= (lane.type, lane.status)
      ORDER BY type DESC, status DESC, key DESC LIMIT ${limit}) AS found
    ORDER BY found.key DESC LIMIT ${limit}`
}

/** Few, for each is in somebody's hands, or was: OFFSET 0 makes them all be found by that before they are put in order. */
function processing(sql: Pool, { type, isOrphaned, beforeKey, limit }: KeyFilter) {
  const ofType = type === undefined ? sql`` : sql`AND type = ${type.key}`
  const orphaned = sql`
    SELECT key FROM jobs WHERE orphaned_at IS NOT NULL AND status = 'processing' ${ofType}`
  const held = sql`
    SELECT key FROM jobs WHERE lease_until IS NOT NULL AND orphaned_at IS NULL ${ofType}`
  return sql`
    SELECT key FROM (${isOrphaned ? orphaned : sql`${held} UNION ALL ${orphaned}`} OFFSET 0) AS few
    WHERE key < ${beforeKey} ORDER BY key DESC LIMIT ${limit}`
}

const alsoOwner = (sql: Pool, { owner }: KeyFilter) =>
  owner === undefined ? sql`` : sql`AND job_specs.owner = ${printable(owner)}`

function alsoStatus(sql: Pool, { status, type, isOrphaned }: KeyFilter) {
  return sql`
    ${status === undefined ? sql`` : sql`AND jobs.status = ${status}`}
    ${type === undefined ? sql`` : sql`AND jobs.type = ${type.key}`}
    ${isOrphaned ? sql`AND orphaned_at IS NOT NULL AND jobs.status = 'processing'` : sql``}`
}
