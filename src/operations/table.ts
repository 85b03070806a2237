import type { z } from 'zod'
import { cancel, markFailed, retry, submit } from './acts.ts'
import type { OperationName } from './catalog.ts'
import { events, explanation, failures, list, orphans, show } from './jobs.ts'
import type { Operation } from './operation.ts'
import { deadLetters, policyOfType, queues, types, workers } from './surroundings.ts'

/** Every entry of the catalogue with its input and how it is done. */
export const OPERATIONS = {
  'jobs.submit': submit,
  'jobs.list': list,
  'jobs.show': show,
  'jobs.explain': explanation,
  'jobs.events': events,
  'jobs.failures': failures,
  'jobs.retry': retry,
  'jobs.cancel': cancel,
  'jobs.mark-failed': markFailed,
  'orphans.list': orphans,
  'dead-letters.list': deadLetters,
  'queues.list': queues,
  'types.list': types,
  'workers.list': workers,
  'policy.show': policyOfType,
} satisfies { [Name in OperationName]: Pick<Operation, 'name' | 'input' | keyof import('./catalog.ts').CatalogEntry> }

type Table = typeof OPERATIONS
export type InputOf<Name extends OperationName> = z.input<Table[Name]['input']>
export type OutputOf<Name extends OperationName> = Awaited<ReturnType<Table[Name]['run']>>
