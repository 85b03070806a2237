import { z } from 'zod'
import { DEAD_LETTER_TOPIC } from '../policy.ts'

// What clients see of jobs, resources and failures.

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
export type DeadLetterPointer = z.infer<typeof deadLetterPointer>

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

/** What a job says of its removal. */
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
export type JobStatus = (typeof JOB_STATUSES)[number]

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
export type Finalize = z.infer<typeof finalizeSchema>

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
