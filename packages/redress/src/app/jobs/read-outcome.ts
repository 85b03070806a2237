import { RedressError } from '../../core/errors.ts'
import { renderExplanation } from '../../core/explain/text.ts'
import type { JobRow, Store, StoredFailure } from '../../store/contract/store.ts'
import type { AppHost } from '../host.ts'
import { JobCancelled, JobFailed, type Outcome } from './outcome.ts'

/**
 * A function that makes the outcome anew for each caller; null if the job has not ended, or a person retried it meanwhile.
 * Errors of the store are thrown.
 */
export async function readOutcome(host: AppHost, store: Store, job: JobRow): Promise<(() => Outcome) | null> {
  const jobId = job.id
  switch (job.status) {
    case 'complete': {
      const { result } = job
      return () => ({ kind: 'complete', jobId, output: result === null ? null : JSON.parse(result) })
    }
    case 'cancelled': {
      const { actor, reason } = await cancelledBy(store, jobId)
      return () => ({ kind: 'cancelled', jobId, error: new JobCancelled(job, actor, reason) })
    }
    case 'failed': {
      // Loaded here: a program whose jobs do not fail needs none of these schemas.
      const { viewFailure } = await import('../../core/views/job.ts')
      const record = await lastFailure(store, job)
      const explanation = await explained(host, jobId, record)
      if (explanation === null) return null
      return () => ({ kind: 'failed', jobId, error: new JobFailed(job, viewFailure(record), explanation) })
    }
    default:
      return null
  }
}

/** A failed job has a failure: the database ensures it. */
async function lastFailure(store: Store, { id, latestFailure }: JobRow): Promise<StoredFailure> {
  const failure = latestFailure ?? (await store.failures({ id })).at(-1)
  if (failure === undefined) throw new Error(`Job ${id} failed, and its failure is missing.`)
  return failure
}

/** null when the job has not failed any more. An explanation that cannot be made does not keep the failure back. */
async function explained(host: AppHost, id: string, { code, message }: StoredFailure): Promise<string | null> {
  try {
    const explanation = await host.perform('jobs.explain', { id })
    return explanation.status === 'failed' ? renderExplanation(explanation) : null
  } catch (error) {
    if (error instanceof RedressError) throw error
    host.log.error({ err: error, job_id: id }, 'the failure of a job cannot be explained')
    return `${code}: ${message}`
  }
}

/** A job that ran was cancelled by the worker, at the request of a person. */
async function cancelledBy(store: Store, id: string): Promise<{ actor: string | null; reason: string | null }> {
  const events = await store.events({ id })
  const by = events.findLast(
    ({ kind, data }) => (kind === 'cancelled' || kind === 'cancel-requested') && data.actor !== undefined,
  )
  return { actor: by?.data.actor ?? null, reason: by?.data.reason ?? null }
}
