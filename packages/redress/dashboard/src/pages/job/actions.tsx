import type { ActionName } from '../../../../src/core/job/actions.ts'
import type { JobView } from '../../../../src/core/views/job.ts'
import type { PendingAct } from '../../api/act.ts'
import { jobHref } from '../../words/links.ts'

const REDACTED = '[redacted]'

/** What each act on a job is called, and what its dialog says. */
export const ACTS: Readonly<Record<ActionName, { word: string; title: string; isDangerous?: boolean }>> = {
  retry: { word: 'Retry', title: 'Retry this job' },
  'mark-failed': { word: 'Mark failed', title: 'Mark this job as failed', isDangerous: true },
  cancel: { word: 'Cancel', title: 'Cancel this job', isDangerous: true },
}

export function actOn(id: string, name: ActionName, onDone?: PendingAct['onDone']): PendingAct {
  const { word, title, isDangerous = false } = ACTS[name]
  return { name: `jobs.${name}`, input: { id }, title, verb: word, isDangerous, ...(onDone && { onDone }) }
}

/**
 * Another job from a failed one that was already retried. Its dialog first names the job that the earlier retry made.
 */
export const onceMore = (act: PendingAct, retriedAs: string): PendingAct => ({
  ...act,
  input: { ...act.input, again: true },
  title: `${act.title} once more`,
  explain: (
    <>
      <p>
        It was retried already, as job <a href={jobHref(retriedAs)}>{retriedAs}</a>. If that one failed, retry that one.
        This makes one more job from the same failure.
      </p>
      {act.explain}
    </>
  ),
})

/** The retry that fits the job's state: the first one, or another one. */
export function retryOf(
  { id, retriedAs }: Pick<JobView, 'id' | 'retriedAs'>,
  onDone?: PendingAct['onDone'],
): PendingAct {
  const act = actOn(id, 'retry', onDone)
  return retriedAs === null ? act : onceMore(act, retriedAs)
}

/** A new job from the failed one, with another input. */
export function editAndRetry(id: string, input: unknown, onDone?: PendingAct['onDone']): PendingAct {
  const initial = JSON.stringify(input, null, 2)
  return {
    ...actOn(id, 'retry', onDone),
    title: 'Edit the input and retry',
    verb: 'Retry with this input',
    fields: [{ name: 'input', label: 'Input', kind: 'json', initial, isRequired: true, help: 'As JSON.' }],
    explain: initial.includes(REDACTED) && (
      <p>
        Parts of the input were taken out before you saw it. Put in again what stands as <code>{REDACTED}</code>: the
        new job gets the input as it is written here.
      </p>
    ),
  }
}
