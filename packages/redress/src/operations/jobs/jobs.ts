import { z } from 'zod'
import { RedressError } from '../../core/errors.ts'
import { explain, explanationSchema } from '../../core/explain/explain.ts'
import type { FailureGroup } from '../../core/failure/group.ts'
import { actionsFor } from '../../core/job/actions.ts'
import type { JobEvent } from '../../core/job/events.ts'
import type { FailureRecord } from '../../core/job/record.ts'
import { STATUSES } from '../../core/job/states.ts'
import { isoTime } from '../../core/text/duration.ts'
import { anything, count, done, flag, nextCursor, time } from '../../core/views/fields.ts'
import { eventForOwner, failureForOwner, holdForOwner, jobForOwner } from '../../core/views/for-owner.ts'
import { eventSchema, failureSchema, jobSchema, viewEvent, viewFailure, viewJob } from '../../core/views/job.ts'
import { foldAll } from '../../store/contract/failure-groups.ts'
import type { JobFilter, JobRow, Store, Submitted } from '../../store/contract/store.ts'
import { ID_CHARS_MIN, IDS_MAX } from '../../store/scripts/jobs/job-search.ts'
import {
  cursorField,
  dryRunField,
  durationInput,
  idField,
  limitField,
  momentField,
  momentMs,
  ownerField,
  typeField,
} from '../input-fields.ts'
import { type Context, operation } from '../operation.ts'
import { actionsNow } from './admit-retry.ts'
import { promote, replaceInput, reprioritise, reschedule } from './changes.ts'
import { deleteJob } from './deletion.ts'
import { holdsOf } from './holds.ts'
import { cancel, markFailed, retry } from './interventions.ts'
import { lastLinesOf, lastLinesSchema, logs as listLogs, NO_LINES } from './logs.ts'
import { aboutJob, asOfNow, neededJob } from './needed-job.ts'

const LIST_MAX = 1_000
const COUNT_MAX = 10_000
const ACTIVE_COUNT_MAX = 1_000

const jobListSchema = z.strictObject({ jobs: z.array(jobSchema), nextCursor })
type JobList = z.infer<typeof jobListSchema>

const jobListingSchema = z.strictObject({
  ...jobListSchema.shape,
  activeCount: count.describe('queued and processing jobs of the owner, counted up to 1000'),
  timestamp: time.describe(`when this was read, by the store's clock`),
})

const jobDetailSchema = z.strictObject({
  ...jobSchema.shape,
  input: anything,
  logs: lastLinesSchema.describe('the newest lines of its log; none for owners'),
})
type JobDetail = z.infer<typeof jobDetailSchema>

const filterFields = {
  status: z.enum(STATUSES).optional().describe('only jobs of this status'),
  type: typeField.optional().describe('only jobs of this type'),
  queue: z.string().min(1).optional().describe('only jobs of this queue'),
  owner: z.string().min(1).optional().describe('only jobs of this owner'),
  code: z.string().min(1).optional().describe('only failed jobs that ended with this code'),
  batch: z.string().min(1).optional().describe('only jobs of this batch'),
  retriedFrom: z.string().min(1).optional().describe('only retries of the job with this id'),
  since: momentField('only jobs created since'),
  until: momentField('only jobs created before'),
  q: z
    .string()
    .trim()
    .min(1)
    .max(500)
    .optional()
    .describe(
      'only jobs with exactly this id, dedupe key (while the job holds it), batch id, failure code, owner or type, ' +
        `or with an id that begins with these ${ID_CHARS_MIN} or more characters (the newest ${IDS_MAX})`,
    ),
}

type FilterInput = z.output<z.ZodObject<typeof filterFields>>

/** Undefined fields do not filter. */
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

const CURSOR_HELP =
  'continue after the last page: its nextCursor; a page with fewer jobs than the limit is not always the last'

const listJobs = operation('jobs.list', {
  input: z.strictObject({ ...filterFields, limit: limitField(LIST_MAX), cursor: cursorField.describe(CURSOR_HELP) }),
  output: jobListingSchema,
  run: async ({ store }, { limit, cursor, ...asked }) => {
    const filter = { ...(await filterOf(store, asked)), limit, ...(cursor !== undefined && { beforeKey: cursor }) }
    const active = { isActive: true, ...(asked.owner !== undefined && { owner: asked.owner }), max: ACTIVE_COUNT_MAX }
    // The time is read first, so a client that polls from it misses no job.
    const nowMs = await store.nowMs()
    const [listed, { count }] = await Promise.all([page(store, filter), store.countJobs(active)])
    return { jobs: listed.jobs, activeCount: count, timestamp: isoTime(nowMs), nextCursor: listed.nextCursor }
  },
})

