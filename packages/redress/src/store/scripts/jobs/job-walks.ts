import type { Status } from '../../../core/job/states.ts'
import type { BatchKey, JobKey } from '../../contract/store.ts'
import type { Tx } from '../tx/context.ts'
import { allOf, NONE, type Sql, sql } from '../tx/sql.ts'

/** A compound statement of SQLite has at most 500 parts. */
const LANES_PER_STATEMENT = 100

/** A filter in the database's own numbers. null: the filter does not ask for it. */
export interface KeyFilter {
  statuses: readonly Status[] | null
  types: readonly number[] | null
  owner: string | null
  code: string | null
  batch: BatchKey | null
  orphans: SilentTypes | null
  keys: readonly JobKey[] | null
  retriedFrom: string | null
  createdSinceMs: number | null
  createdBeforeMs: number | null
  /** Jobs that were created since then have this key or a higher one. */
  sinceKey: JobKey
  /** Jobs that were created before then have a lower key than this. */
  beforeKey: JobKey
}

/**
 * Types whose jobs are orphans as soon as their lease expires, reported or not. By type key: all jobs of `reporting`,
 * and of `forwardOnly` the jobs submitted under a forward-only policy.
 */
export interface SilentTypes {
  nowMs: number
  reporting: readonly number[]
  forwardOnly: readonly number[]
}

/** How many keys are wanted, and how many jobs may be walked over for them. */
export interface Limits {
  count: number
  walkMax: number
}

/** A way to find jobs by an index. */
export interface Walk {
  /** False: all keys are collected and sorted first, so the walk must be short. */
  isOrdered: boolean
  /** Each lane finds other keys. */
  lanes: readonly Lane[]
  /** The parts of the filter that every found job matches already. */
  covers: readonly (keyof KeyFilter)[]
}

interface Lane {
  /** Selects keys, the newest first. */
  keys: Sql
  /** The same in any order, where all keys are gathered before they are sorted: counting them must not sort them. */
  unsorted?: Sql
}

/** Keys that are gathered by their own index and then sorted. */
type Sorted = Required<Pick<Lane, 'keys' | 'unsorted'>>

const oneWalk = (keys: Sql | Sorted): Lane => ('unsorted' in keys ? keys : { keys })

export function inStatements({ lanes, ...walk }: Walk): Walk[] {
  const parts: Walk[] = []
  for (let i = 0; i < lanes.length; i += LANES_PER_STATEMENT)
    parts.push({ ...walk, lanes: lanes.slice(i, i + LANES_PER_STATEMENT) })
  return parts
}

/** Up to `max` jobs of a way are counted. */
export function sizeOf({ lanes }: Walk, max: number): Sql {
  return lanes
    .map(({ keys, unsorted = keys }) => sql`(SELECT count(*) FROM (${unsorted} LIMIT ${max}) AS walked)`)
    .reduce((one, other) => sql`${one} + ${other}`)
}

/** The keys that match, of each lane the newest; and with `is_floor` the key at which a lane was cut off. */
export function walked(tx: Tx, filter: KeyFilter, walk: Walk, { count, walkMax }: Limits): Sql {
  const rest = conditionsOf(tx, filter, walk.covers)
  // With nothing left to check, every job that is walked over is one of the page.
  const most = rest === null ? count : Math.ceil(walkMax / walk.lanes.length)
  return walk.lanes
    .map(({ keys }) => {
      // In one statement, so that exactly those jobs are below the floor that were not looked at.
      const lane = sql`
        WITH page AS MATERIALIZED (
          SELECT key FROM (${keys} LIMIT ${most}) AS walked WHERE ${rest ?? sql`true`} LIMIT ${count})
        SELECT key, 0 AS is_floor FROM page
        UNION ALL
        SELECT key, 1 FROM (
          ${keys} LIMIT (SELECT CASE WHEN count(*) < ${count} THEN 1 ELSE 0 END FROM page) OFFSET ${most - 1}) AS floor`
      return sql`SELECT found.key, found.is_floor FROM (${lane}) AS found`
    })
    .reduce((one, other) => sql`${one} UNION ALL ${other}`)
}

