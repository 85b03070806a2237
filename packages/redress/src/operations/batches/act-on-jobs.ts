import { RedressError } from '../../core/errors.ts'
import type { BatchRow } from '../../store/contract/batches.ts'
import type { JobFilter, JobRow, Store } from '../../store/contract/store.ts'
import { requireBy } from '../input-fields.ts'
import { cancelJob, type JobAct, type JobActed, retryJob } from '../jobs/interventions.ts'
import type { Context } from '../operation.ts'
import type { BatchActed, BatchItem } from './batches.ts'

type Done = Omit<BatchActed, 'batch'>

const JOBS_PER_PAGE = 500
/** A job may be claimed between the look and the act; then it is asked to stop instead. */
const TRIES = 3

/** Takes out what waits and asks what runs to stop. The batch takes no more jobs, and settles when the last has ended. */
export async function cancelBatch(context: Context, act: JobAct, batch: BatchRow): Promise<Done> {
  const { id, actor, reason } = act
  requireBy(act, `batch ${id}`)
  if (batch.unfinished === 0 && batch.isSealed) {
    return { isDone: false, did: `Nothing was done: no job of batch ${id} waits or runs.`, items: [] }
  }
  const { store } = context
  // Before its jobs: what is added after the look would be left running.
  if (!act.dryRun) await store.sealBatch({ id, by: { actor, reason, act: 'batches.cancel' } })
  const jobs = [...(await jobsOf(store, { ...mine(act), status: 'queued' }))]
  jobs.push(...(await jobsOf(store, { ...mine(act), status: 'processing' })))
  const items = await onEach(jobs, (job) => persistently(() => cancelJob(context, { ...act, id: job.id })))
  return summed(act, items, jobs.length, 'cancelled or asked to stop')
}

/** Every job that failed, in place or as a new job, as its policy says. */
export async function retryFailedOfBatch(context: Context, act: JobAct, batch: BatchRow): Promise<Done> {
  requireBy(act, `batch ${act.id}`)
  const jobs = batch.failed === 0 ? [] : await jobsOf(context.store, { ...mine(act), status: 'failed' })
  const items = await onEach(jobs, (job) => retryJob(context, { ...act, id: job.id }))
  return summed(act, items, jobs.length, 'retried')
}

/** Of whoever may touch only their own, jobs of others in their batch are left alone and not spoken of. */
const mine = ({ id, owner }: JobAct): Pick<JobFilter, 'batch' | 'owner'> => ({
  batch: id,
  ...(owner !== undefined && { owner }),
})

function summed({ id, dryRun }: JobAct, items: BatchItem[], count: number, done: string): Done {
  const number = items.filter(({ isDone }) => isDone).length
  if (dryRun) {
    const allowed = items.filter(({ code }) => code === null).length
    return { isDone: false, did: `Nothing was done. In batch ${id}, ${allowed} of ${count} would be ${done}.`, items }
  }
  return { isDone: number > 0, did: `In batch ${id}, ${number} of ${count} were ${done}.`, items }
}

async function jobsOf(store: Store, filter: Omit<JobFilter, 'limit' | 'beforeKey'>): Promise<JobRow[]> {
  const found: JobRow[] = []
  for (;;) {
    const last = found.at(-1)
    const page = await store.jobs({ ...filter, limit: JOBS_PER_PAGE, ...(last && { beforeKey: last.key }) })
    found.push(...page)
    if (page.length < JOBS_PER_PAGE) return found
  }
}

/** Those of one page are written together. A refusal is that job's own; a store that fails is everybody's. */
async function onEach(jobs: readonly JobRow[], act: (job: JobRow) => Promise<JobActed>): Promise<BatchItem[]> {
  const items: BatchItem[] = []
  for (let at = 0; at < jobs.length; at += JOBS_PER_PAGE) {
    const page = jobs.slice(at, at + JOBS_PER_PAGE)
    items.push(...(await Promise.all(page.map((job) => itemOf(job.id, act(job))))))
  }
  return items
}

async function itemOf(id: string, acted: Promise<JobActed>): Promise<BatchItem> {
  try {
    const { isDone, did } = await acted
    return { id, isDone, did, code: null }
  } catch (error) {
    if (!(error instanceof RedressError) || error.httpStatus >= 500) throw error
    return { id, isDone: false, did: error.message, code: error.code }
  }
}

async function persistently<T>(act: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await act()
    } catch (error) {
      const hasMovedOn = error instanceof RedressError && error.code === 'JOB_WRONG_STATE'
      if (!hasMovedOn || tries === TRIES) throw error
    }
  }
}
