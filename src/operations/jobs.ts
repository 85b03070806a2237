import { z } from 'zod'
import { actionsFor } from '../core/actions.ts'
import type { JobEvent } from '../core/events.ts'
import { explain } from '../core/explain.ts'
import type { FailureGroup } from '../core/failure-group.ts'
import { eventForOwner, failureForOwner, holdForOwner, jobForOwner } from '../core/for-owner.ts'
import { isoTime } from '../core/iso-time.ts'
import type { FailureRecord } from '../core/record.ts'
import { STATUSES } from '../core/states.ts'
import { type JobView, viewJob } from '../core/view.ts'
import { viewEvent, viewFailure } from '../core/view-history.ts'
import { foldAll } from '../store/failure-groups.ts'
import { ID_CHARS_MIN, IDS_MAX } from '../store/job-search.ts'
import type { JobCount, JobFilter, JobRow, Store } from '../store/store.ts'
import { actionsNow } from './admit-retry.ts'
import { holdsOf } from './holds.ts'
import { aboutJob, asOfNow, neededJob } from './needed-job.ts'
import { type Context, idField, limitField, operation, ownerField, typeField } from './operation.ts'
import { eventsSchema, explanationSchema, failuresSchema } from './outputs/history.ts'
import { jobCountSchema, jobDetailSchema, jobListingSchema, jobListSchema } from './outputs/job.ts'
import { momentField, momentMs } from './time-field.ts'

const LIST_MAX = 1_000
const COUNT_MAX = 10_000
const ACTIVE_COUNT_MAX = 1_000

export interface JobList {
  jobs: JobView[]
  /** Give it as `cursor` for the older ones; null when these were the last. */
  nextCursor: string | null
}

export interface JobListing extends JobList {
  /** Queued or processing, whatever else was asked for, of the owner who was asked for; 1000 stands for more, too. */
  activeCount: number
  /** When this was read, by the store's clock. */
  timestamp: string
}

const filterFields = {
  status: z.enum(STATUSES).optional().describe('only jobs of this status'),
  type: typeField.optional().describe('only jobs of this type'),
  queue: z.string().min(1).optional().describe('only jobs of the types of this queue'),
  owner: z.string().min(1).optional().describe('only jobs of this owner'),
  code: z.string().min(1).optional().describe('only failed jobs that ended with this code'),
  batch: z.string().min(1).optional().describe('only jobs that have a place in this batch'),
  retriedFrom: z.string().min(1).optional().describe('only jobs that somebody made from this one, by its id'),
  since: momentField('only jobs created since then'),
  until: momentField('only jobs created before then'),
  q: z
    .string()
    .trim()
    .min(1)
    .max(500)
    .optional()
    .describe(
      `only jobs that this belongs to, exactly: their id, the first ${ID_CHARS_MIN} or more characters of it (the newest ${IDS_MAX} that begin so), ` +
        'their dedupe key while they hold it, the id of their batch, the code they ended with, their owner or their type',
    ),
}

type FilterInput = z.output<z.ZodObject<typeof filterFields>>

/** What is left out is not asked for. */
async function filterOf(store: Store, { since, until, ...rest }: FilterInput): Promise<Omit<JobFilter, 'limit'>> {
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined))
  if (since === undefined && until === undefined) return given
  const nowMs = await store.nowMs()
  return {
    ...given,
    ...(since !== undefined && { createdSinceMs: momentMs(since, 'since', nowMs) }),
    ...(until !== undefined && { createdBeforeMs: momentMs(until, 'until', nowMs) }),
  }
}

const cursorField = z.coerce.number().int().min(1).optional()
const CURSOR_HELP =
  'go on after the last page, with its nextCursor; where few jobs fit, a page may have less than its limit, or none, and ' +
  'yet not be the last'

export const list = operation('jobs.list', {
  input: z.strictObject({ ...filterFields, limit: limitField(LIST_MAX), cursor: cursorField.describe(CURSOR_HELP) }),
  output: jobListingSchema,
  run: async ({ store }, { limit, cursor, ...asked }): Promise<JobListing> => {
    const filter = { ...(await filterOf(store, asked)), limit, ...(cursor !== undefined && { beforeKey: cursor }) }
    const active = { isActive: true, ...(asked.owner !== undefined && { owner: asked.owner }), max: ACTIVE_COUNT_MAX }
    // The time comes first: whoever asks for what came since then misses nothing.
    const nowMs = await store.nowMs()
    const [listed, { count }] = await Promise.all([page(store, filter), store.countJobs(active)])
    return { jobs: listed.jobs, activeCount: count, timestamp: isoTime(nowMs), nextCursor: listed.nextCursor }
  },
})