/** The checks of a job that is walked over. They are scalar: a planner might give a join another order. */
function conditionsOf(tx: Tx, filter: KeyFilter, covers: Walk['covers']): Sql | null {
  const { statuses, types, owner, code, batch, orphans, retriedFrom, createdSinceMs, createdBeforeMs, keys } = filter
  const { inNumbers, inTexts } = tx.dialect
  const check = (field: keyof KeyFilter, condition: () => Sql): Sql[] =>
    filter[field] === null || covers.includes(field) ? [] : [condition()]
  const ofJob = [
    ...check('keys', () => sql`key ${inNumbers(keys ?? [])}`),
    ...check('statuses', () => sql`status ${inTexts(statuses ?? [])}`),
    ...check('types', () => sql`type ${inNumbers(types ?? [])}`),
    // Only a failed job has ended with a code. A program of the previous version leaves it when it retries one.
    ...check('code', () => sql`ended_with = ${code} AND failure IS NOT NULL`),
    ...check('orphans', () => {
      const isSilent = silent(tx, orphans as SilentTypes)
      return sql`status = 'processing' AND (orphaned_at IS NOT NULL OR ${isSilent})`
    }),
  ]
  const ofSpec = [
    ...check('owner', () => sql`owner = ${owner}`),
    ...check('batch', () => sql`batch = ${batch} AND left_batch IS NULL`),
    ...check('retriedFrom', () => sql`retried_from = ${retriedFrom}`),
    ...check('createdSinceMs', () => sql`created_at >= ${createdSinceMs}`),
    ...check('createdBeforeMs', () => sql`created_at < ${createdBeforeMs}`),
  ]
  const checks = [
    ...(ofJob.length > 0 ? [sql`(SELECT ${allOf(ofJob)} FROM jobs WHERE jobs.key = walked.key)`] : []),
    ...(ofSpec.length > 0 ? [sql`(SELECT ${allOf(ofSpec)} FROM job_specs WHERE job_specs.key = walked.key)`] : []),
  ]
  return checks.length === 0 ? null : allOf(checks)
}

/** The lease expired, and the policy reports such jobs as orphans. */
const silent = ({ dialect: { inNumbers } }: Tx, { nowMs, reporting, forwardOnly }: SilentTypes): Sql => sql`
  lease_until <= ${nowMs} AND type ${inNumbers(forwardOnly)} AND (jobs.forward_only = 1 OR type ${inNumbers(reporting)})`

/** Every index that matches a part of the filter, the most promising first. */
export function waysOf(tx: Tx, filter: KeyFilter): Walk[] {
  const { owner, code, batch, keys, statuses, types, orphans, retriedFrom } = filter
  const ways: Walk[] = []
  if (keys !== null) {
    const rows = keys.toSorted((a, b) => b - a).map((key) => ({ key }))
    const given = sql`SELECT key FROM ${tx.dialect.table({ key: 'bigint' }, rows)} AS given`
    ways.push(oneLane(['keys'], sql`SELECT key FROM (${given}) AS given WHERE ${between(filter)} ORDER BY key DESC`))
  }
  if (retriedFrom !== null) {
    const made = sql`SELECT key FROM job_specs ${indexedBy(tx, 'specs_by_origin')} WHERE retried_from = ${retriedFrom}`
    ways.push(oneLane(['retriedFrom'], fewSorted(tx, made, filter)))
  }
  // A job that gave its place in the batch to another one is still in the index.
  if (batch !== null) ways.push(oneLane([], ordered(tx, 'job_specs', 'specs_of_batch', 'batch', batch, filter)))
  if (orphans !== null) ways.push({ ...oneLane(['orphans'], processing(tx, filter)), isOrdered: false })
  if (code !== null) ways.push(oneLane([], ordered(tx, 'jobs', 'jobs_by_end', 'ended_with', code, filter)))
  if (owner !== null) ways.push(oneLane(['owner'], ordered(tx, 'job_specs', 'specs_of_owner', 'owner', owner, filter)))
  if (statuses !== null || types !== null) ways.push(...listed(tx, filter))
  return ways
}

const oneLane = (covers: Walk['covers'], keys: Sql | Sorted): Walk => ({
  isOrdered: true,
  covers,
  lanes: [oneWalk(keys)],
})

export const walkOfAll = (filter: KeyFilter): Walk =>
  oneLane([], sql`SELECT key FROM jobs WHERE ${between(filter)} ORDER BY key DESC`)

const between = ({ beforeKey, sinceKey }: KeyFilter): Sql =>
  sql`key < CAST(${beforeKey} AS bigint) AND key >= CAST(${sinceKey} AS bigint)`

/** SQLite has no statistics of a new store, and would guess. */
export const indexedBy = ({ dialect }: Tx, index: string): Sql =>
  dialect.choose({ sqlite: sql([`INDEXED BY ${index}`]), postgres: NONE })

/**
 * The keys of one value of an index, in its order. PostgreSQL may rather walk back through the primary key until enough
 * rows match, which takes a million where hardly any match. So its walk is ordered by all columns of the index, and bounded
 * by comparisons that are no equality (an equal column would drop out of the order): no other index has that order.
 */
