import { STATUSES, type Status } from '../../core/states.ts'
import {
  type KeyFilter,
  type KeyPage,
  pageOfWalk,
  SHORT_WALK,
  type SilentTypes,
  shortest,
  WALK_MAX,
  type Way,
} from '../job-search.ts'
import type { KnownType } from '../known-type.ts'
import type { JobCount } from '../store.ts'
import { numbers, texts } from './arrays.ts'
import type { Fragment, Pool } from './client.ts'
import { printable } from './text.ts'

/**
 * A walk finds its keys in one index, in its order. A planner that guesses wrong would rather walk back through the
 * primary key until enough rows fit, which are a million when hardly any fit. So every walk is ordered by all columns of
 * its index, and bounded by comparisons that are no equality (an equal column would drop out of the order): no other
 * index has that order.
 */
interface Walk extends Way {
  /** Each finds keys; where there are several, they find different ones. */
  lanes: readonly Lane[]
  covers: readonly (keyof KeyFilter)[]
}

interface Lane {
  /** Rows of which each is walked in turn: a type and a status. null where there is but one walk. */
  of: Fragment | null
  count: number
  keys: Fragment
}

/** What a walk is to find, and how far it may go for it. */
export interface Limits {
  count: number
  walkMax: number
}

/** Up to `count` keys that fit, the newest. */
export async function pageOfKeys(
  sql: Pool,
  filter: KeyFilter,
  known: readonly KnownType[],
  limits: Limits,
): Promise<KeyPage> {
  const found = walked(sql, filter, await choose(sql, filter, known), limits)
  const [row] = await sql<{ keys: string | null; floor: number | null }[]>`
    WITH found AS MATERIALIZED (${found})
    SELECT max(key) FILTER (WHERE is_floor = 1) AS floor, (
      SELECT string_agg(key::text, ',') FROM (
        SELECT key FROM found WHERE is_floor = 0 ORDER BY key DESC LIMIT ${limits.count}) AS newest) AS keys
    FROM found`
  return pageOfWalk(row?.keys?.split(',').map(Number) ?? [], row?.floor ?? null, limits.count)
}

/** Goes no further than it must: which of those that fit are counted does not matter. */
export async function countOfKeys(
  sql: Pool,
  filter: KeyFilter,
  known: readonly KnownType[],
  limits: Limits,
): Promise<JobCount> {
  const found = walked(sql, filter, await choose(sql, filter, known), limits)
  const [row] = await sql<{ count: number; floors: number }[]>`
    SELECT count(*) - coalesce(sum(is_floor), 0) AS count, coalesce(sum(is_floor), 0) AS floors
    FROM (SELECT is_floor FROM (${found}) AS found LIMIT ${limits.count}) AS some_of_them`
  const { count, floors } = row as { count: number; floors: number }
  // Whoever was stopped at its number may have found a floor in the place of a job.
  return { count, isMore: floors > 0 }
}

/** Keys that fit (of each lane the newest), and where lanes were cut off. */
function walked(sql: Pool, filter: KeyFilter, { lanes, covers }: Walk, { count, walkMax }: Limits): Fragment {
  const rest = askedOf(sql, filter, covers)
  // With nothing left to ask, each job that is walked over is one of the page.
  const most = rest === null ? count : Math.ceil(walkMax / lanes.reduce((sum, lane) => sum + lane.count, 0))
  const parts = lanes.map(({ of, keys }) => {
    // In one statement, so that what is left out below the floor is what was not looked at.
    const lane = sql`
      WITH page AS MATERIALIZED (
        SELECT key FROM (${keys} LIMIT ${most}) AS walked ${rest === null ? sql`` : sql`WHERE ${rest}`} LIMIT ${count})
      SELECT key, 0 AS is_floor FROM page
      UNION ALL
      SELECT key, 1 FROM (
        ${keys} LIMIT (SELECT CASE WHEN count(*) < ${count} THEN 1 ELSE 0 END FROM page) OFFSET ${most - 1}) AS floor`
    return of === null ? sql`(${lane})` : sql`(SELECT found.* FROM ${of} CROSS JOIN LATERAL (${lane}) AS found)`
  })
  return parts.reduce((one, other) => sql`${one} UNION ALL ${other}`)
}

