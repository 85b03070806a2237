import { RedressError } from '../core/errors.ts'
import { mayBeSilent, orphanedSinceMs } from '../core/orphaned.ts'
import type { JobRow, Store } from '../store/store.ts'

/** `owner` is given by whoever may see and touch only their own. */
export async function neededJob(store: Store, id: string, owner?: string): Promise<JobRow> {
  const job = await store.job({ id })
  const isHidden = job !== null && owner !== undefined && job.owner !== owner
  if (isHidden && job.policy.deny === 'forbid') {
    throw new RedressError('FORBIDDEN', `Job ${id} is not yours.`, { jobId: id, jobType: job.type })
  }
  // In the same words: what may not be seen must not be told from what is not there.
  if (job === null || isHidden) throw new RedressError('JOB_NOT_FOUND', `There is no job ${id}.`, { jobId: id })
  return job
}

/**
 * Jobs as they stand now: one whose lease is over is shown as an orphan, also while no process runs that would report it. What
 * may be done to it is judged by what is stored.
 */
export async function asOfNow(store: Store, jobs: readonly JobRow[]): Promise<JobRow[]> {
  if (!jobs.some(mayBeSilent)) return [...jobs]
  const nowMs = await store.nowMs()
  return jobs.map((job) => ({ ...job, orphanedAtMs: orphanedSinceMs(job, nowMs) }))
}

/** The same for an input of which nothing is known yet, not even that it names a job. */
export async function aboutJob(store: Store, { id, owner }: Readonly<Record<string, unknown>>): Promise<void> {
  if (typeof id === 'string') await neededJob(store, id, typeof owner === 'string' ? owner : undefined)
}