function ordered(
  { dialect }: Tx,
  table: string,
  index: string,
  column: string,
  value: string | number,
  filter: KeyFilter,
): Sql {
  const [from, by] = [sql([table]), sql([column])]
  const of = typeof value === 'number' ? sql`CAST(${value} AS bigint)` : sql`CAST(${value} AS text)`
  return dialect.choose({
    sqlite: sql`
      SELECT key FROM ${from} INDEXED BY ${sql([index])} WHERE ${by} = ${value} AND ${between(filter)} ORDER BY key DESC`,
    postgres: sql`
      SELECT key FROM ${from}
      WHERE ${by} IS NOT NULL AND (${by}, key) < (${of}, CAST(${filter.beforeKey} AS bigint))
        AND (${by}, key) >= (${of}, CAST(${filter.sinceKey} AS bigint))
      ORDER BY ${by} DESC, key DESC`,
  })
}

/** Few keys. OFFSET 0 makes PostgreSQL find all of them by their own index before it sorts them. */
function fewSorted({ dialect }: Tx, few: Sql, filter: KeyFilter): Sorted {
  const first = dialect.choose({ sqlite: NONE, postgres: sql`OFFSET 0` })
  const unsorted = sql`SELECT key FROM (${few} ${first}) AS few WHERE ${between(filter)}`
  return { unsorted, keys: sql`${unsorted} ORDER BY key DESC` }
}

/** Few: processing jobs, also those of lost workers. */
function processing(tx: Tx, filter: KeyFilter): Sorted {
  const { types, orphans } = filter
  const ofType = types === null ? NONE : sql`AND type ${tx.dialect.inNumbers(types)}`
  const isSilent = orphans === null ? NONE : sql`AND ${silent(tx, orphans)}`
  return fewSorted(
    tx,
    sql`
      SELECT key FROM jobs ${indexedBy(tx, 'jobs_leased')}
      WHERE lease_until IS NOT NULL AND orphaned_at IS NULL ${ofType} ${isSilent}
      UNION ALL
      SELECT key FROM jobs ${indexedBy(tx, 'jobs_orphaned')}
      WHERE orphaned_at IS NOT NULL AND status = 'processing' ${ofType}`,
    filter,
  )
}

/** The failed jobs, in the order of their own index. */
const FAILED = {
  sqlite: (filter: KeyFilter) => sql`SELECT key FROM jobs INDEXED BY jobs_failed
    WHERE failure IS NOT NULL AND ${between(filter)} ORDER BY key DESC`,
  // As in `ordered`: PostgreSQL must not walk back through the primary key.
  postgres: ({ beforeKey, sinceKey }: KeyFilter) => sql`SELECT key FROM jobs
    WHERE status IN ('failed', 'cancelled') AND (status, key) < ('failed', CAST(${beforeKey} AS bigint))
      AND (status, key) >= ('failed', CAST(${sinceKey} AS bigint))
    ORDER BY status DESC, key DESC`,
}

/**
 * Walks by status or type, or both. Completed jobs have no index of their own: in most stores they are nearly all jobs, and
 * every close would cost more.
 */
function listed(tx: Tx, filter: KeyFilter): Walk[] {
  const { statuses, types } = filter
  const ways: Walk[] = []
  const keysOf: Partial<Record<Status, Sql | Sorted>> = {
    queued: fewSorted(
      tx,
      sql`SELECT key FROM jobs ${indexedBy(tx, 'jobs_ready')} WHERE ready IS NOT NULL
        UNION ALL SELECT key FROM jobs ${indexedBy(tx, 'jobs_waiting')} WHERE due_at IS NOT NULL AND ready IS NULL`,
      filter,
    ),
    processing: processing(tx, { ...filter, types: null, orphans: null }),
    failed: tx.dialect.choose(FAILED)(filter),
    cancelled: ordered(tx, 'jobs', 'jobs_by_end', 'ended_with', '', filter),
  }
  const lanes = statuses?.map((status) => keysOf[status])
  if (lanes?.every((keys) => keys !== undefined)) {
    const isOrdered = !statuses?.some((status) => status === 'queued' || status === 'processing')
    ways.push({ isOrdered, covers: ['statuses'], lanes: lanes.map(oneWalk) })
  }
  if (types !== null) {
    const keys = types.map((type) => ordered(tx, 'job_specs', 'specs_of_type', 'type', type, filter))
    ways.push({ isOrdered: true, covers: ['types'], lanes: keys.map(oneWalk) })
  }
  return ways
}
