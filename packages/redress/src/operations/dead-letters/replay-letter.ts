import { mergePatch, type Skip } from '../../core/dead-letter/replay.ts'
import { RedressError } from '../../core/errors.ts'
import { limitOptionOf } from '../../core/limits/singleton.ts'
import type { StoredDeadLetter } from '../../store/contract/dead-letters.ts'
import type { ActorAndReason, NewJob, RetriedFrom } from '../../store/contract/store.ts'
import { refuseUnlessAdmitted } from '../jobs/admit-retry.ts'
import type { Context } from '../operation.ts'

type Preparing = Pick<Context, 'prepare' | 'admitRetry'>

interface Making {
  input: unknown
  by: ActorAndReason
  origin: Pick<RetriedFrom, 'act' | 'replay'>
  /** Reserved; a new one when left out. */
  id?: string
}

/**
 * The job that a letter becomes, checked like any submission. A refusal by its type is thrown, also if the
 * policy records refusals: a letter is not used up by a job that was never to run.
 */
export async function jobFromLetter(
  context: Preparing,
  letter: StoredDeadLetter,
  { input, by, origin, id }: Making,
): Promise<NewJob> {
  const { jobId, type, owner, priority, limitKey } = letter
  const prepared = await context.prepare(type, input, {
    priority,
    ...(owner !== null && { owner }),
    ...limitOptionOf(limitKey),
    ...(id !== undefined && { id }),
  })
  if (prepared.rejected !== null) {
    const { code, message } = prepared.rejected
    throw new RedressError('SUBMISSION_REFUSED', `${code}: ${message}`, { jobId })
  }
  const failure = JSON.stringify(input) === JSON.stringify(JSON.parse(letter.payload)) ? letter.failure : null
  await refuseUnlessAdmitted(context, { jobId, type, owner, input, actor: by.actor, mode: 'replay', failure })
  return { ...prepared, retriedFrom: { id: jobId, ...by, ...origin } }
}

const inputOf = ({ payload }: StoredDeadLetter, patch: string | null): unknown =>
  patch === null ? JSON.parse(payload) : mergePatch(JSON.parse(payload), JSON.parse(patch))

/** For a replay of many: a refused letter is skipped with its reason and does not stop the others. */
export async function prepareItem(
  context: Preparing,
  letter: StoredDeadLetter,
  { patch, by, replay, id }: { patch: string | null; by: ActorAndReason; replay: string; id: string },
): Promise<{ job: NewJob } | { skip: Skip }> {
  try {
    const origin = { act: 'replays.start', replay } as const
    return { job: await jobFromLetter(context, letter, { input: inputOf(letter, patch), by, origin, id }) }
  } catch (error) {
    const problems = error instanceof RedressError ? error.problems.join('; ') : ''
    const message = error instanceof Error ? error.message : String(error)
    return { skip: { code: 'refused', why: [message, problems].filter(Boolean).join(' ') } }
  }
}
