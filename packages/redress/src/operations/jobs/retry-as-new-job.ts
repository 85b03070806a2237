import { RedressError } from '../../core/errors.ts'
import { actionsFor } from '../../core/job/actions.ts'
import { successorDedupe, successorOutcome } from '../../core/job/dedupe.ts'
import { limitOptionOf } from '../../core/limits/singleton.ts'
import { viewJob } from '../../core/views/job.ts'
import type { JobRow, NewJob, Store, Submitted } from '../../store/contract/store.ts'
import type { Context } from '../operation.ts'
import { refuseUnlessAdmitted } from './admit-retry.ts'
import type { JobActed, RetryAct } from './interventions.ts'
import { neededJob } from './needed-job.ts'

/** P10, P41, P44: a new job with the same payload, or an edited one. The failed job and its history stay as they are. */
export async function submitRetry(context: Context, act: RetryAct, failed: JobRow): Promise<JobActed> {
  const { store } = context
  const { id, actor, reason, dryRun, input, newId } = act
  const isEdited = input !== undefined
  const owned = failed.owner === null ? {} : { owner: failed.owner }
  // Checked like any submission, edited or not: an input that the type now refuses would only fail again.
  const prepared = await context.prepare(failed.type, isEdited ? input : JSON.parse(failed.payload), {
    ...owned,
    ...limitOptionOf(failed.limitKey),
    priority: failed.priority,
    ...(newId !== undefined && { id: newId }),
  })
  // The hook is not called for an input that the schema refused.
  if (prepared.rejected === null) {
    const { type, owner } = failed
    const asked = isEdited ? input : JSON.parse(failed.payload)
    const failure = isEdited ? null : failed.latestFailure
    await refuseUnlessAdmitted(context, { jobId: id, type, owner, input: asked, actor, mode: 'new-job', failure })
  }
  const what = isEdited ? 'with the given input' : 'with the same input'
  if (dryRun) {
    const did = `Nothing was done. This makes a new job ${what}; job ${id} stays failed.`
    return { isDone: false, did, job: viewJob(failed, actionsFor(failed)) }
  }
  const retriedFrom = { id, actor, reason, retriedAsSeen: failed.retriedAs }
  const submitted = await submitOnce(store, { ...prepared, retriedFrom }, failed, isEdited)
  const made = await neededJob(store, submitted.id)
  if (!submitted.isNew) return madeBefore(made, failed)
  const refused = prepared.rejected === null ? '' : ` It was refused at once: ${prepared.rejected.message}`
  const did = `Made job ${made.id} ${what}; job ${id} stays failed.${refused}`
  return { isDone: true, did, job: viewJob(made, actionsFor(made)) }
}

/** Not checked again: the new job's own work could now make the check fail. */
export async function retryMadeBefore(store: Store, { id, owner, newId }: RetryAct): Promise<JobActed | null> {
  const known = newId === undefined ? null : await store.job({ id: newId })
  return known === null ? null : madeBefore(known, await neededJob(store, id, owner))
}

/** The answer to a retry that was asked for twice. */
function madeBefore(made: JobRow, failed: JobRow): JobActed {
  if (made.retriedFrom === failed.id) {
    const did = `Nothing was done: job ${made.id} is already a retry of job ${failed.id}.`
    return { isDone: false, did, job: viewJob(made, actionsFor(made)) }
  }
  throw new RedressError('OPTION_INVALID', `newId is the id of a job that is not a retry of job ${failed.id}.`, {
    action: 'Make a new UUID for the new job.',
    jobId: failed.id,
  })
}

async function submitOnce(store: Store, job: NewJob, failed: JobRow, isEdited: boolean): Promise<Submitted> {
  const submitted = await submitOne(store, { ...job, dedupe: successorDedupe(failed.dedupeKey, isEdited) })
  const outcome = successorOutcome(submitted.id, job.id, failed.id)
  if (outcome === 'made') return submitted
  if (outcome === 'keyless') return submitOne(store, { ...job, dedupe: null })
  throw new RedressError(
    'JOB_WRONG_STATE',
    `Nothing was done: job ${submitted.id} holds the dedupe key of job ${failed.id} and is ${submitted.status}.`,
    { action: 'Check that job: it may have done the work already.', jobId: failed.id },
  )
}

async function submitOne(store: Store, job: NewJob): Promise<Submitted> {
  const [submitted] = await store.submit({ jobs: [job] })
  return submitted as Submitted
}
