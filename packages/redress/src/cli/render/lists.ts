import type { OperationName } from '../../operations/catalog.ts'
import type { OutputOf } from '../../operations/table.ts'

/** Which field of its answer is the list, for the operations that answer with one. */
export const LISTS = {
  'jobs.list': 'jobs',
  'jobs.events': 'events',
  'jobs.failures': 'failures',
  'jobs.logs': 'lines',
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

/** Text for an empty table. */
export const NOTHING: Partial<Record<OperationName, string>> = {
  'breakers.list': 'No job type has a breaker.',
  'jobs.list': 'No jobs.',
  'jobs.events': 'No events.',
  'jobs.failures': 'No failures.',
  'jobs.logs': 'No lines: the handler of this job has not called attempt.log.',
  'orphans.list': 'No orphans: every processing job has a valid lease.',
  'dead-letters.list': "No matching dead letters. A job type keeps them if its policy has deadLetter: 'queue'.",
  'replays.list': 'No replays.',
  'batches.list': 'No batches.',
  'schedules.list': 'No schedules.',
  'audit.list': 'No matching entries.',
  'accounts.list': 'No accounts.',
  'tokens.list': 'None.',
  'notices.list': 'No notices.',
  'notices.deliveries': 'No deliveries.',
  'queues.list': 'No job types are declared.',
  'types.list': 'No job types are declared.',
  'workers.list': 'No running workers. Add --all for stopped and silent ones.',
}
