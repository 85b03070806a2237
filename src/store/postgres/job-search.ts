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
  type Meaning,
  mergedPage,
  narrowed,
  partOfId,
  SLACK_MS,
  silentTypes,
  statusesOf,
  WALK_MAX,
  withinBatch,
} from '../job-search.ts'
import type { KnownType } from '../known-type.ts'
import type { BatchKey, JobCount, JobFilter, JobKey } from '../store.ts'
import { numbers } from './arrays.ts'
import type { Pool } from './client.ts'
import { countOfKeys, type Limits, pageOfKeys } from './job-pages.ts'
import { printable } from './text.ts'

/** Queries the database clock, and only if the time matters. */
type Clock = () => Promise<number>

const MAX_KEY: JobKey = Number.MAX_SAFE_INTEGER

/** One page of keys, and where to go on. */
export async function pageOf(sql: Pool, known: readonly KnownType[], filter: JobFilter, clock: Clock) {
  const meant = await meantBy(sql, known, filter, clock)
  return cutPage(await keysOf(sql, known, meant, { count: filter.limit + 1, walkMax: WALK_MAX }), filter.limit)
}

export async function countOfJobs(
  sql: Pool,
  known: readonly KnownType[],
  filter: Omit<JobFilter, 'limit'>,
  max: number,
  clock: Clock,
): Promise<JobCount> {
  const meant = await meantBy(sql, known, filter, clock)
  const limits = { count: max + 1, walkMax: COUNT_WALK_MAX }
  const [only] = meant
  const isOne = meant.length === 1 && only !== undefined
  // A job may be meant in several ways, and counts once.
  const counted = isOne ? await countOfKeys(sql, only, known, limits) : countOf(await keysOf(sql, known, meant, limits))
  return cutCount(counted, max)
}

async function keysOf(sql: Pool, known: readonly KnownType[], meant: readonly KeyFilter[], limits: Limits) {
  const pages = await Promise.all(meant.map((one) => pageOfKeys(sql, one, known, limits)))
  return mergedPage(pages, limits.count)
}

async function meantBy(
  sql: Pool,
  known: readonly KnownType[],
  filter: Omit<JobFilter, 'limit'>,
  clock: Clock,
): Promise<KeyFilter[]> {
  const asked = await filterOf(sql, known, filter, clock)
  if (asked === null || asked.statuses?.length === 0) return []
  if (filter.q === undefined) return [asked]
  return (await meaningsOf(sql, known, filter.q)).flatMap((meaning) => narrowed(asked, meaning) ?? [])
}

/** null where no job can fit. */
async function filterOf(
  sql: Pool,
  known: readonly KnownType[],
  filter: Omit<JobFilter, 'limit'>,
  clock: Clock,
): Promise<KeyFilter | null> {
  const { type, queue, owner, code, batch, retriedFrom, isOrphaned = false, beforeKey = MAX_KEY } = filter
  const { createdSinceMs = null, createdBeforeMs = null } = filter
  const types = known.filter((one) => (type ?? one.name) === one.name && (queue ?? one.queue) === one.queue)
  const span = batch === undefined ? null : await spanOfBatch(sql, batch)
  if (types.length === 0 || span?.last === null) return null
  const since = createdSinceMs === null ? 0 : await keySince(sql, createdSinceMs - SLACK_MS)
  const until = createdBeforeMs === null ? MAX_KEY : await keySince(sql, createdBeforeMs + SLACK_MS)
  return {
    statuses: statusesOf(filter),
    types: type === undefined && queue === undefined ? null : types.map(({ key }) => key),
    owner: owner ?? null,
    code: code ?? null,
    batch: span?.key ?? null,
    orphans: isOrphaned ? silentTypes(known, await clock()) : null,
    keys: null,
    retriedFrom: retriedFrom ?? null,
    createdSinceMs,
    createdBeforeMs,
    ...withinBatch(span, since, Math.min(beforeKey, until)),
  }
}

async function spanOfBatch(sql: Pool, id: string): Promise<BatchSpan> {
  const [row] = await sql<BatchSpan[]>`
    SELECT key, (SELECT min(key) FROM job_specs WHERE batch = batches.key) AS first,
      (SELECT max(key) FROM job_specs WHERE batch = batches.key) AS last
    FROM batches WHERE id = ${printable(id)}`
  return row ?? EMPTY_BATCH
}

/** The first key that was given since then: keys grow with time, so that it is found by halving. */
async function keySince(sql: Pool, ms: number): Promise<JobKey> {
  const [row] = await sql<{ low: JobKey }[]>`
    WITH RECURSIVE halving (low, high) AS (
      SELECT coalesce((SELECT min(key) FROM job_specs), 0), coalesce((SELECT max(key) FROM job_specs) + 1, 0)
      UNION ALL
      SELECT CASE WHEN is_older THEN middle + 1 ELSE low END, CASE WHEN is_older THEN high ELSE middle END
      FROM (
        SELECT low, high, middle,
          (SELECT created_at FROM job_specs WHERE key >= middle ORDER BY key LIMIT 1) < ${ms}::bigint AS is_older
        FROM (SELECT low, high, (low + high) / 2 AS middle FROM halving WHERE low < high) AS half) AS looked
    )
    SELECT low FROM halving WHERE low >= high LIMIT 1`
  return row?.low ?? 0
}

async function meaningsOf(sql: Pool, known: readonly KnownType[], given: string): Promise<Meaning[]> {
  const text = printable(given)
  const id = partOfId(text)
  // Whatever the order of letters is in this database: what lies between and does not begin so is left out.
  const begins =
    id === null
      ? sql`SELECT NULL::bigint AS key WHERE false`
      : sql`SELECT key FROM job_specs WHERE id >= ${id} AND id < ${endOfIds(id)} AND starts_with(id, ${id})
          ORDER BY id DESC LIMIT ${IDS_MAX}`
  const [row] = await sql<{ keys: string | null; batch: BatchKey | null; is_code: boolean; is_owner: boolean }[]>`
    SELECT (
        SELECT string_agg(key::text, ',') FROM (
          (${begins})
          UNION ALL
          SELECT held.key FROM unnest(${numbers(known.map(({ key }) => key))}::bigint[]) AS lane (type)
          CROSS JOIN LATERAL (
            SELECT key FROM job_specs
            WHERE type = lane.type AND dedupe_key = ${text} AND dedupe_held IS NOT NULL) AS held) AS found) AS keys,
      (SELECT key FROM batches WHERE id = ${text}) AS batch,
      EXISTS (SELECT 1 FROM jobs WHERE ended_with = ${text}) AS is_code,
      EXISTS (SELECT 1 FROM job_specs WHERE owner = ${text}) AS is_owner`
  const { keys, batch, is_code, is_owner } = row as NonNullable<typeof row>
  const type = known.find(({ name }) => name === text)
  return [
    { keys: keys?.split(',').map(Number) ?? [] },
    ...(batch === null ? [] : [{ batch }]),
    ...(is_code ? [{ code: text }] : []),
    ...(is_owner ? [{ owner: text }] : []),
    ...(type === undefined ? [] : [{ types: [type.key] }]),
  ]
}
