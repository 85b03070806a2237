import { STATUSES, type Status } from '../../core/states.ts'
import {
  type BatchSpan,
  COUNT_WALK_MAX,
  countOf,
  cutCount,
  cutPage,
  EMPTY_BATCH,
  endOfIds,
  IDS_MAX,
  type KeyFilter,
  type KeyPage,
  type Meaning,
  mergedPage,
  narrowed,
  pageOfWalk,
  partOfId,
  SHORT_WALK,
  type SilentTypes,
  SLACK_MS,
  shortest,
  silentTypes,
  statusesOf,
  WALK_MAX,
  type Way,
  withinBatch,
} from '../job-search.ts'
import type { JobCount, JobFilter, JobKey } from '../store.ts'
import type { Connection } from './connection.ts'
import type { Types } from './types.ts'

type Value = string | number

const MAX_KEY: JobKey = Number.MAX_SAFE_INTEGER

/** A part of a statement, with the values of its places. */
interface Sql {
  text: string
  values: readonly Value[]
}

/** One index or several: each lane selects keys between two bounds. */
interface Walk extends Way {
  lanes: readonly Sql[]
  /** What is known of each of its jobs, so that it need not be asked again. */
  covers: readonly Condition['of'][]
}

interface Condition {
  of: keyof KeyFilter
  table: 'jobs' | 'job_specs'
  sql: Sql
}

const sql = (text: string, ...values: Value[]): Sql => ({ text, values })

