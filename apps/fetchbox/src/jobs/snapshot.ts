import { type App, type BatchDetail, type BatchView, RedressError } from 'redress'
import { failureInfo } from '../failures/failure-info.ts'
import { BATCH } from '../policy.ts'
import type { BatchData } from '../requests/ingest.ts'
import { purgeOf } from './purge.ts'
import { deadLetterOf, type JobRow, pointerTo } from './resource-view.ts'
import type { FailureInfo, Finalize, JobStatus, Listed, Snapshot } from './views.ts'

const dataOf = ({ data }: Pick<BatchView, 'data'>): BatchData => data as BatchData

/** The batch of a fetchbox job that this caller may see; `tenant` is null for those who may see all. */
export async function neededBatch(app: App, id: string, tenant: string | null): Promise<BatchDetail> {
  const batch = await app.batches.find(id)
  if (batch !== null && batch.name === BATCH && dataOf(batch).app === BATCH) {
    if (tenant === null || batch.owner === tenant) return batch
  }
  // What is another's is not there.
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
  // None of ours expires.
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