async function choose(sql: Pool, filter: KeyFilter, known: readonly KnownType[]): Promise<Walk> {
  const ways = waysOf(sql, filter, known)
  const [first] = ways
  if (ways.length === 1 || first === undefined) return first ?? walkOfAll(sql, filter)
  for (const max of [SHORT_WALK, WALK_MAX]) {
    const sizes = ways.map(({ lanes }) => {
      const counted = lanes.map(({ of, keys }) => {
        const found = sql`(${keys} LIMIT ${max}) AS found`
        return sql`(SELECT count(*) FROM (SELECT 1 FROM ${of === null ? found : sql`${of} CROSS JOIN LATERAL ${found}`}
          LIMIT ${max}) AS walked)`
      })
      return counted.reduce((one, other) => sql`${one} + ${other}`)
    })
    const [row] = await sql<{ sizes: string }[]>`
      SELECT concat_ws(',', ${sizes.reduce((one, other) => sql`${one}, ${other}`)}) AS sizes`
    const way = shortest(ways, row?.sizes.split(',').map(Number) ?? [], max)
    if (way !== null) return way
  }
  return ways.find(({ isOrdered }) => isOrdered) ?? walkOfAll(sql, filter)
}

/** What is to be asked of each job that is walked over: scalar, for of a join the planner might make another order. */
function askedOf(sql: Pool, filter: KeyFilter, covers: Walk['covers']): Fragment | null {
  const { statuses, types, owner, code, batch, orphans, retriedFrom, createdSinceMs, createdBeforeMs, keys } = filter
  const asks = (field: keyof KeyFilter): boolean => !covers.includes(field)
  const ofJob = [
    ...(keys !== null && asks('keys') ? [sql`jobs.key = ANY(${numbers(keys)}::bigint[])`] : []),
    ...(statuses !== null && asks('statuses') ? [sql`status = ANY(${texts(statuses)}::text[])`] : []),
    ...(types !== null && asks('types') ? [sql`type = ANY(${numbers(types)}::bigint[])`] : []),
    // Only a failed job has ended with a code. A program of the version before leaves it when it retries one.
    ...(code !== null ? [sql`ended_with = ${printable(code)} AND failure IS NOT NULL`] : []),
    ...(orphans !== null && asks('orphans')
      ? [sql`status = 'processing' AND (orphaned_at IS NOT NULL OR ${isSilent(sql, orphans)})`]
      : []),
  ]
  const ofSpec = [
    ...(owner !== null && asks('owner') ? [sql`owner = ${printable(owner)}`] : []),
    ...(batch !== null ? [sql`batch = ${batch} AND left_batch IS NULL`] : []),
    ...(retriedFrom !== null && asks('retriedFrom') ? [sql`retried_from = ${printable(retriedFrom)}`] : []),
    ...(createdSinceMs !== null ? [sql`created_at >= ${createdSinceMs}`] : []),
    ...(createdBeforeMs !== null ? [sql`created_at < ${createdBeforeMs}`] : []),
  ]
  const all = (conditions: Fragment[]) => conditions.reduce((one, other) => sql`${one} AND ${other}`)
  const asked = [
    ...(ofJob.length > 0 ? [sql`(SELECT ${all(ofJob)} FROM jobs WHERE jobs.key = walked.key)`] : []),
    ...(ofSpec.length > 0 ? [sql`(SELECT ${all(ofSpec)} FROM job_specs WHERE job_specs.key = walked.key)`] : []),
  ]
  return asked.length === 0 ? null : all(asked)
}

/** All that an index knows something of, what promises most first. */
function waysOf(sql: Pool, filter: KeyFilter, known: readonly KnownType[]): Walk[] {
  const { owner, code, batch, keys, statuses, types, orphans, retriedFrom, sinceKey, beforeKey } = filter
  const [before, since] = [sql`${beforeKey}::bigint`, sql`${sinceKey}::bigint`]
  const way = (covers: Walk['covers'], found: Fragment): Walk => ({
    isOrdered: true,
    covers,
    lanes: [{ of: null, count: 1, keys: found }],
  })
  const ways: Walk[] = []
  if (keys !== null) {
    ways.push(
      way(
        ['keys'],
        sql`SELECT key FROM unnest(${numbers(keys.toSorted((a, b) => b - a))}::bigint[]) AS given (key)
          WHERE key < ${before} AND key >= ${since}`,
      ),
    )
  }
  if (retriedFrom !== null) {
    // Few, as those that somebody holds are: see `processing`.
    const made = sql`SELECT key FROM job_specs WHERE retried_from = ${printable(retriedFrom)}`
    ways.push(
      few(
        ['retriedFrom'],
        sql`SELECT key FROM (${made} OFFSET 0) AS few WHERE key < ${before} AND key >= ${since} ORDER BY key DESC`,
      ),
    )
  }
  if (batch !== null) {
    // Whoever has given its place to another one is still in the index.
    const of = sql`${batch}::bigint`
    ways.push(
      way(
        [],
        sql`SELECT key FROM job_specs WHERE batch IS NOT NULL AND (batch, key) < (${of}, ${before})
          AND (batch, key) >= (${of}, ${since}) ORDER BY batch DESC, key DESC`,
      ),
    )
  }
  if (orphans !== null) ways.push(few(['orphans'], processing(sql, filter)))
  if (code !== null) {
    const of = sql`${printable(code)}::text`
    ways.push(
      way(
        [],
        sql`SELECT key FROM jobs WHERE ended_with IS NOT NULL AND (ended_with, key) < (${of}, ${before})
          AND (ended_with, key) >= (${of}, ${since}) ORDER BY ended_with DESC, key DESC`,
      ),
    )
  }
  if (owner !== null) {
    const of = sql`${printable(owner)}::text`
    ways.push(
      way(
        ['owner'],
        sql`SELECT key FROM job_specs WHERE owner IS NOT NULL AND (owner, key) < (${of}, ${before})
          AND (owner, key) >= (${of}, ${since}) ORDER BY owner DESC, key DESC`,
      ),
    )
  }
  if (statuses !== null || types !== null) ways.push(listed(sql, filter, known))
  return ways
}

