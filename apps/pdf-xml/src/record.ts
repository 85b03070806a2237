import { described } from '@redress/shared/routes'
import type { FastifyInstance } from 'fastify'
import { type App, type EventView, type OperationOutput, RedressError } from 'redress'
import type { FindCaller, RouteDescription } from 'redress/http'
import { z } from 'zod'
import { visitors } from './api.ts'
import { CONVERT, type ConvertInput, type ConvertResult } from './convert-job.ts'
import { resultKey } from './files.ts'

/** The engine's event kinds and the transitions of the source documents. Other kinds are left out. */
const KINDS = {
  queued: 'queued',
  processing: 'processing',
  retry: 'retry',
  complete: 'complete',
  failed: 'failed',
  expired: 'expired',
  // Back to the queue. The engine's history has the actor and the reason. A lost worker costs an attempt; the other
  // causes do not.
  reclaimed: 'retry',
  released: 'queued',
  snoozed: 'queued',
  'manual-retry': 'queued',
} as const satisfies Partial<Record<EventView['kind'], string>>

/** D32 E23: a transition, with the meta that the documents name. */
const eventRecord = z.object({
  id: z.number(),
  job_id: z.string(),
  kind: z.enum([...new Set(Object.values(KINDS))]),
  created_at: z.string(),
  meta: z.object({
    attempt: z.number(),
    gateway_http_status: z.number().nullable(),
    duration_ms: z.number().nullable(),
    error_code: z.string().nullable(),
  }),
})
type JobEventRecord = z.infer<typeof eventRecord>

const jobRecord = z.object({
  id: z.string(),
  status: z.string(),
  owner_session_id: z.string().nullable(),
  original_name: z.string(),
  mapping: z.string(),
  bytes: z.number(),
  sha256: z.string().nullable(),
  attempt_count: z.number(),
  manual_retry_count: z.number(),
  last_attempt_at: z.string().nullable(),
  retry_after: z.string().nullable(),
  leased_by: z.string().nullable(),
  lease_expires_at: z.string().nullable(),
  created_at: z.string(),
  queued_at: z.string().nullable(),
  started_at: z.string().nullable(),
  updated_at: z.string().nullable(),
  failed_at: z.string().nullable(),
  error_code: z.string().nullable(),
  error_message: z.string().nullable(),
  result_path: z.string().nullable(),
})

const RECORD: RouteDescription = {
  summary: 'A conversion and its events, under the names of the source documents.',
  description: visitors,
  answers: {
    200: { description: 'The record.', json: z.object({ job: jobRecord, job_events: z.array(eventRecord) }) },
  },
}

/** `GET /api/pdf-xml/jobs/:id`: a conversion under the names that the source documents give its fields and events. */
export function addRecord(server: FastifyInstance, app: App, findCaller: FindCaller): void {
  server.get('/api/pdf-xml/jobs/:id', described(RECORD), async (request, reply) => {
    const caller = await findCaller(request)
    if (caller === null) throw new RedressError('SIGN_IN_REQUIRED', 'Upload a file or sign in first.')
    const { id } = request.params as { id: string }
    const job = (await app.performAs(caller, 'jobs.show', { id })) as OperationOutput<'jobs.show'>
    if (job.type !== CONVERT) throw new RedressError('JOB_NOT_FOUND', `There is no conversion ${id}.`, { jobId: id })
    const { events } = (await app.performAs(caller, 'jobs.events', { id })) as { events: EventView[] }
    return reply
      .header('cache-control', 'no-store')
      .send({ job: recordOf(job, events), job_events: eventsOf(job, events) })
  })
}

function recordOf(job: OperationOutput<'jobs.show'>, events: readonly EventView[]): z.infer<typeof jobRecord> {
  const { fileName, mapping, bytes, sha256 } = job.input as ConvertInput
  const isProcessing = job.status === 'processing'
  return {
    id: job.id,
    status: job.status,
    owner_session_id: job.owner,
    original_name: fileName,
    mapping,
    bytes,
    sha256,
    attempt_count: job.attemptCount,
    manual_retry_count: job.manualRetryCount,
    last_attempt_at: job.lastAttemptAt,
    retry_after: job.retryAfter,
    leased_by: isProcessing ? job.worker : null,
    lease_expires_at: isProcessing ? job.leaseUntil : null,
    created_at: job.createdAt,
    queued_at: job.queuedAt,
    // E15: the time of the first claim, kept through retries; the engine's own `startedAt` is that of the last
    // attempt.
    started_at: events.find(({ kind }) => kind === 'processing')?.at ?? null,
    // E9 E15 E20: the time of the last change of the row. A refused write of a lost worker changes nothing.
    updated_at: events.findLast(({ kind }) => kind !== 'lost')?.at ?? job.createdAt,
    failed_at: job.failedAt,
    error_code: job.errorCode,
    error_message: job.errorMessage,
    result_path: job.status === 'complete' ? resultKey(job.id) : null,
  }
}

function eventsOf(job: OperationOutput<'jobs.show'>, events: readonly EventView[]): JobEventRecord[] {
  return events.flatMap(({ seq, at, kind, attempt, durationMs, data }) => {
    const named = (KINDS as Partial<Record<EventView['kind'], JobEventRecord['kind']>>)[kind]
    if (named === undefined) return []
    const meta = {
      attempt,
      gateway_http_status: data.httpStatus ?? (kind === 'complete' ? answeredOf(job) : null),
      duration_ms: durationMs === null ? null : Math.round(durationMs),
      error_code: data.code ?? null,
    }
    return [{ id: seq, job_id: job.id, kind: named, created_at: at, meta }]
  })
}

/** The result of an earlier attempt was adopted without a call to the gateway. */
const answeredOf = ({ result }: OperationOutput<'jobs.show'>): number | null =>
  (result as ConvertResult | null)?.adopted ? null : 200
