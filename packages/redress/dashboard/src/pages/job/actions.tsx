import type { ActionName } from '../../../../src/core/job/actions.ts'
import type { JobView } from '../../../../src/core/views/job.ts'
import type { ActField, PendingAct } from '../../api/act.ts'
import { jobHref } from '../../words/links.ts'

const REDACTED = '[redacted]'

/** What each act on a job is called, and what its dialog says. */
export const ACTS: Readonly<
  Record<ActionName, { word: string; title: string; isDangerous?: boolean; fields?: readonly ActField[] }>
> = {
  retry: { word: 'Retry', title: 'Retry this job' },
  'mark-failed': { word: 'Mark failed', title: 'Mark this job as failed', isDangerous: true },
  cancel: { word: 'Cancel', title: 'Cancel this job', isDangerous: true },
  reschedule: {
    word: 'Reschedule',
    title: 'Change the time of this job',
    fields: [
      { name: 'delay', label: 'From now', kind: 'text', initial: '1h', help: `A duration: '30s', '5m', '2h', '3d'.` },
      {
        name: 'at',
        label: 'Or at a time',
        kind: 'text',
        help: `In UTC: '2026-01-31T08:00Z'. Then leave the other empty.`,
      },
    ],
  },
  promote: { word: 'Run now', title: 'Make this job due now' },
  reprioritise: {
    word: 'Priority',
    title: 'Change the priority of this job',
    fields: [
      {
        name: 'priority',
        label: 'Priority',
        kind: 'number',
        isRequired: true,
        help: 'Higher numbers run first; most jobs have 0.',
      },
    ],
  },
  'replace-input': { word: 'Edit input', title: 'Replace the input of this job' },
  delete: { word: 'Delete', title: 'Delete this job for good', isDangerous: true },
}

export function actOn(id: string, name: ActionName, onDone?: PendingAct['onDone']): PendingAct {
  const { word, title, isDangerous = false, fields } = ACTS[name]
  const act = { name: `jobs.${name}`, input: { id }, title, verb: word, isDangerous } as const
  return { ...act, ...(fields && { fields }), ...(onDone && { onDone }) }
}

/** The act with what its dialog shows of the job as it is. */
export function actOnJob({ id, input, priority }: Shown, name: ActionName, onDone?: PendingAct['onDone']): PendingAct {
  const act = actOn(id, name, onDone)
  if (name === 'replace-input') return { ...act, verb: 'Replace the input', ...inputToEdit(input) }
  if (name !== 'reprioritise') return act
  return { ...act, fields: (act.fields ?? []).map((field) => ({ ...field, initial: String(priority) })) }
}

type Shown = Pick<JobView, 'id' | 'priority'> & { input: unknown }

/** Also the dead letter, which waits for a replay or a purge. */
export const deleteWithLetter = (id: string): PendingAct => ({
  ...actOn(id, 'delete'),
  input: { id, force: true },
  title: 'Delete this job and its dead letter for good',
})

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
  const act = actOn(id, 'retry', onDone)
  return { ...act, title: 'Edit the input and retry', verb: 'Retry with this input', ...inputToEdit(input) }
}

function inputToEdit(input: unknown): Pick<PendingAct, 'fields' | 'explain'> {
  const initial = JSON.stringify(input, null, 2)
  return {
    fields: [{ name: 'input', label: 'Input', kind: 'json', initial, isRequired: true, help: 'As JSON.' }],
    explain: initial.includes(REDACTED) && (
      <p>
        Parts of the input were taken out before you saw it. Put in again what stands as <code>{REDACTED}</code>: the
        job gets the input as it is written here.
      </p>
    ),
  }
}
