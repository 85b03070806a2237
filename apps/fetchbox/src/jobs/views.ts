import { type App, type BatchDetail, type BatchView, RedressError } from 'redress'
import type { Store } from 'redress/store'
import { z } from 'zod'
import { failureInfo } from '../failures/failure.ts'
import { BATCH, DEAD_LETTER_TOPIC } from '../policy.ts'
import type { BatchData } from '../requests/ingest.ts'
import { RESOURCES_MAX } from '../requests/read-request.ts'
import type { ResourceInput, ResourceResult } from './resource-job.ts'

// The views of jobs, resources and failures that clients get.

/** A failure as clients see it, wherever one is shown: exactly this (F4). */
const failureInfoSchema = z.object({
  code: z.string(),
  message: z.string(),
  context: z.object({
    proxy: z.string().nullable().describe('"pool#n"; null when it went without a proxy, or did not come so far'),
    attempt: z.number().describe('which try of its stage it was'),
    status: z.number().nullable().describe('the status that was answered; null when there was no answer'),
  }),
})
export type FailureInfo = z.infer<typeof failureInfoSchema>

export const RESOURCE_STATUSES = ['queued', 'processing', 'complete', 'failed', 'cancelled'] as const

const deadLetterPointer = z.object({ topic: z.literal(DEAD_LETTER_TOPIC), offset: z.number() })
type DeadLetterPointer = z.infer<typeof deadLetterPointer>

/** One resource of a job, as clients see it. */
export const resourceSchema = z.object({
  id: z.string(),
  url: z.string(),
  status: z.enum(RESOURCE_STATUSES),
  jobId: z.string().describe('id of the job that fetches it: for `/api/jobs`'),
  attempts: z
    .number()
    .describe('the number of tries, including the further tries of the download or upload that an attempt failed with'),
  bytes: z.number().nullable(),
  sha256: z.string().nullable(),
  contentType: z.string().nullable(),
  contentEncoding: z.string().nullable(),
  key: z.string().nullable().describe('where it is stored; null until it is'),
  error: failureInfoSchema.nullable(),
  deadLetter: deadLetterPointer.nullable(),
  retryAfter: z.string().nullable().describe('when it is tried again'),
  finishedAt: z.string().nullable(),
})
export type ResourceView = z.infer<typeof resourceSchema>

const purged = z.object({ resources: z.number(), bytes: z.number() })
export type Purged = z.infer<typeof purged>

/** The state of a purge. */
export const purgeSchema = z.object({
  status: z.string(),
  by: z.string().describe('who asked for it'),
  removed: purged.nullable().describe('what was removed; null until it is'),
  error: failureInfoSchema.nullable(),
  requestedAt: z.string(),
  finishedAt: z.string().nullable(),
})
export type Purge = z.infer<typeof purgeSchema>

export const JOB_STATUSES = ['queued', 'processing', 'complete', 'partial', 'failed', 'cancelled'] as const
type JobStatus = (typeof JOB_STATUSES)[number]

/** A job as it is listed. */
export const listedSchema = z.object({
  id: z.string(),
  type: z.string(),
  tenant: z.string(),
  status: z.enum(JOB_STATUSES),
  resourcesTotal: z.number(),
  resourcesCompleted: z.number(),
  resourcesFailed: z.number(),
  resourcesPending: z.number(),
  resourcesCancelled: z.number(),
  createdAt: z.string(),
  finishedAt: z.string().nullable(),
})
export type Listed = z.infer<typeof listedSchema>

const finalizeSchema = z.object({
  status: z.string(),
  result: z.unknown(),
  error: failureInfoSchema.nullable(),
  finishedAt: z.string().nullable(),
})
type Finalize = z.infer<typeof finalizeSchema>

/** A job as clients see it (F18, F19). */
export const snapshotSchema = listedSchema.extend({
  bytes: z.number().describe('of what is stored'),
  lastError: failureInfoSchema.nullable().describe('the newest failure of a resource that is failed now'),
  deadLetter: deadLetterPointer.nullable().describe('where that resource waits to be replayed'),
  manifest: z.string().describe('the key of the manifest in the storage'),
  metadata: z.unknown(),
  finalize: finalizeSchema
    .nullable()
    .describe('the outcome of the `finalize` of the handler; null if there is none yet'),
  purge: purgeSchema.nullable().describe('the outcome of the request to remove everything; null if there was none'),
})
export type Snapshot = z.infer<typeof snapshotSchema>

export type JobRow = NonNullable<Awaited<ReturnType<Store['job']>>>

const isoTime = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())

/**
 * The rows of a job's resources in the order of its manifest. A replayed resource takes the place of the failed one.
 */
export async function resourceRows(app: App, jobId: string, status?: JobRow['status']): Promise<JobRow[]> {
  const store = await app.store()
  const rows = await store.jobs({ batch: jobId, limit: RESOURCES_MAX, ...(status !== undefined && { status }) })
  return rows
    .map((row) => ({ row, at: inputOf(row).position }))
    .sort((a, b) => a.at - b.at)
    .map(({ row }) => row)
}

export const inputOf = ({ payload }: Pick<JobRow, 'payload'>): ResourceInput => JSON.parse(payload) as ResourceInput

const resultOf = ({ result }: Pick<JobRow, 'result'>): ResourceResult | null =>
  result === null ? null : (JSON.parse(result) as ResourceResult)

