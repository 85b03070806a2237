import { RedressError } from '../core/errors.ts'
import type { JobRow, Store } from '../store/store.ts'

/** `owner` is given by whoever may see and touch only their own. */
export async function neededJob(store: Store, id: string, owner?: string): Promise<JobRow> {
  const job = await store.job({ id })
  const isHidden = job !== null && owner !== undefined && job.owner !== owner
  if (isHidden && job.policy.deny === 'forbid') {
    throw new RedressError('FORBIDDEN', `Job ${id} is not yours.`, { jobId: id })
  }
  // In the same words: what may not be seen must not be told from what is not there.
  if (job === null || isHidden) throw new RedressError('JOB_NOT_FOUND', `There is no job ${id}.`, { jobId: id })
  return job
}
