import { RedressError } from '../core/errors.ts'
import type { JobRow, Store } from '../store/store.ts'

export async function neededJob(store: Store, id: string): Promise<JobRow> {
  const job = await store.job({ id })
  if (job === null) throw new RedressError('JOB_NOT_FOUND', `There is no job ${id}.`, { jobId: id })
  return job
}