export const count = operation('jobs.count', {
  input: z.strictObject(filterFields),
  output: jobCountSchema,
  run: async ({ store }, asked): Promise<JobCount> =>
    store.countJobs({ ...(await filterOf(store, asked)), max: COUNT_MAX }),
})

export const orphans = operation('orphans.list', {
  input: z.strictObject({
    type: typeField.optional().describe('only jobs of this type'),
    limit: limitField(LIST_MAX),
    cursor: cursorField.describe('go on after the last page, with its nextCursor'),
  }),
  output: jobListSchema,
  run: ({ store }, { type, limit, cursor }) =>
    page(store, {
      isOrphaned: true,
      limit,
      ...(type !== undefined && { type }),
      ...(cursor !== undefined && { beforeKey: cursor }),
    }),
})

async function page(store: Store, filter: JobFilter): Promise<JobList> {
  const { jobs, nextKey } = await store.jobPage(filter)
  const [holds, shown] = [await holdsOf(store, jobs), await asOfNow(store, jobs)]
  return {
    jobs: jobs.map((row, at) => viewJob(shown[at] ?? row, actionsFor(row), holds(row))),
    nextCursor: nextKey === null ? null : String(nextKey),
  }
}

export interface JobDetail extends JobView {
  input: unknown
}

export const show = operation('jobs.show', {
  input: z.strictObject({ id: idField, owner: ownerField }),
  output: jobDetailSchema,
  about: aboutJob,
  run: async (context, { id, owner }) => detailOf(context, await neededJob(context.store, id, owner)),
})

export async function detailOf(context: Pick<Context, 'admitRetry' | 'store'>, job: JobRow): Promise<JobDetail> {
  const holds = await holdsOf(context.store, [job])
  const [shown = job] = await asOfNow(context.store, [job])
  return { ...viewJob(shown, await actionsNow(context, job), holds(job)), input: JSON.parse(job.payload) }
}

export const events = operation('jobs.events', {
  input: z.strictObject({ id: idField, owner: ownerField }),
  output: eventsSchema,
  about: aboutJob,
  run: async (context, { id, owner }) => {
    const job = await neededJob(context.store, id, owner)
    return { events: (await eventsFor(context, job, owner)).map(viewEvent) }
  },
})

export const failures = operation('jobs.failures', {
  input: z.strictObject({ id: idField, owner: ownerField }),
  output: failuresSchema,
  about: aboutJob,
  run: async (context, { id, owner }) => {
    const job = await neededJob(context.store, id, owner)
    return { failures: (await failuresFor(context, job, owner)).map(viewFailure) }
  },
})

export const explanation = operation('jobs.explain', {
  input: z.strictObject({ id: idField, owner: ownerField }),
  output: explanationSchema,
  about: aboutJob,
  run: async (context, { id, owner }) => {
    const { store } = context
    const job = await neededJob(store, id, owner)
    // How many others have the same trouble is for those who see the others.
    const group = owner === undefined ? await groupOf(store, job) : null
    const [history, failed, nowMs] = await Promise.all([
      eventsFor(context, job, owner),
      failuresFor(context, job, owner),
      store.nowMs(),
    ])
    const found = (await holdsOf(store, [job]))(job)
    const [shown, holds] =
      owner === undefined ? [job, found] : [jobForOwner(job, ownCodes(context, job)), found.map(holdForOwner)]
    const explained = explain({ job: shown, events: history, failures: failed, group, holds, nowMs })
    return { ...explained, actions: await actionsNow(context, job) }
  },
})

/** `owner` is given by whoever may see only their own: the rest of the history is for operators. */
async function eventsFor(context: Shown, job: JobRow, owner: string | undefined): Promise<JobEvent[]> {
  const found = await context.store.events({ id: job.id })
  return owner === undefined ? found : found.map((event) => eventForOwner(event, owner, ownCodes(context, job)))
}

async function failuresFor(context: Shown, job: JobRow, owner: string | undefined): Promise<FailureRecord[]> {
  const found = await context.store.failures({ id: job.id })
  return owner === undefined ? found : found.map((failure) => failureForOwner(failure, ownCodes(context, job)))
}

type Shown = Pick<Context, 'store' | 'ownerCodes'>

const ownCodes =
  ({ ownerCodes }: Shown, { type }: JobRow) =>
  (code: string) =>
    ownerCodes(type, code)

/** Counting is cut short where there is much to catch up with: an answer about one job must not wait for it. */
const FOLD_STEPS_MAX = 10

async function groupOf(store: Store, { latestFailure, policy }: JobRow): Promise<FailureGroup | null> {
  if (latestFailure === null || !policy.aggregates) return null
  await foldAll(store, FOLD_STEPS_MAX)
  return (await store.failureGroup({ fingerprint: latestFailure.fingerprint }))?.group ?? null
}
