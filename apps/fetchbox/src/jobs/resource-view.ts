import type { App } from 'redress'
import type { Store } from 'redress/store'
import { failureInfo } from '../failures/failure-info.ts'
import { DEAD_LETTER_TOPIC } from '../policy.ts'
import { RESOURCES_MAX } from '../requests/read-request.ts'
import type { ResourceInput, ResourceResult } from './resource-job.ts'
import type { DeadLetterPointer, ResourceView } from './views.ts'

export type JobRow = NonNullable<Awaited<ReturnType<Store['job']>>>

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
