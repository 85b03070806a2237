import type { App, Store } from 'redress'
import { type FailureInfo, failureInfo } from './failure-info.ts'
import { DEAD_LETTER_TOPIC } from './policy.ts'
import { RESOURCES_MAX } from './read-request.ts'
import type { ResourceInput, ResourceResult } from './resource-job.ts'

export type JobRow = NonNullable<Awaited<ReturnType<Store['job']>>>

export interface DeadLetterPointer {
  topic: typeof DEAD_LETTER_TOPIC
  offset: number
}

/** One resource of a job, as clients see it. */
export interface ResourceView {
  id: string
  url: string
  status: JobRow['status']
  /** Id of the job that fetches it: for `/api/jobs`. */
  jobId: string
  /** The number of tries, including the further tries of the download or upload that an attempt failed with. */
  attempts: number
  bytes: number | null
  sha256: string | null
  contentType: string | null
  contentEncoding: string | null
  /** Where it is stored; null until it is. */
  key: string | null
  error: FailureInfo | null
  deadLetter: DeadLetterPointer | null
  /** When it is tried again. */
  retryAfter: string | null
  finishedAt: string | null
}

const isoTime = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())

/** The rows of a job's resources in the order of its manifest; a replayed one stands where the failed one stood. */
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

export async function deadLetterOf(app: App, jobId: string): Promise<DeadLetterPointer | null> {
  const events = await (await app.store()).events({ id: jobId })
  return pointerTo(events.findLast(({ data }) => data.deadLetterOffset !== undefined)?.data.deadLetterOffset)
}

export const pointerTo = (offset: number | null | undefined): DeadLetterPointer | null =>
  offset === null || offset === undefined ? null : { topic: DEAD_LETTER_TOPIC, offset }