const countJobs = operation('jobs.count', {
  input: z.strictObject(filterFields),
  output: z.strictObject({ count, isMore: flag.describe('there may be more: counting stops at a limit') }),
  run: async ({ store }, asked) => store.countJobs({ ...(await filterOf(store, asked)), max: COUNT_MAX }),
})

const listOrphans = operation('orphans.list', {
  input: z.strictObject({
    type: typeField.optional().describe('only jobs of this type'),
    limit: limitField(LIST_MAX),
    cursor: cursorField,
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

const showJob = operation('jobs.show', {
  input: z.strictObject({ id: idField, owner: ownerField }),
  output: jobDetailSchema,
  about: aboutJob,
  run: async (context, { id, owner }) => detailOf(context, await neededJob(context.store, id, owner), owner),
})

/** `owner` is set for owners: the log is for operators. */
async function detailOf(
  context: Pick<Context, 'admitRetry' | 'store'>,
  job: JobRow,
  owner: string | undefined,
): Promise<JobDetail> {
  const logs = owner === undefined ? await lastLinesOf(context.store, job) : NO_LINES
  const holds = await holdsOf(context.store, [job])
  const [shown = job] = await asOfNow(context.store, [job])
  return { ...viewJob(shown, await actionsNow(context, job), holds(job)), input: JSON.parse(job.payload), logs }
}

const listEvents = operation('jobs.events', {
  input: z.strictObject({ id: idField, owner: ownerField }),
  output: z.strictObject({ events: z.array(eventSchema) }),
  about: aboutJob,
  run: async (context, { id, owner }) => {
    const job = await neededJob(context.store, id, owner)
    return { events: (await eventsFor(context, job, owner)).map(viewEvent) }
  },
})

const listFailures = operation('jobs.failures', {
  input: z.strictObject({ id: idField, owner: ownerField }),
  output: z.strictObject({ failures: z.array(failureSchema) }),
  about: aboutJob,
  run: async (context, { id, owner }) => {
    const job = await neededJob(context.store, id, owner)
    return { failures: (await failuresFor(context, job, owner)).map(viewFailure) }
  },
})

const explainJob = operation('jobs.explain', {
  input: z.strictObject({ id: idField, owner: ownerField }),
  output: explanationSchema,
  about: aboutJob,
  run: async (context, { id, owner }) => {
    const { store } = context
    const job = await neededJob(store, id, owner)
    // Owners must not learn about jobs of others from the failure group.
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

/** `owner` is set for owners: the full history is for operators. */
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

/** Counting stops after some steps: the answer about one job must not wait for a large backlog. */
const FOLD_STEPS_MAX = 10

async function groupOf(store: Store, { latestFailure, policy }: JobRow): Promise<FailureGroup | null> {
  if (latestFailure === null || !policy.aggregates) return null
  await foldAll(store, FOLD_STEPS_MAX)
  return (await store.failureGroup({ fingerprint: latestFailure.fingerprint }))?.group ?? null
}

const keyInput = z.union([z.string().min(1), z.array(z.union([z.string(), z.number(), z.null()])).min(1)])

const submitJob = operation('jobs.submit', {
  input: z.strictObject({
    type: typeField,
    input: z.unknown().default({}).describe('the input, as its job type requires; default {}'),
    owner: z.string().min(1).optional().describe('owner of the job'),
    priority: z.coerce.number().int().optional().describe('higher numbers run first; default 0'),
    delay: durationInput.optional().describe(`earliest start, from now: '30s', '5m', '2h'`),
    runAt: z.string().min(1).optional().describe(`earliest start, as a time: '2026-01-31T08:00Z'; not with delay`),
    dedupe: z
      .union([
        keyInput,
        z.strictObject({ key: keyInput, for: durationInput }),
        z.strictObject({ key: keyInput, scope: z.enum(['live', 'always']) }),
      ])
      .optional()
      .describe('dedupe key: at most one live job per key; { key, for } holds the key for a time'),
    dedupeFor: durationInput
      .optional()
      .describe('with a dedupe key: hold it for this long, whatever becomes of the job'),
    debounce: z
      .strictObject({ key: keyInput, wait: durationInput, maxWait: durationInput.optional() })
      .optional()
      .describe(
        'run once submissions with the key have stopped for a time, with the newest input: { key, wait, maxWait }',
      ),
    throttle: z
      .strictObject({ key: keyInput, every: durationInput })
      .optional()
      .describe('at most one job per period and key, with the newest input: { key, every }'),
    ttl: durationInput.optional().describe('fails with TTL_EXPIRED if no attempt has begun this long after it was due'),
    singleton: z
      .union([
        z.enum(['queued', 'running', 'both']),
        z.strictObject({ key: keyInput, of: z.enum(['queued', 'running', 'both']) }),
      ])
      .optional()
      .describe(`at most one 'queued', 'running' or 'both' of the type; { key, of } for each key`),
    singletonKey: z.string().min(1).optional().describe('with singleton: one for each key instead of one for the type'),
    limitKey: z.string().min(1).optional().describe('limit key, if the type limits jobs per key'),
    id: z.string().optional().describe('your own UUID for the job: a second submission with it makes no second job'),
    batch: z.string().min(1).optional().describe('id of an open batch to add it to'),
    actor: z.string().max(200).optional().describe('who submits it: recorded in the audit trail'),
    dryRun: dryRunField,
  }),
  output: z.strictObject({ ...done, job: jobSchema.nullable() }),
  run: async ({ store, prepare }, { type, input, dryRun, actor, dedupeFor, singletonKey, ...options }) => {
    const keyed = { ...options, ...keysOf({ ...options, dedupeFor, singletonKey }) }
    const given = Object.fromEntries(Object.entries(keyed).filter(([, value]) => value !== undefined))
    const prepared = await prepare(type, input, given)
    // Programs submit without a name: their jobs have a history, and the trail is about people.
    const job = actor?.trim() ? { ...prepared, by: { actor, reason: 'submitted by hand' } } : prepared
    if (dryRun) return { isDone: false, did: `Nothing was done. This submits a job of type ${type}.`, job: null }
    const [submitted] = await store.submit({ jobs: [job] })
    const { id, isNew, isReplaced = false, status } = submitted as Submitted
    const row = await neededJob(store, id)
    const found = isReplaced
      ? `Job ${id} was waiting: it has the new input now.`
      : `Nothing was submitted: job ${id} already exists and is ${status}.`
    return {
      isDone: isNew || isReplaced,
      did: isNew ? `Submitted job ${id}.` : found,
      job: viewJob(row, actionsFor(row)),
    }
  },
})

/** Flat fields are for the command line. They complete an option that is given as a text. */
function keysOf({ dedupe, dedupeFor, singleton, singletonKey }: KeyedInput): object {
  if (dedupeFor !== undefined && typeof dedupe !== 'string') {
    throw new RedressError('OPTION_INVALID', 'dedupeFor needs a dedupe key, given as a text.')
  }
  if (singletonKey !== undefined && typeof singleton !== 'string') {
    throw new RedressError('OPTION_INVALID', 'singletonKey needs singleton, given as queued, running or both.')
  }
  return {
    ...(dedupeFor !== undefined && { dedupe: { key: dedupe, for: dedupeFor } }),
    ...(singletonKey !== undefined && { singleton: { key: singletonKey, of: singleton } }),
  }
}

interface KeyedInput {
  dedupe?: unknown
  dedupeFor?: unknown
  singleton?: unknown
  singletonKey?: unknown
}

export const jobOperations = {
  'jobs.submit': submitJob,
  'jobs.list': listJobs,
  'jobs.count': countJobs,
  'jobs.show': showJob,
  'jobs.explain': explainJob,
  'jobs.events': listEvents,
  'jobs.failures': listFailures,
  'jobs.logs': listLogs,
  'jobs.retry': retry,
  'jobs.cancel': cancel,
  'jobs.mark-failed': markFailed,
  'jobs.reschedule': reschedule,
  'jobs.promote': promote,
  'jobs.reprioritise': reprioritise,
  'jobs.replace-input': replaceInput,
  'jobs.delete': deleteJob,
  'orphans.list': listOrphans,
}
