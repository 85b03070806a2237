import type { OperationName } from '../../operations/catalog.ts'
import type { OutputOf } from '../../operations/table.ts'

/** Which field of its answer is the list, for the operations that answer with one. */
export const LISTS = {
  'jobs.list': 'jobs',
  'jobs.events': 'events',
  'jobs.failures': 'failures',
  'orphans.list': 'jobs',
  'failures.list': 'groups',
  'dead-letters.list': 'deadLetters',
  'replays.list': 'replays',
  'batches.list': 'batches',
  'notices.list': 'notices',
  'notices.deliveries': 'deliveries',
  'queues.list': 'queues',
  'types.list': 'types',
  'workers.list': 'workers',
  'audit.list': 'entries',
  'breakers.list': 'breakers',
  'schedules.list': 'schedules',
  'accounts.list': 'accounts',
  'tokens.list': 'tokens',
} as const satisfies { [Name in OperationName]?: keyof OutputOf<Name> }