export function openJobSearch({ prepare }: Connection, types: Types, nowMs: () => number) {
  const batchKey = prepare('SELECT key FROM batches WHERE id = ?')
  const span = prepare(`
    SELECT batches.key, (SELECT min(key) FROM job_specs INDEXED BY specs_of_batch WHERE batch = batches.key) AS first,
      (SELECT max(key) FROM job_specs INDEXED BY specs_of_batch WHERE batch = batches.key) AS last
    FROM batches WHERE id = ?`)
  const hasCode = prepare('SELECT 1 FROM jobs INDEXED BY jobs_by_end WHERE ended_with = ? LIMIT 1')
  const hasOwner = prepare('SELECT 1 FROM job_specs INDEXED BY specs_of_owner WHERE owner = ? LIMIT 1')
  const idsLike = prepare('SELECT key FROM job_specs WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT ?')
  const dedupeHeld = prepare(`
    SELECT key FROM job_specs INDEXED BY one_job_per_dedupe_key
    WHERE type IN (SELECT key FROM job_types) AND dedupe_key = ? AND dedupe_held IS NOT NULL`)
  const bounds = prepare('SELECT (SELECT min(key) FROM job_specs) AS low, (SELECT max(key) FROM job_specs) + 1 AS high')
  const createdFrom = prepare('SELECT created_at AS at FROM job_specs WHERE key >= ? ORDER BY key LIMIT 1')

  /** The first key that was given since then: keys grow with time, so that it is found by halving. */
  const keySince = (ms: number): JobKey => {
    let { low, high } = bounds.get() as { low: number | null; high: number | null } as { low: number; high: number }
    while (low < high) {
      const middle = Math.floor((low + high) / 2)
      const { at } = createdFrom.get(middle) as { at: number }
      if (at < ms) low = middle + 1
      else high = middle
    }
    return low ?? 0
  }

  const keysOf = (rows: readonly unknown[]): JobKey[] => (rows as { key: JobKey }[]).map(({ key }) => key)

  const meaningsOf = (text: string): Meaning[] => {
    const id = partOfId(text)
    const keys = [
      ...(id === null ? [] : keysOf(idsLike.all(id, endOfIds(id), IDS_MAX))),
      ...keysOf(dedupeHeld.all(text)),
    ]
    const batch = batchKey.get(text) as { key: number } | undefined
    const type = types.byName(text)
    return [
      { keys },
      ...(batch === undefined ? [] : [{ batch: batch.key }]),
      ...(hasCode.get(text) === undefined ? [] : [{ code: text }]),
      ...(hasOwner.get(text) === undefined ? [] : [{ owner: text }]),
      ...(type === undefined ? [] : [{ types: [type.key] }]),
    ]
  }

  /** null where no job can fit. */
  const filterOf = (filter: Omit<JobFilter, 'limit'>): KeyFilter | null => {
    const { type, queue, owner, code, batch, retriedFrom, isOrphaned = false, beforeKey = MAX_KEY } = filter
    const { createdSinceMs = null, createdBeforeMs = null } = filter
    const known = types.known().filter((one) => (type ?? one.name) === one.name && (queue ?? one.queue) === one.queue)
    const found = batch === undefined ? null : ((span.get(batch) as BatchSpan | undefined) ?? EMPTY_BATCH)
    if (known.length === 0 || found?.last === null) return null
    const since = createdSinceMs === null ? 0 : keySince(createdSinceMs - SLACK_MS)
    const until = createdBeforeMs === null ? MAX_KEY : keySince(createdBeforeMs + SLACK_MS)
    return {
      statuses: statusesOf(filter),
      types: type === undefined && queue === undefined ? null : known.map(({ key }) => key),
      owner: owner ?? null,
      code: code ?? null,
      batch: found?.key ?? null,
      orphans: isOrphaned ? silentTypes(types.known(), nowMs()) : null,
      keys: null,
      retriedFrom: retriedFrom ?? null,
      createdSinceMs,
      createdBeforeMs,
      ...withinBatch(found, since, Math.min(beforeKey, until)),
    }
  }

  const sizeOf = ({ lanes }: Walk, max: number): number =>
    lanes.reduce((sum, { text, values }) => {
      const row = prepare(`SELECT count(*) AS n FROM (${text} LIMIT ?)`).get(...values, max) as { n: number }
      return sum + row.n
    }, 0)

  const choose = (filter: KeyFilter): Walk => {
    const all = walkOfAll(filter)
    const ways = waysOf(filter)
    const [first] = ways
    if (first === undefined) return all
    if (ways.length === 1 && first.isOrdered) return first
    for (const max of [SHORT_WALK, WALK_MAX]) {
      const sizes = ways.map((way) => sizeOf(way, max))
      const way = shortest(ways, sizes, max)
      if (way !== null) return way
    }
    return ways.find(({ isOrdered }) => isOrdered) ?? all
  }

  const walk = (lane: Sql, asked: Sql, what: string, count: number, walkMax: number) =>
    // In one statement, so that what is left out below the floor is what was not looked at.
    prepare(`
      WITH page AS MATERIALIZED (
        SELECT key FROM (${lane.text} ORDER BY key DESC LIMIT ?) AS walked WHERE ${asked.text} LIMIT ?)
      SELECT (SELECT ${what} FROM page) AS found,
        (SELECT key FROM (${lane.text} ORDER BY key DESC LIMIT (SELECT count(*) < ? FROM page) OFFSET ?)) AS floor`).get(
      ...lane.values,
      walkMax,
      ...asked.values,
      count,
      ...lane.values,
      count,
      walkMax - 1,
    ) as { found: string | number | null; floor: number | null }

  const planOf = (filter: KeyFilter, count: number, walkMax: number) => {
    const { lanes, covers } = choose(filter)
    const rest = conditionsOf(filter).filter(({ of }) => !covers.includes(of))
    // With nothing left to ask, each job that is walked over is one of the page.
    return { lanes, asked: askedOf(rest), most: rest.length === 0 ? count : Math.ceil(walkMax / lanes.length) }
  }

  const pageOf = (filter: KeyFilter, count: number, walkMax: number): KeyPage => {
    const { lanes, asked, most } = planOf(filter, count, walkMax)
    const pages = lanes.map((lane) => {
      const { found, floor } = walk(lane, asked, 'group_concat(key)', count, most)
      return pageOfWalk(found === null ? [] : String(found).split(',').map(Number), floor, count)
    })
    return mergedPage(pages, count)
  }

  const countAll = (filter: KeyFilter, max: number, walkMax: number): JobCount => {
    const { lanes, asked, most } = planOf(filter, max, walkMax)
    const sum: JobCount = { count: 0, isMore: false }
    for (const lane of lanes) {
      if (sum.count >= max) break
      const { found, floor } = walk(lane, asked, 'count(*)', max - sum.count, most)
      sum.count += Number(found)
      // A lane that was full says nothing of its end; then the sum is full, too.
      if (floor !== null) sum.isMore = true
    }
    return sum
  }

  const meantBy = (filter: Omit<JobFilter, 'limit'>): KeyFilter[] => {
    types.refresh()
    const asked = filterOf(filter)
    if (asked === null || asked.statuses?.length === 0) return []
    if (filter.q === undefined) return [asked]
    return meaningsOf(filter.q).flatMap((meaning) => narrowed(asked, meaning) ?? [])
  }

  /** Up to `count` keys, from walks over at most `walkMax` jobs for each thing that the text may mean. */
  const keys = (meant: readonly KeyFilter[], count: number, walkMax: number): KeyPage =>
    mergedPage(
      meant.map((one) => pageOf(one, count, walkMax)),
      count,
    )

  return {
    page: (filter: JobFilter) => cutPage(keys(meantBy(filter), filter.limit + 1, WALK_MAX), filter.limit),

    count(filter: Omit<JobFilter, 'limit'>, max: number): JobCount {
      const meant = meantBy(filter)
      const [only] = meant
      const isOne = meant.length === 1 && only !== undefined
      // A job may be meant in several ways, and counts once.
      const counted = isOne ? countAll(only, max + 1, COUNT_WALK_MAX) : countOf(keys(meant, max + 1, COUNT_WALK_MAX))
      return cutCount(counted, max)
    },
  }
}

