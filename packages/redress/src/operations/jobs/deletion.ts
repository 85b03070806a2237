import { z } from 'zod'
import { RedressError } from '../../core/errors.ts'
import { type DeletedJob, filesTypeOf } from '../../core/job/deleted.ts'
import { done, id, name, status } from '../../core/views/fields.ts'
import type { JobRow, NewJob, Store } from '../../store/contract/store.ts'
import { type Context, operation } from '../operation.ts'
import { jobActFields, judged, movedOn } from './interventions.ts'
import { aboutJob, neededJob } from './needed-job.ts'

const deletedSchema = z.strictObject({
  ...done,
  deleted: z.strictObject({ id, type: name, status }).describe('the job as it was'),
  filesRemovedBy: id.nullable().describe('the job that removes its files; null if its type owns no files'),
})

const deleteInput = z.strictObject({
  ...jobActFields,
  force: z.boolean().default(false).describe('also if its dead letter is open; the letter is deleted, too'),
})

export const deleteJob = operation('jobs.delete', {
  input: deleteInput,
  output: deletedSchema,
  about: aboutJob,
  run: deleteFinished,
})

/** Each try counts some failures of the backlog, so this is a bound for a very large one. */
const TRIES_MAX = 200

async function deleteFinished(
  { store, makeId }: Context,
  { force, ...act }: z.output<typeof deleteInput>,
): Promise<z.infer<typeof deletedSchema>> {
  const { job, why } = await judged(store, { ...act, force }, 'delete')
  const cleanup = await cleanupOf(store, job, makeId)
  const deleted = { id: job.id, type: job.type, status: job.status }
  if (act.dryRun) {
    return { isDone: false, did: `Nothing was done. On job ${job.id}, this ${why}.`, deleted, filesRemovedBy: null }
  }
  const { actor, reason } = act
  const expect = { status: job.status, attempt: job.attempt }
  const deletion = { id: job.id, actor, reason, expect, isForced: force, cleanup }
  let answer = await store.deleteJob(deletion)
  for (let tries = 1; answer === 'uncounted' && tries < TRIES_MAX; tries++) answer = await store.deleteJob(deletion)
  switch (answer) {
    case 'done': {
      const files = cleanup === null ? '' : ` Job ${cleanup.id} removes its files.`
      return { isDone: true, did: `Job ${job.id} is deleted.${files}`, deleted, filesRemovedBy: cleanup?.id ?? null }
    }
    case 'moved-on':
      throw movedOn(job, await neededJob(store, job.id))
    case 'letter-open':
      throw new RedressError('JOB_WRONG_STATE', `Job ${job.id} cannot be deleted: its dead letter is open.`, {
        action: 'Replay or purge the letter first, or delete both with `force`.',
        jobId: job.id,
      })
    case 'uncounted': {
      const message = `Job ${job.id} was not deleted: the store has not counted its failures yet.`
      throw new RedressError('STORE_BUSY', message, { action: 'Try again in a minute.', jobId: job.id })
    }
  }
}

/**
 * The files are removed by a job of their own, which is submitted in the transaction that removes the row. A crash leaves both or
 * neither, and a file store that refuses or does not answer is tried again by the policy of that job.
 */
async function cleanupOf(store: Store, job: JobRow, makeId: Context['makeId']): Promise<NewJob | null> {
  const type = filesTypeOf(job.type)
  if (!(await store.types()).some((known) => known.name === type)) return null
  const deleted: DeletedJob = {
    id: job.id,
    type: job.type,
    owner: job.owner,
    status: job.status as DeletedJob['status'],
    input: JSON.parse(job.payload),
    result: job.result === null ? null : JSON.parse(job.result),
  }
  return {
    id: makeId(),
    type,
    payload: JSON.stringify(deleted),
    owner: null,
    priority: 0,
    delayMs: 0,
    dedupe: null,
    retriedFrom: null,
    rejected: null,
    batch: null,
    limitKey: null,
  }
}
