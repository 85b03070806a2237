import { z } from 'zod'
import { BATCH_STATES, batchCountFields, batchNewsSchema } from '../../core/batch.ts'
import { ERRORS, type ErrorCode, RedressError } from '../../core/errors.ts'
import { FAULTS } from '../../core/failure/failure.ts'
import { judge } from '../../core/job/actions.ts'
import { SUBJECT_EVENTS } from '../../core/job/events.ts'
import { ROLLUPS } from '../../core/policy/flow.ts'
import { asForwardOnly } from '../../core/policy/policy.ts'
import { isoTime, isoTimeOrNull } from '../../core/text/duration.ts'
import {
  anything,
  count,
  done,
  flag,
  id,
  listOf,
  name,
  nextCursor,
  text,
  time,
  timeOrNull,
} from '../../core/views/fields.ts'
import type { BatchRow } from '../../store/contract/batches.ts'
import type { FailedEnd, JobFilter, JobRow, Store, StoredType } from '../../store/contract/store.ts'
import { settledJobId } from '../../store/scripts/derived-id.ts'
import { actorFields, cursorField, limitField, requireActorAndReason } from '../input-fields.ts'
import { cancelJob, type JobAct, type JobActed, retryJob } from '../jobs/interventions.ts'
import { type Context, operation } from '../operation.ts'

const LIST_MAX = 1_000

const batchSchema = z.strictObject({
  id,
  name,
  owner: name.nullable(),
  state: z.enum(BATCH_STATES),
  rollup: z.enum(ROLLUPS),
  sealed: flag.describe('no more jobs will be added'),
  counts: z.strictObject({ ...batchCountFields, queued: count, processing: count }),
  lastError: z
    .strictObject({
      jobId: id,
      type: name,
      code: name,
      message: text,
      attempt: count,
      at: time,
      deadLetterOffset: count.nullable(),
    })
    .nullable(),
  data: anything,
  onSettled: name.nullable(),
  notify: listOf(name),
  createdAt: time,
  settledAt: timeOrNull,
  settlements: count,
  expiresAt: timeOrNull,
})
/** A batch with its counts. */
export type BatchView = z.infer<typeof batchSchema>

const batchDetailSchema = z.strictObject({
  ...batchSchema.shape,
  settledJobId: id.nullable().describe('the job that its newest settlement submitted'),
  // When it was settled, reopened and expired, with the counts of that moment.
  history: z.array(
    z.strictObject({
      seq: count,
      at: time,
      kind: z.enum(SUBJECT_EVENTS.batch),
      data: batchNewsSchema,
    }),
  ),
})
/** A batch with its counts and its history. */
export type BatchDetail = z.infer<typeof batchDetailSchema>
export type BatchEventView = BatchDetail['history'][number]

/** The failed jobs of a batch by their code, those with most jobs first. */
const batchFailuresSchema = z.strictObject({
  codes: z.array(
    z.strictObject({
      code: name,
      fault: z.enum(FAULTS),
      message: text.describe('message of the newest failure'),
      count,
      retryable: count.describe('how many of them a person may retry, by their policy'),
    }),
  ),
  isMore: flag.describe('there are more failed jobs than were counted'),
})
type BatchFailures = z.infer<typeof batchFailuresSchema>
export type BatchFailureCode = BatchFailures['codes'][number]

const batchActedSchema = z.strictObject({
  ...done,
  batch: batchSchema,
  // What became of each job.
  items: z.array(
    z.strictObject({
      id,
      isDone: flag,
      did: text,
      code: z
        .enum(Object.keys(ERRORS) as ErrorCode[])
        .nullable()
        .describe('why it was refused; null if it was done'),
    }),
  ),
})
type BatchActed = z.infer<typeof batchActedSchema>
export type BatchItem = BatchActed['items'][number]

const batchIdField = z.string().min(1).describe('id of the batch')
const batchOwnerField = z.string().min(1).optional().describe('only if the batch has this owner')
const batchActFields = { id: batchIdField, ...actorFields, owner: batchOwnerField }

const listBatches = operation('batches.list', {
  input: z.strictObject({
    state: z.enum(BATCH_STATES).optional().describe('only batches in this state'),
    owner: z.string().min(1).optional().describe('only batches of this owner'),
    name: z.string().min(1).optional().describe('only batches with this name'),
    limit: limitField(LIST_MAX),
    cursor: cursorField,
  }),
  output: z.strictObject({ batches: z.array(batchSchema), nextCursor }),
  run: async ({ store }, { state, owner, name, limit, cursor }) => {
    const found = await store.batches({
      limit: limit + 1,
      ...(state !== undefined && { state }),
      ...(owner !== undefined && { owner }),
      ...(name !== undefined && { name }),
      ...(cursor !== undefined && { beforeKey: cursor }),
    })
    const rows = found.slice(0, limit)
    return {
      batches: await Promise.all(rows.map((row) => viewFor(store, row, owner))),
      nextCursor: found.length > rows.length ? String(rows.at(-1)?.key) : null,
    }
  },
})

