import { asForwardOnly, type Policy } from '../core/policy.ts'
import type { Status } from '../core/states.ts'
import type { KnownType } from './known-type.ts'
import type { BatchKey, JobCount, JobFilter, JobKey, JobPage, JobRow } from './store.ts'

/**
 * How jobs are found, in every driver: of the indexes that know something of a filter, the one with the fewest jobs is
 * walked from the newest on, and the rest of the filter is asked of each job on the way. A walk is bounded: where
 * hardly any job fits, a page ends before it is full, and says where to go on.
 */

/** For one page. */
export const WALK_MAX = 20_000
/** For one number: what is counted is not read. */
export const COUNT_WALK_MAX = 50_000
/** A walk that is not longer is good enough: no better one is looked for. */
export const SHORT_WALK = 1_000

/** A filter in the database's own numbers. What is null is not asked for. */
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
  /** What was created since then has this key or a higher one. */
  sinceKey: JobKey
  /** What was created before then has a lower key than this. */
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

export function silentTypes(known: readonly KnownType[], nowMs: number): SilentTypes {
  const reports = ({ orphan }: Policy) => orphan.action === 'report'
  const keysOf = (isOne: (policy: Policy) => boolean) =>
    known.filter(({ policy }) => isOne(policy)).map(({ key }) => key)
  return { nowMs, reporting: keysOf(reports), forwardOnly: keysOf((policy) => reports(asForwardOnly(policy))) }
}

/** What the text of a search may be: an id or the beginning of one, a dedupe key, the id of a batch, a code, ... */
export type Meaning =
  | { keys: readonly JobKey[] }
  | { batch: BatchKey }
  | { code: string }
  | { owner: string }
  | { types: readonly number[] }

/** A part of an id is looked for only if it is so long that it says something. */
export const ID_CHARS_MIN = 8
/** Of those that begin with the same characters, so many of the newest. Ids begin with the time: a minute shares eight. */
export const IDS_MAX = 2_000
const PART_OF_ID = /^[0-9a-f][0-9a-f-]*$/

/** The beginning of an id that a text may be, or null. */
export function partOfId(text: string): string | null {
  const part = text.toLowerCase()
  return part.length >= ID_CHARS_MIN && part.length <= 36 && PART_OF_ID.test(part) ? part : null
}

/** Greater than all ids that begin so, and not greater than others: no id has a 'g'. */
export const endOfIds = (part: string): string => `${part}g`

/** Keys grow with time, but two that come at once may be a little out of order, and a clock may be set back a little. */
export const SLACK_MS = 10_000

/** The first and the last job of a batch: what is looked for in it need not be looked for elsewhere. */
export interface BatchSpan {
  key: BatchKey
  first: JobKey | null
  last: JobKey | null
}

export const EMPTY_BATCH: BatchSpan = { key: 0, first: null, last: null }

export const withinBatch = (span: BatchSpan | null, sinceKey: JobKey, beforeKey: JobKey) => ({
  sinceKey: Math.max(sinceKey, span?.first ?? 0),
  beforeKey: Math.min(beforeKey, (span?.last ?? Number.MAX_SAFE_INTEGER) + 1),
})

export const statusesOf = ({ status, isActive }: Pick<JobFilter, 'status' | 'isActive'>): readonly Status[] | null => {
  if (!isActive) return status === undefined ? null : [status]
  return status === undefined ? ['queued', 'processing'] : [status].filter(isUnfinished)
}

const isUnfinished = (status: Status): boolean => status === 'queued' || status === 'processing'

/** The filter for one meaning of its text; null where no job can be both. */
export function narrowed(filter: KeyFilter, meaning: Meaning): KeyFilter | null {
  if ('keys' in meaning) return meaning.keys.length === 0 ? null : { ...filter, keys: meaning.keys }
  if ('batch' in meaning) return isOther(filter.batch, meaning.batch) ? null : { ...filter, batch: meaning.batch }
  if ('code' in meaning) return isOther(filter.code, meaning.code) ? null : { ...filter, code: meaning.code }
  if ('owner' in meaning) return isOther(filter.owner, meaning.owner) ? null : { ...filter, owner: meaning.owner }
  const types = meaning.types.filter((type) => filter.types?.includes(type) ?? true)
  return types.length === 0 ? null : { ...filter, types }
}

const isOther = <T>(asked: T | null, meant: T): boolean => asked !== null && asked !== meant

/** Keys that fit, the newest first. */
export interface KeyPage {
  keys: JobKey[]
  /** Of those that fit, all that have this key or a higher one are among the keys; 0 when all are. */
  coveredTo: JobKey
}

/** What walks have found, up to `count`: `floor` is where one was cut off, null where all came to their end. */
export function pageOfWalk(found: readonly JobKey[], floor: JobKey | null, count: number): KeyPage {
  const keys = found.filter((key) => floor === null || key >= floor).sort((a, b) => b - a)
  return { keys, coveredTo: keys.length < count ? (floor ?? 0) : (keys.at(-1) as JobKey) }
}

/** One page of several: it goes no further down than each of them was covered. */
export function mergedPage(pages: readonly KeyPage[], count: number): KeyPage {
  const coveredTo = Math.max(0, ...pages.map((page) => page.coveredTo))
  const all = [...new Set(pages.flatMap((page) => page.keys))].filter((key) => key >= coveredTo).sort((a, b) => b - a)
  const keys = all.slice(0, count)
  return { keys, coveredTo: keys.length < count ? coveredTo : (keys.at(-1) as JobKey) }
}

/** From one more than asked for, which tells whether there are more. */
export function cutPage({ keys, coveredTo }: KeyPage, limit: number): { keys: JobKey[]; nextKey: JobKey | null } {
  if (keys.length > limit) return { keys: keys.slice(0, limit), nextKey: keys[limit - 1] ?? null }
  return { keys, nextKey: coveredTo === 0 ? null : coveredTo }
}

/** From one more than `max`, likewise. */
export const cutCount = ({ count, isMore }: JobCount, max: number): JobCount =>
  count > max ? { count: max, isMore: true } : { count, isMore }

export const countOf = ({ keys, coveredTo }: KeyPage): JobCount => ({ count: keys.length, isMore: coveredTo > 0 })

/** A way to find jobs. */
export interface Way {
  /** Walked in the order of keys; else all of it is gathered first, so that it must be short. */
  isOrdered: boolean
}

/**
 * The way with the fewest jobs. `ways` are given with what promises most first; `all` leads through every job.
 * `sizes` are exact below `max`, up to which they were counted.
 */
export function shortest<W extends Way>(ways: readonly W[], sizes: readonly number[], max: number): W | null {
  const best = sizes.indexOf(Math.min(...sizes))
  return (sizes[best] ?? max) < max ? (ways[best] as W) : null
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