/** What is to be asked of each job that is walked over: one look at each table, by key. */
function askedOf(conditions: readonly Condition[]): Sql {
  const texts: string[] = []
  const values: Value[] = []
  for (const table of ['jobs', 'job_specs'] as const) {
    const asked = conditions.filter((condition) => condition.table === table)
    if (asked.length === 0) continue
    texts.push(
      `(SELECT ${asked.map((one) => one.sql.text).join(' AND ')} FROM ${table} WHERE ${table}.key = walked.key)`,
    )
    values.push(...asked.flatMap((one) => one.sql.values))
  }
  return sql(texts.join(' AND ') || '1', ...values)
}

function conditionsOf(filter: KeyFilter): Condition[] {
  const { statuses, types, owner, code, batch, orphans, retriedFrom, createdSinceMs, createdBeforeMs, keys } = filter
  const conditions: (Condition | null)[] = [
    keys && { of: 'keys', table: 'jobs', sql: sql('key IN (SELECT value FROM json_each(?))', JSON.stringify(keys)) },
    statuses && { of: 'statuses', table: 'jobs', sql: sql(`status IN (${places(statuses)})`, ...statuses) },
    types && { of: 'types', table: 'jobs', sql: sql(`type IN (${places(types)})`, ...types) },
    // Only a failed job has ended with a code.
    code === null ? null : { of: 'code', table: 'jobs', sql: sql('ended_with = ? AND failure IS NOT NULL', code) },
    orphans && { of: 'orphans', table: 'jobs', sql: isOrphan(orphans) },
    owner === null ? null : { of: 'owner', table: 'job_specs', sql: sql('owner = ?', owner) },
    retriedFrom === null ? null : { of: 'retriedFrom', table: 'job_specs', sql: sql('retried_from = ?', retriedFrom) },
    batch === null ? null : { of: 'batch', table: 'job_specs', sql: sql('batch = ? AND left_batch IS NULL', batch) },
    createdSinceMs === null
      ? null
      : { of: 'createdSinceMs', table: 'job_specs', sql: sql('created_at >= ?', createdSinceMs) },
    createdBeforeMs === null
      ? null
      : { of: 'createdBeforeMs', table: 'job_specs', sql: sql('created_at < ?', createdBeforeMs) },
  ]
  return conditions.filter((condition) => condition !== null)
}

const places = (values: readonly unknown[]): string => values.map(() => '?').join()
const ORPHANED = `orphaned_at IS NOT NULL AND status = 'processing'`

const isSilent = ({ nowMs, reporting, forwardOnly }: SilentTypes): Sql =>
  sql(
    `lease_until <= ? AND type IN (${places(forwardOnly)}) AND (forward_only = 1 OR type IN (${places(reporting)}))`,
    ...[nowMs, ...forwardOnly, ...reporting],
  )