const showBatch = operation('batches.show', {
  input: z.strictObject({ id: batchIdField, owner: batchOwnerField }),
  output: z.strictObject({ ...batchDetailSchema.shape, failures: batchFailuresSchema }),
  about: aboutBatch,
  run: async ({ store }, { id, owner }) => {
    const batch = await neededBatch(store, id, owner)
    return {
      ...(await detailOfBatch(store, batch)),
      ...(await viewFor(store, batch, owner)),
      failures: await failuresOfBatch(store, batch, owner),
    }
  },
})

export async function detailOfBatch(store: Store, batch: BatchRow): Promise<BatchDetail> {
  const { id, onSettled, settlements } = batch
  return {
    ...viewBatch(batch),
    settledJobId: onSettled === null || settlements === 0 ? null : settledJobId(id, settlements),
    history: (await store.batchEvents({ id })).map(({ atMs, ...event }) => ({ ...event, at: isoTime(atMs) })),
  }
}

const actOnBatch = (name: 'batches.cancel' | 'batches.retry-failed', act: typeof cancelBatch) =>
  operation(name, {
    input: z.strictObject(batchActFields),
    output: batchActedSchema,
    about: aboutBatch,
    run: async (context, given) => {
      const batch = await neededBatch(context.store, given.id, given.owner)
      return acted(context.store, await act(context, given, batch), given)
    },
  })

const cancelBatchJobs = actOnBatch('batches.cancel', cancelBatch)
const retryFailedJobs = actOnBatch('batches.retry-failed', retryFailedOfBatch)

async function acted(
  store: Store,
  done: Omit<BatchActed, 'batch'>,
  { id, owner }: { id: string; owner?: string | undefined },
): Promise<BatchActed> {
  return { ...done, batch: await viewFor(store, await neededBatch(store, id), owner) }
}

type Done = Omit<BatchActed, 'batch'>

const JOBS_PER_PAGE = 500
/** A job may be claimed between the look and the act; then it is asked to stop instead. */
const TRIES = 3

/** Cancels queued jobs and asks running ones to stop. The batch is sealed, and settles when the last job has ended. */
async function cancelBatch(context: Context, act: JobAct, batch: BatchRow): Promise<Done> {
  const { id, actor, reason } = act
  requireActorAndReason(act, `batch ${id}`)
  if (batch.unfinished === 0 && batch.isSealed) {
    return { isDone: false, did: `Nothing was done: no job of batch ${id} waits or runs.`, items: [] }
  }
  const { store } = context
  // Sealed before its jobs are read: a job that is added later would keep running.
  if (!act.dryRun) await store.sealBatch({ id, by: { actor, reason, act: 'batches.cancel' } })
  const jobs = [...(await jobsOf(store, { ...mine(act), status: 'queued' }))]
  jobs.push(...(await jobsOf(store, { ...mine(act), status: 'processing' })))
  const items = await onEach(jobs, (job) => persistently(() => cancelJob(context, { ...act, id: job.id })))
  return summed(act, items, jobs.length, 'cancelled or asked to stop')
}

/** Retries every failed job, in place or as a new job, as its policy says. */
async function retryFailedOfBatch(context: Context, act: JobAct, batch: BatchRow): Promise<Done> {
  requireActorAndReason(act, `batch ${act.id}`)
  const jobs = batch.failed === 0 ? [] : await jobsOf(context.store, { ...mine(act), status: 'failed' })
  const items = await onEach(jobs, (job) => retryJob(context, { ...act, id: job.id }))
  return summed(act, items, jobs.length, 'retried')
}

/** An owner does not act on jobs of others in their batch, and learns nothing about them. */
const mine = ({ id, owner }: JobAct): Pick<JobFilter, 'batch' | 'owner'> => ({
  batch: id,
  ...(owner !== undefined && { owner }),
})

function summed({ id, dryRun }: JobAct, items: BatchItem[], count: number, done: string): Done {
  const number = items.filter(({ isDone }) => isDone).length
  if (dryRun) {
    const allowed = items.filter(({ code }) => code === null).length
    return { isDone: false, did: `Nothing was done. In batch ${id}, ${allowed} of ${count} would be ${done}.`, items }
  }
  return { isDone: number > 0, did: `In batch ${id}, ${number} of ${count} were ${done}.`, items }
}

async function jobsOf(store: Store, filter: Omit<JobFilter, 'limit' | 'beforeKey'>): Promise<JobRow[]> {
  const found: JobRow[] = []
  for (;;) {
    const last = found.at(-1)
    const page = await store.jobs({ ...filter, limit: JOBS_PER_PAGE, ...(last && { beforeKey: last.key }) })
    found.push(...page)
    if (page.length < JOBS_PER_PAGE) return found
  }
}