export async function viewResource(app: App, row: JobRow): Promise<ResourceView> {
  const { resource, url } = inputOf(row)
  const result = resultOf(row)
  const { status, latestFailure } = row
  const isOver = status === 'complete' || status === 'cancelled'
  return {
    id: resource,
    url,
    status,
    jobId: row.id,
    attempts: row.tries,
    bytes: result?.bytes ?? null,
    sha256: result?.sha256 ?? null,
    contentType: result?.contentType ?? null,
    contentEncoding: result?.contentEncoding ?? null,
    key: result?.key ?? null,
    error: latestFailure === null || isOver ? null : failureInfo(latestFailure),
    deadLetter: row.isDeadLettered ? await deadLetterOf(app, row.id) : null,
    retryAfter: status === 'queued' ? isoTime(row.dueAtMs) : null,
    finishedAt: isoTime(row.finishedAtMs),
  }
}

async function deadLetterOf(app: App, jobId: string): Promise<DeadLetterPointer | null> {
  const events = await (await app.store()).events({ id: jobId })
  return pointerTo(events.findLast(({ data }) => data.deadLetterOffset !== undefined)?.data.deadLetterOffset)
}

const pointerTo = (offset: number | null | undefined): DeadLetterPointer | null =>
  offset === null || offset === undefined ? null : { topic: DEAD_LETTER_TOPIC, offset }

const dataOf = ({ data }: Pick<BatchView, 'data'>): BatchData => data as BatchData

/** The batch of a fetchbox job that this caller may see; `tenant` is null for callers who see all. */
export async function requireBatch(app: App, id: string, tenant: string | null): Promise<BatchDetail> {
  const batch = await app.batches.find(id)
  if (batch !== null && batch.name === BATCH && dataOf(batch).app === BATCH) {
    if (tenant === null || batch.owner === tenant) return batch
  }
  // Another tenant's job is answered as not found.
  throw new RedressError('JOB_NOT_FOUND', `There is no fetchbox job ${id.slice(0, 64)}.`)
}

export function viewListed(batch: BatchView): Listed {
  const { counts } = batch
  return {
    id: batch.id,
    type: dataOf(batch).type,
    tenant: batch.owner ?? '',
    status: statusOf(batch),
    resourcesTotal: counts.total,
    resourcesCompleted: counts.complete,
    resourcesFailed: counts.failed,
    resourcesPending: counts.unfinished,
    resourcesCancelled: counts.cancelled,
    createdAt: batch.createdAt,
    finishedAt: batch.settledAt,
  }
}

export async function viewSnapshot(app: App, batch: BatchDetail): Promise<Snapshot> {
  const { manifest, metadata } = dataOf(batch)
  return {
    ...viewListed(batch),
    bytes: await app.batches.sum(batch.id, 'bytes'),
    lastError: await lastErrorOf(app, batch),
    deadLetter: pointerTo(batch.lastError?.deadLetterOffset),
    manifest,
    metadata,
    finalize: await finalizeOf(app, batch),
    purge: await purgeOf(app, batch.id),
  }
}

function statusOf({ state, counts }: Pick<BatchView, 'state' | 'counts'>): JobStatus {
  if (state === 'open') return counts.unfinished === counts.total && counts.processing === 0 ? 'queued' : 'processing'
  // Fetchbox batches never expire.
  return state === 'expired' ? 'failed' : state
}

async function lastErrorOf(app: App, { lastError }: BatchView): Promise<FailureInfo | null> {
  if (lastError === null) return null
  const row = await (await app.store()).job({ id: lastError.jobId })
  return failureInfo(row?.latestFailure ?? { ...lastError, context: {} })
}

async function finalizeOf(app: App, { settledJobId }: BatchDetail): Promise<Finalize | null> {
  const row = settledJobId === null ? null : await newestOf(app, settledJobId)
  if (row === null) return null
  return {
    status: row.status,
    result: row.result === null ? null : JSON.parse(row.result),
    error: row.latestFailure === null ? null : failureInfo(row.latestFailure),
    finishedAt: row.finishedAtMs === null ? null : new Date(row.finishedAtMs).toISOString(),
  }
}

/** The job itself, or what it was replayed as: a replay is another job, and the last one has the last word. */
async function newestOf(app: App, id: string): Promise<JobRow | null> {
  const store = await app.store()
  const row = await store.job({ id })
  if (row === null || !row.isDeadLettered) return row
  const pointer = await deadLetterOf(app, id)
  const letter = pointer === null ? null : await store.deadLetter({ offset: pointer.offset })
  const replayedAs = letter?.replayedAs ?? null
  return (replayedAs === null ? null : await newestOf(app, replayedAs)) ?? row
}

export interface PurgeInput {
  job: string
  type: string
  by: string
}

export const purgeId = (app: App, job: string): string => app.idFrom('fetchbox', 'purge', job)

export async function purgeOf(app: App, id: string): Promise<Purge | null> {
  const row = await (await app.store()).job({ id: purgeId(app, id) })
  if (row === null) return null
  return {
    status: row.status,
    by: (JSON.parse(row.payload) as PurgeInput).by,
    removed: row.result === null ? null : (JSON.parse(row.result) as Purged),
    error: row.status === 'complete' || row.latestFailure === null ? null : failureInfo(row.latestFailure),
    requestedAt: new Date(row.createdAtMs).toISOString(),
    finishedAt: row.finishedAtMs === null ? null : new Date(row.finishedAtMs).toISOString(),
  }
}
