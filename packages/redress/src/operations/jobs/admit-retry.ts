import { RedressError } from '../../core/errors.ts'
import { type Action, actionsFor } from '../../core/job/actions.ts'
import type { JobRow } from '../../store/contract/store.ts'
import type { Context } from '../operation.ts'

/** How a person brings a failed job back: itself, as a new job, or as one of many from its dead letter. */
export type RetryMode = 'in-place' | 'new-job' | 'replay'

/** The question to the `admitRetry` hook of a job type. */
export interface RetryQuestion {
  jobId: string
  type: string
  owner: string | null
  /** As it would be submitted: the stored one, or the edited one. */
  input: unknown
  /** null if the caller only reads what is allowed. */
  actor: string | null
  mode: RetryMode
  /** The last failure with the same input; null if the input was edited. */
  failure: FailedBefore | null
}

export interface FailedBefore {
  code: string
  /** The recorded failure, including the type's own details. */
  context: Readonly<Record<string, unknown>>
}

export interface RetryRefusal {
  code: string
  /** For the job's owner. */
  message: string
}

/** Asks the type itself, where this program knows it. Before anything is changed. */
export async function refuseUnlessAdmitted(context: Pick<Context, 'admitRetry'>, question: RetryQuestion) {
  const refusal = await context.admitRetry(question)
  if (refusal === null) return
  const { jobId } = question
  // Retention removed the file that the job needs: the same answer as for its download (D10 D22 E20).
  if (refusal.code === 'EXPIRED') throw new RedressError('EXPIRED', refusal.message, { jobId })
  throw new RedressError('RETRY_REFUSED', `Job ${jobId} cannot be retried. ${refusal.code}: ${refusal.message}`, {
    jobId,
  })
}

/** For a single job only: the hook may be slow, so lists do not call it. */
export async function actionsNow(context: Pick<Context, 'admitRetry'>, job: JobRow): Promise<Action[]> {
  const actions = actionsFor(job)
  const retry = actions.find(({ name, allowed }) => name === 'retry' && allowed)
  if (retry === undefined) return actions
  const { id, type, owner, payload, policy } = job
  const mode = policy.manualRetry.mode === 'in-place' ? 'in-place' : 'new-job'
  const failure = job.latestFailure
  const question = { jobId: id, type, owner, input: JSON.parse(payload), actor: null, mode, failure } as const
  const refusal = await context.admitRetry(question)
  if (refusal === null) return actions
  const refused: Action = { name: 'retry', allowed: false, why: `${refusal.code}: ${refusal.message}` }
  return actions.map((action) => (action === retry ? refused : action))
}