const walkOfAll = (sql: Pool, { beforeKey, sinceKey }: KeyFilter): Walk => ({
  isOrdered: true,
  covers: [],
  lanes: [
    {
      of: null,
      count: 1,
      keys: sql`SELECT key FROM jobs WHERE key < ${beforeKey} AND key >= ${sinceKey} ORDER BY key DESC`,
    },
  ],
})

const few = (covers: Walk['covers'], keys: Fragment): Walk => ({
  isOrdered: false,
  covers,
  lanes: [{ of: null, count: 1, keys }],
})

/** By type and status: each is a range of the index of those that nobody holds; those that somebody holds are few. */
function listed(sql: Pool, filter: KeyFilter, known: readonly KnownType[]): Walk {
  const { statuses, types, beforeKey, sinceKey } = filter
  const asked = statuses ?? STATUSES
  const resting: readonly Status[] = asked.filter((status) => status !== 'processing')
  const pairs = (types ?? known.map(({ key }) => key)).flatMap((key) => resting.map((status) => ({ key, status })))
  const lanes: Lane[] = []
  if (asked.includes('processing')) lanes.push({ of: null, count: 1, keys: processing(sql, filter) })
  if (pairs.length > 0) {
    lanes.push({
      of: sql`unnest(${numbers(pairs.map(({ key }) => key))}::bigint[], ${texts(pairs.map(({ status }) => status))}::text[])
        AS lane (type, status)`,
      count: pairs.length,
      keys: sql`SELECT key FROM jobs
        WHERE lease_until IS NULL AND (type, status, key) < (lane.type, lane.status, ${beforeKey}::bigint)
          AND (type, status, key) >= (lane.type, lane.status, ${sinceKey}::bigint)
        ORDER BY type DESC, status DESC, key DESC`,
    })
  }
  return { isOrdered: true, covers: ['statuses', 'types'], lanes }
}

/** Its lease expired, whether or not a worker has reported it. */
const isSilent = (sql: Pool, { nowMs, reporting, forwardOnly }: SilentTypes): Fragment => sql`
  lease_until <= ${nowMs}::bigint AND type = ANY(${numbers(forwardOnly)}::bigint[])
    AND (jobs.forward_only = 1 OR type = ANY(${numbers(reporting)}::bigint[]))`

/** Few, for each is in somebody's hands, or was: OFFSET 0 makes them all be found by that before they are put in order. */
function processing(sql: Pool, { types, orphans, beforeKey, sinceKey }: KeyFilter): Fragment {
  const ofType = types === null ? sql`` : sql`AND type = ANY(${numbers(types)}::bigint[])`
  const orphaned = sql`SELECT key FROM jobs WHERE orphaned_at IS NOT NULL AND status = 'processing' ${ofType}`
  const held = sql`SELECT key FROM jobs WHERE lease_until IS NOT NULL AND orphaned_at IS NULL ${ofType}`
  const others = orphans === null ? held : sql`${held} AND ${isSilent(sql, orphans)}`
  return sql`
    SELECT key FROM (${others} UNION ALL ${orphaned} OFFSET 0) AS few
    WHERE key < ${beforeKey}::bigint AND key >= ${sinceKey}::bigint ORDER BY key DESC`
}
