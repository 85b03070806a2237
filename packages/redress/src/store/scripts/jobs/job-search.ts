import type { Status } from '../../../core/job/states.ts'
import { asForwardOnly, type Policy } from '../../../core/policy/policy.ts'
import type { BatchKey, JobCount, JobFilter, JobKey, JobPage, JobRow } from '../../contract/store.ts'
import type { ScriptContext, Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { listed, NONE, sql } from '../tx/sql.ts'
import {
  indexedBy,
  inStatements,
  type KeyFilter,
  type Limits,
  type SilentTypes,
  sizeOf,
  type Walk,
  walked,
  walkOfAll,
  waysOf,
} from './job-walks.ts'
import type { KnownType } from './types.ts'

/**
 * How jobs are found: of the indexes that match a part of the filter, the search walks the one with the fewest jobs, from
 * the newest on, and checks the rest of the filter on each job. A walk is bounded: where hardly any job matches, a page
 * ends before it is full and says where to continue.
 */

/** How many jobs one page walks over at most. */
export const WALK_MAX = 20_000
/** How many jobs a count walks over at most: what is counted is not read. */
const COUNT_WALK_MAX = 50_000
/** A walk that is not longer is good enough: no better one is looked for. */
const SHORT_WALK = 1_000

const MAX_KEY: JobKey = Number.MAX_SAFE_INTEGER
/** Keys grow with time, but two that come at once may be a little out of order, and a clock may be set back a little. */
const SLACK_MS = 10_000

/** What the text of a search can mean: an id or the beginning of one, a dedupe key, a batch, a code, an owner, a type. */
type Meaning = Partial<Pick<KeyFilter, 'keys' | 'batch' | 'code' | 'owner' | 'types'>>

/** The beginning of an id is looked for only if it is long enough to be selective. */
export const ID_CHARS_MIN = 8
/** How many of the newest ids with the same beginning are found. Ids begin with the time: a minute shares eight. */
export const IDS_MAX = 2_000
const PART_OF_ID = /^[0-9a-f][0-9a-f-]*$/

/** Keys that match, the newest first. */
interface KeyPage {
  keys: JobKey[]
  /** All keys that match and are not below this one are in `keys`; 0 when all are. */
  coveredTo: JobKey
}

export function openJobSearch({ types }: ScriptContext) {
  /** null where no job can match. */
  const filterOf = function* (tx: Tx, filter: Omit<JobFilter, 'limit'>): Script<KeyFilter | null> {
    const { type, queue, owner, code, batch, retriedFrom, isOrphaned = false, beforeKey = MAX_KEY } = filter
    const { createdSinceMs = null, createdBeforeMs = null } = filter
    const known = types.known().filter((one) => (type ?? one.name) === one.name && (queue ?? one.queue) === one.queue)
    const span = batch === undefined ? null : yield* spanOfBatch(tx, batch)
    if (known.length === 0 || span?.last === null) return null
    const since = createdSinceMs === null ? 0 : yield* keySince(tx, createdSinceMs - SLACK_MS)
    const until = createdBeforeMs === null ? MAX_KEY : yield* keySince(tx, createdBeforeMs + SLACK_MS)
    return {
      statuses: statusesOf(filter),
      types: type === undefined && queue === undefined ? null : known.map(({ key }) => key),
      owner: owner ?? null,
      code: code ?? null,
      batch: span?.key ?? null,
      orphans: isOrphaned ? silentTypes(types.known(), yield* tx.now()) : null,
      keys: null,
      retriedFrom: retriedFrom ?? null,
      createdSinceMs,
      createdBeforeMs,
      sinceKey: Math.max(since, span?.first ?? 0),
      beforeKey: Math.min(beforeKey, until, (span?.last ?? MAX_KEY) + 1),
    }
  }

  const meaningsOf = function* (tx: Tx, text: string): Script<Meaning[]> {
    const id = partOfId(text)
    // No id has a 'g'. In some orders of letters, other ids lie between: they are left out by their beginning.
    const byId = sql`
      SELECT key FROM (SELECT key FROM job_specs
        WHERE id >= ${id} AND id < ${`${id}g`} AND substr(id, 1, ${id?.length ?? 0}) = ${id}
        ORDER BY id DESC LIMIT ${IDS_MAX}) AS alike
      UNION ALL`
    const byIndex = (name: string) => indexedBy(tx, name)
    const row = yield* tx.get<{ keys: string; batch: BatchKey | null; is_code: unknown; is_owner: unknown }>`
      SELECT (
          SELECT ${tx.dialect.jsonArray(sql`key`)} FROM (
            ${id === null ? NONE : byId}
            SELECT key FROM job_specs ${byIndex('one_job_per_dedupe_key')}
            WHERE type ${tx.dialect.inNumbers(types.known().map(({ key }) => key))} AND dedupe_key = ${text}
              AND dedupe_held IS NOT NULL) AS found) AS keys,
        (SELECT key FROM batches WHERE id = ${text}) AS batch,
        EXISTS (SELECT 1 FROM jobs ${byIndex('jobs_by_end')} WHERE ended_with = ${text}) AS is_code,
        EXISTS (SELECT 1 FROM job_specs ${byIndex('specs_of_owner')} WHERE owner = ${text}) AS is_owner`
    const { keys, batch, is_code, is_owner } = row as NonNullable<typeof row>
    const type = types.known().find(({ name }) => name === text)
    return [
      { keys: JSON.parse(keys) as JobKey[] },
      ...(batch === null ? [] : [{ batch }]),
      ...(is_code ? [{ code: text }] : []),
      ...(is_owner ? [{ owner: text }] : []),
      ...(type === undefined ? [] : [{ types: [type.key] }]),
    ]
  }

  /** One filter for each thing that the text can mean. */
  const meantBy = function* (tx: Tx, filter: Omit<JobFilter, 'limit'>): Script<KeyFilter[]> {
    const asked = yield* filterOf(tx, filter)
    if (asked === null || asked.statuses?.length === 0) return []
    if (filter.q === undefined) return [asked]
    return (yield* meaningsOf(tx, filter.q)).flatMap((meaning) => narrowed(asked, meaning) ?? [])
  }

  const choose = function* (tx: Tx, filter: KeyFilter): Script<Walk> {
    const ways = waysOf(tx, filter)
    const [first] = ways
    if (first === undefined) return walkOfAll(filter)
    if (ways.length === 1 && first.isOrdered) return first
    for (const max of [SHORT_WALK, WALK_MAX]) {
      const sizes = yield* tx.get<Record<string, number>>`
        SELECT ${listed(ways.map((way, i) => sql`${sizeOf(way, max)} AS ${sql([`n${i}`])}`))}`
      const best = Object.values(sizes ?? {}).reduce((least, n) => Math.min(least, n), max)
      // Of equal ones the first: it promises most.
      if (best < max) return ways.find((_, i) => sizes?.[`n${i}`] === best) as Walk
    }
    return ways.find(({ isOrdered }) => isOrdered) ?? walkOfAll(filter)
  }

  const pageOfKeys = function* (tx: Tx, filter: KeyFilter, limits: Limits): Script<KeyPage> {
    const pages: KeyPage[] = []
    for (const walk of inStatements(yield* choose(tx, filter))) {
      const rows = yield* tx.all<{ key: JobKey; is_floor: number }>`
        SELECT key, is_floor FROM (${walked(tx, filter, walk, limits)}) AS found
        ORDER BY is_floor DESC, key DESC LIMIT ${limits.count + walk.lanes.length}`
      const floor = rows[0]?.is_floor === 1 ? rows[0].key : 0
      const keys = rows.filter(({ is_floor, key }) => is_floor === 0 && key >= floor).map(({ key }) => key)
      pages.push(cut(keys, floor, limits.count))
    }
    return merged(pages, limits.count)
  }

  /** Goes no further than it must: it does not matter which of the matching jobs are counted. */
  const countOfKeys = function* (tx: Tx, filter: KeyFilter, { count, walkMax }: Limits): Script<JobCount> {
    const sum: JobCount = { count: 0, isMore: false }
    for (const walk of inStatements(yield* choose(tx, filter))) {
      const left = count - sum.count
      if (left <= 0) break
      const row = yield* tx.get<{ found: number; floors: number }>`
        SELECT count(*) AS found, CAST(coalesce(sum(is_floor), 0) AS bigint) AS floors FROM (
          SELECT is_floor FROM (${walked(tx, filter, walk, { count: left, walkMax })}) AS found LIMIT ${left}) AS some_of_them`
      const { found, floors } = row as NonNullable<typeof row>
      sum.count += found - floors
      if (floors > 0) sum.isMore = true
    }
    return sum
  }

  const keysOf = function* (tx: Tx, meant: readonly KeyFilter[], limits: Limits): Script<KeyPage> {
    const pages = yield* tx.together(...meant.map((one) => pageOfKeys(tx, one, limits)))
    return merged(pages, limits.count)
  }

  return {
    /** One page of keys, and where to continue. */
    *page(tx: Tx, filter: JobFilter): Script<{ keys: JobKey[]; nextKey: JobKey | null }> {
      const { limit } = filter
      // One more than asked for tells whether there are more.
      const { keys, coveredTo } = yield* keysOf(tx, yield* meantBy(tx, filter), { count: limit + 1, walkMax: WALK_MAX })
      if (keys.length > limit) return { keys: keys.slice(0, limit), nextKey: keys[limit - 1] ?? null }
      return { keys, nextKey: coveredTo === 0 ? null : coveredTo }
    },

    *count(tx: Tx, filter: Omit<JobFilter, 'limit'>, max: number): Script<JobCount> {
      const meant = yield* meantBy(tx, filter)
      const limits = { count: max + 1, walkMax: COUNT_WALK_MAX }
      const [only] = meant
      if (meant.length === 1 && only !== undefined) {
        const { count, isMore } = yield* countOfKeys(tx, only, limits)
        return { count: Math.min(count, max), isMore: isMore || count > max }
      }
      // A job may be meant in several ways, and counts once.
      const { keys, coveredTo } = yield* keysOf(tx, meant, limits)
      return { count: Math.min(keys.length, max), isMore: coveredTo > 0 || keys.length > max }
    },
  }
}

/** Page by page until there are enough. */
export async function jobsOf(filter: JobFilter, read: (filter: JobFilter) => Promise<JobPage>): Promise<JobRow[]> {
  const found: JobRow[] = []
  let { beforeKey } = filter
  while (found.length < filter.limit) {
    const limit = filter.limit - found.length
    const { jobs, nextKey } = await read({ ...filter, limit, ...(beforeKey !== undefined && { beforeKey }) })
    found.push(...jobs)
    if (nextKey === null) break
    beforeKey = nextKey
  }
  return found
}

// ---- what a filter asks for -----------------------------------------------------------------------------------------

function statusesOf({ status, isActive }: Pick<JobFilter, 'status' | 'isActive'>): readonly Status[] | null {
  if (!isActive) return status === undefined ? null : [status]
  return (['queued', 'processing'] as const).filter((one) => (status ?? one) === one)
}

function silentTypes(known: readonly KnownType[], nowMs: number): SilentTypes {
  const reports = ({ orphan }: Policy) => orphan.action === 'report'
  const keysOf = (isOne: (policy: Policy) => boolean) =>
    known.filter(({ policy }) => isOne(policy)).map(({ key }) => key)
  return { nowMs, reporting: keysOf(reports), forwardOnly: keysOf((policy) => reports(asForwardOnly(policy))) }
}

/** The beginning of an id that a text can be, or null. */
function partOfId(text: string): string | null {
  const part = text.toLowerCase()
  return part.length >= ID_CHARS_MIN && part.length <= 36 && PART_OF_ID.test(part) ? part : null
}

/** The filter for one meaning of its text; null where no job can match both. */
function narrowed(filter: KeyFilter, { types, keys, ...named }: Meaning): KeyFilter | null {
  if (keys) return keys.length === 0 ? null : { ...filter, keys }
  if (types) {
    const both = types.filter((type) => filter.types?.includes(type) ?? true)
    return both.length === 0 ? null : { ...filter, types: both }
  }
  for (const name of ['batch', 'code', 'owner'] as const) {
    const isOther = named[name] !== undefined && filter[name] !== null && filter[name] !== named[name]
    if (isOther) return null
  }
  return { ...filter, ...named }
}

/** The first and the last job of a batch: jobs outside of these keys need not be looked at. */
function* spanOfBatch(tx: Tx, id: string): Script<{ key: BatchKey; first: JobKey | null; last: JobKey | null }> {
  const ofBatch = sql`FROM job_specs ${indexedBy(tx, 'specs_of_batch')} WHERE batch = batches.key`
  const row = yield* tx.get<{ key: BatchKey; first: JobKey | null; last: JobKey | null }>`
    SELECT key, (SELECT min(key) ${ofBatch}) AS first, (SELECT max(key) ${ofBatch}) AS last
    FROM batches WHERE id = ${id}`
  return row ?? { key: 0, first: null, last: null }
}

/** The first key that was given since then. Keys grow with time, so it is found by halving. */
function* keySince(tx: Tx, ms: number): Script<JobKey> {
  const isOlder = sql`
    (SELECT created_at FROM job_specs WHERE job_specs.key >= (low + high) / 2 ORDER BY key LIMIT 1) < CAST(${ms} AS bigint)`
  const row = yield* tx.get<{ low: JobKey }>`
    WITH RECURSIVE halving (low, high) AS (
      SELECT coalesce((SELECT min(key) FROM job_specs), 0), coalesce((SELECT max(key) FROM job_specs) + 1, 0)
      UNION ALL
      SELECT CASE WHEN ${isOlder} THEN (low + high) / 2 + 1 ELSE low END,
        CASE WHEN ${isOlder} THEN high ELSE (low + high) / 2 END
      FROM halving WHERE low < high
    )
    SELECT low FROM halving WHERE low >= high LIMIT 1`
  return row?.low ?? 0
}

// ---- pages of keys --------------------------------------------------------------------------------------------------

function cut(keys: readonly JobKey[], floor: JobKey, count: number): KeyPage {
  const newest = keys.slice(0, count)
  return { keys: newest, coveredTo: newest.length < count ? floor : (newest.at(-1) as JobKey) }
}

/** One page of several: it goes no further down than each of them was covered. */
function merged(pages: readonly KeyPage[], count: number): KeyPage {
  const floor = Math.max(0, ...pages.map(({ coveredTo }) => coveredTo))
  const keys = [...new Set(pages.flatMap((page) => page.keys))].filter((key) => key >= floor).sort((a, b) => b - a)
  return cut(keys, floor, count)
}