/** Those of one page are written together. A refusal is that job's own; a store that fails is everybody's. */
async function onEach(jobs: readonly JobRow[], act: (job: JobRow) => Promise<JobActed>): Promise<BatchItem[]> {
  const items: BatchItem[] = []
  for (let at = 0; at < jobs.length; at += JOBS_PER_PAGE) {
    const page = jobs.slice(at, at + JOBS_PER_PAGE)
    items.push(...(await Promise.all(page.map((job) => itemOf(job.id, act(job))))))
  }
  return items
}

async function itemOf(id: string, acted: Promise<JobActed>): Promise<BatchItem> {
  try {
    const { isDone, did } = await acted
    return { id, isDone, did, code: null }
  } catch (error) {
    if (!(error instanceof RedressError) || error.httpStatus >= 500) throw error
    return { id, isDone: false, did: error.message, code: error.code }
  }
}

async function persistently<T>(act: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await act()
    } catch (error) {
      const hasMovedOn = error instanceof RedressError && error.code === 'JOB_WRONG_STATE'
      if (!hasMovedOn || tries === TRIES) throw error
    }
  }
}

/** In a batch of one's own there may be jobs of others: how one of those failed is not the batch owner's to know. */
async function viewFor(store: Store, batch: BatchRow, owner: string | undefined): Promise<BatchView> {
  const view = viewBatch(batch)
  if (owner === undefined || view.lastError === null) return view
  const job = await store.job({ id: view.lastError.jobId })
  return job?.owner === owner ? view : { ...view, lastError: null }
}

/** `owner` is set for owners: a batch of another owner is not found. */
async function neededBatch(store: Store, id: string, owner?: string): Promise<BatchRow> {
  const batch = await store.batch({ id })
  if (batch === null || (owner !== undefined && batch.owner !== owner))
    throw new RedressError('BATCH_NOT_FOUND', `There is no batch ${id}.`)
  return batch
}

async function aboutBatch(store: Store, { id, owner }: Readonly<Record<string, unknown>>): Promise<void> {
  if (typeof id === 'string') await neededBatch(store, id, typeof owner === 'string' ? owner : undefined)
}

const JOBS_MAX = 10_000

/** For an owner, jobs of others in their batch do not count. */
async function failuresOfBatch(
  store: Store,
  { id, failed }: BatchRow,
  owner: string | undefined,
): Promise<BatchFailures> {
  if (failed === 0) return { codes: [], isMore: false }
  const { ends, isMore } = await store.countFailed({
    batch: id,
    ...(owner !== undefined && { owner }),
    max: JOBS_MAX,
  })
  const types = new Map((await store.types()).map((type) => [type.name, type]))
  const byCode = new Map<string, BatchFailureCode>()
  for (const end of ends) {
    const { code, fault, message, count } = end
    // One code of several types: those with most jobs come first, and their words are shown.
    const sum = byCode.get(code) ?? { code, fault, message, count: 0, retryable: 0 }
    const isRetryable = mayRetry(end, types.get(end.type))
    byCode.set(code, { ...sum, count: sum.count + count, retryable: sum.retryable + (isRetryable ? count : 0) })
  }
  const codes = [...byCode.values()].sort((a, b) => b.count - a.count || (a.code < b.code ? -1 : 1))
  return { codes, isMore }
}

function mayRetry({ isForwardOnly }: FailedEnd, type: StoredType | undefined): boolean {
  if (type === undefined) return false
  const policy = isForwardOnly ? asForwardOnly(type.policy) : type.policy
  // A job made by a retry takes the place of its origin in the batch.
  const failed = { status: 'failed', retriedAs: null, retriedAsStatus: null, attempt: 1, dueAtMs: null } as const
  const other = { orphanedAtMs: null, cancelRequestedAtMs: null, isDeadLettered: false }
  return judge({ ...failed, ...other, policy, isForwardOnly }, 'retry').allowed
}

function viewBatch(batch: BatchRow): BatchView {
  const { total, unfinished, complete, failed, permanent, cancelled, processing, lastFailure } = batch
  return {
    id: batch.id,
    name: batch.name,
    owner: batch.owner,
    state: batch.state,
    rollup: batch.rollup,
    sealed: batch.isSealed,
    counts: {
      total,
      unfinished,
      queued: unfinished - processing,
      processing,
      complete,
      failed,
      permanent,
      cancelled,
    },
    lastError: lastFailure && viewLastError(lastFailure),
    data: JSON.parse(batch.data) as unknown,
    onSettled: batch.onSettled?.type ?? null,
    notify: batch.notify,
    createdAt: isoTime(batch.createdAtMs),
    settledAt: isoTimeOrNull(batch.settledAtMs),
    settlements: batch.settlements,
    expiresAt: isoTimeOrNull(batch.expiresAtMs),
  }
}

function viewLastError({ atMs, ...rest }: NonNullable<BatchRow['lastFailure']>): BatchView['lastError'] {
  return { ...rest, at: isoTime(atMs) }
}

export const batchOperations = {
  'batches.list': listBatches,
  'batches.show': showBatch,
  'batches.cancel': cancelBatchJobs,
  'batches.retry-failed': retryFailedJobs,
}
