import type { OperationName } from '../../operations/catalog.ts'
import type { OutputOf } from '../../operations/table.ts'
import type { Terminal } from '../terminal.ts'
import { events, explanation, failures, job, jobList } from './jobs.ts'
import { deadLetters, policy, queues, types, workers } from './surroundings.ts'

export interface Rendering {
  terminal: Terminal
  /** A line to paste, with the options that lead to the same store. */
  command(...words: string[]): string
  /** For the person, beside the data. */
  hint(text: string): void
}

type Renderer<Name extends OperationName> = (output: OutputOf<Name>, rendering: Rendering) => string

/** How the answer of each operation looks in a terminal. */
export const RENDERERS: { [Name in OperationName]: Renderer<Name> } = {
  'jobs.list': jobList,
  'jobs.show': job,
  'jobs.explain': explanation,
  'jobs.events': events,
  'jobs.failures': failures,
  'jobs.submit': submitted,
  'jobs.retry': did,
  'jobs.cancel': did,
  'jobs.mark-failed': did,
  'orphans.list': jobList,
  'dead-letters.list': deadLetters,
  'queues.list': queues,
  'types.list': types,
  'workers.list': workers,
  'policy.show': policy,
}

/** What to say instead of an empty table. */
export const NOTHING: Partial<Record<OperationName, string>> = {
  'jobs.list': 'No jobs.',
  'jobs.events': 'No events.',
  'jobs.failures': 'It has not failed.',
  'orphans.list': 'No orphans: every processing job has a worker.',
  'dead-letters.list': 'No dead letters.',
  'queues.list': 'No jobs.',
  'types.list': 'No program has declared a job type here.',
  'workers.list': 'No worker is at this store. See --all for those that were.',
}

function did(output: OutputOf<'jobs.retry'>, { hint, command }: Rendering): string {
  if (output.isDone) hint(`See how it goes: ${command('explain', output.job.id)}`)
  return `${output.did}\n`
}

function submitted(output: OutputOf<'jobs.submit'>, { hint, command }: Rendering): string {
  if (output.job !== null) hint(`See how it goes: ${command('explain', output.job.id)}`)
  return `${output.did}\n`
}
