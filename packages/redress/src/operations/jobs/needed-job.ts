import { RedressError } from '../../core/errors.ts'
import { mayBeSilent, orphanedSinceMs } from '../../core/job/record.ts'
import type { JobRow, Store } from '../../store/contract/store.ts'
/** `owner` is set for callers that may use their own jobs only. */
export async function neededJob(store: Store, id: string, owner?: string): Promise<JobRow> {
  const job = await store.job({ id })
  const isHidden = job !== null && owner !== undefined && job.owner !== owner
  if (isHidden && job.policy.deny === 'forbid') {
    throw new RedressError('FORBIDDEN', `Job ${id} is not yours.`, { jobId: id, jobType: job.type })
  }
  // The same message: a caller must not distinguish a foreign job from a missing one.
  if (job === null || isHidden) throw new RedressError('JOB_NOT_FOUND', `There is no job ${id}.`, { jobId: id })
  return job
}

/**
 * Jobs in their current state: a job whose lease expired is shown as an orphan, even while no process runs that would
 * report it. Permission checks for actions use the stored state.
 */
export async function asOfNow(store: Store, jobs: readonly JobRow[]): Promise<JobRow[]> {
  if (!jobs.some(mayBeSilent)) return [...jobs]
  const nowMs = await store.nowMs()
  return jobs.map((job) => ({ ...job, orphanedAtMs: orphanedSinceMs(job, nowMs) }))
}

/** The same check for an unparsed input, which may not even name a job. */
export async function aboutJob(store: Store, { id, owner }: Readonly<Record<string, unknown>>): Promise<void> {
  if (typeof id === 'string') await neededJob(store, id, typeof owner === 'string' ? owner : undefined)
}