function isOrphan(silent: SilentTypes): Sql {
  const { text, values } = isSilent(silent)
  return sql(`(${ORPHANED} OR lease_until IS NOT NULL AND ${text})`, ...values)
}

/** Reported orphans and unreported ones, each by its own index. */
function orphanLane(silent: SilentTypes): Sql {
  const { text, values } = isSilent(silent)
  return sql(
    `(SELECT key FROM ${ORPHANS} UNION ALL
      SELECT key FROM jobs INDEXED BY jobs_leased WHERE lease_until IS NOT NULL AND orphaned_at IS NULL AND ${text})`,
    ...values,
  )
}

/** All that an index knows something of, what promises most first. */
function waysOf(filter: KeyFilter): Walk[] {
  const { statuses, types, owner, code, batch, orphans, retriedFrom, keys, sinceKey, beforeKey } = filter
  const lane = (from: string, where: string, ...values: Value[]): Sql =>
    sql(`SELECT key FROM ${from} WHERE ${where} AND key < ? AND key >= ?`, ...values, beforeKey, sinceKey)
  const laneOf = ({ text, values }: Sql): Sql => lane(text, 'true', ...values)
  const ordered = (covers: Walk['covers'], ...lanes: Sql[]): Walk => ({ isOrdered: true, covers, lanes })
  const ways: (Walk | null | undefined)[] = [
    keys && ordered(['keys'], lane('(SELECT value AS key FROM json_each(?))', 'true', JSON.stringify(keys))),
    retriedFrom === null
      ? null
      : ordered(['retriedFrom'], lane('job_specs INDEXED BY specs_by_origin', 'retried_from = ?', retriedFrom)),
    // Whoever has given its place to another one is still in the index.
    batch === null ? null : ordered([], lane('job_specs INDEXED BY specs_of_batch', 'batch = ?', batch)),
    orphans && { isOrdered: false, covers: ['orphans'], lanes: [laneOf(orphanLane(orphans))] },
    code === null ? null : ordered([], lane('jobs INDEXED BY jobs_by_end', 'ended_with = ?', code)),
    owner === null ? null : ordered(['owner'], lane('job_specs INDEXED BY specs_of_owner', 'owner = ?', owner)),
    statuses && wayOfStatuses(statuses, lane),
    types && ordered(['types'], ...types.map((type) => lane('job_specs INDEXED BY specs_of_type', 'type = ?', type))),
  ]
  return ways.filter((way) => way != null)
}

const walkOfAll = ({ sinceKey, beforeKey }: KeyFilter): Walk => ({
  isOrdered: true,
  covers: [],
  lanes: [sql('SELECT key FROM jobs WHERE key < ? AND key >= ?', beforeKey, sinceKey)],
})

const ORPHANS = `(SELECT key FROM jobs INDEXED BY jobs_orphaned WHERE ${ORPHANED})`
const QUEUED = `(
  SELECT key FROM jobs INDEXED BY jobs_ready WHERE ready IS NOT NULL
  UNION ALL SELECT key FROM jobs INDEXED BY jobs_waiting WHERE due_at IS NOT NULL AND ready IS NULL)`
const PROCESSING = `(
  SELECT key FROM jobs INDEXED BY jobs_leased WHERE lease_until IS NOT NULL AND orphaned_at IS NULL
  UNION ALL SELECT key FROM ${ORPHANS})`

/** Jobs that completed are not in an index of their own: for most stores they are nearly all, and a close would pay. */
function wayOfStatuses(statuses: readonly Status[], lane: (from: string, where: string) => Sql): Walk | null {
  const lanes: Record<Status, Sql | null> = {
    queued: lane(QUEUED, 'true'),
    processing: lane(PROCESSING, 'true'),
    complete: null,
    failed: lane('jobs INDEXED BY jobs_failed', 'failure IS NOT NULL'),
    cancelled: lane('jobs INDEXED BY jobs_by_end', `ended_with = ''`),
  }
  const found = STATUSES.filter((status) => statuses.includes(status)).map((status) => lanes[status])
  if (found.includes(null)) return null
  const isOrdered = statuses.every((status) => status === 'failed' || status === 'cancelled')
  return { isOrdered, covers: ['statuses'], lanes: found.filter((one) => one !== null) }
}
