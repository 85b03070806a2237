/**
 * What a person or program may do, as one table. Every door is made from it: the command line today, HTTP routes and
 * their document after it. Here is what a door announces; how it is done is in the files that `table.ts` names.
 * This file imports nothing, so that `redress --help` need not load a schema library to list the commands.
 */
interface Entry {
  /** `<name>` is a field of the input, by position, and `[name]` one that may be left out; the others are options. */
  cli: string
  /** `:name` is a field of the input. */
  http: string
  /** The least role that may do it. */
  role: 'viewer' | 'operator'
  mutates: boolean
  summary: string
}

export const CATALOG = {
  'jobs.submit': {
    cli: 'jobs submit <type> [input]',
    http: 'POST /api/jobs',
    role: 'operator',
    mutates: true,
    summary: 'Hand in a job.',
  },
  'jobs.list': {
    cli: 'jobs list',
    http: 'GET /api/jobs',
    role: 'viewer',
    mutates: false,
    summary: 'List jobs, the newest first.',
  },
  'jobs.show': {
    cli: 'jobs show <id>',
    http: 'GET /api/jobs/:id',
    role: 'viewer',
    mutates: false,
    summary: 'Show one job with its input and result.',
  },
  'jobs.explain': {
    cli: 'jobs explain <id>',
    http: 'GET /api/jobs/:id/explain',
    role: 'viewer',
    mutates: false,
    summary: 'Say why a job was retried or died, and what can be done.',
  },
  'jobs.events': {
    cli: 'jobs events <id>',
    http: 'GET /api/jobs/:id/events',
    role: 'viewer',
    mutates: false,
    summary: 'Show the history of a job.',
  },
  'jobs.failures': {
    cli: 'jobs failures <id>',
    http: 'GET /api/jobs/:id/failures',
    role: 'viewer',
    mutates: false,
    summary: 'Show the failures of a job in full, each with its decision.',
  },
  'jobs.retry': {
    cli: 'jobs retry <id>',
    http: 'POST /api/jobs/:id/retry',
    role: 'operator',
    mutates: true,
    summary: 'Retry a failed job, in place or as a new job, as its policy says.',
  },
  'jobs.cancel': {
    cli: 'jobs cancel <id>',
    http: 'POST /api/jobs/:id/cancel',
    role: 'operator',
    mutates: true,
    summary: 'Cancel a job that waits, or tell the worker of a running one to stop.',
  },
  'jobs.mark-failed': {
    cli: 'jobs mark-failed <id>',
    http: 'POST /api/jobs/:id/mark-failed',
    role: 'operator',
    mutates: true,
    summary: 'End a job as failed, for instance an orphan.',
  },
  'orphans.list': {
    cli: 'orphans list',
    http: 'GET /api/orphans',
    role: 'viewer',
    mutates: false,
    summary: 'List jobs whose worker is gone and that wait for a person.',
  },
  'dead-letters.list': {
    cli: 'dead-letters list',
    http: 'GET /api/dead-letters',
    role: 'viewer',
    mutates: false,
    summary: 'List dead letters by offset, the oldest first.',
  },
  'queues.list': {
    cli: 'queues list',
    http: 'GET /api/queues',
    role: 'viewer',
    mutates: false,
    summary: 'Count the jobs of each type by status.',
  },
  'types.list': {
    cli: 'types list',
    http: 'GET /api/types',
    role: 'viewer',
    mutates: false,
    summary: 'List the job types that programs have declared, with their policies in short.',
  },
  'workers.list': {
    cli: 'workers list',
    http: 'GET /api/workers',
    role: 'viewer',
    mutates: false,
    summary: 'List the workers that are, or were, at this store.',
  },
  'policy.show': {
    cli: 'policy show <type>',
    http: 'GET /api/types/:type/policy',
    role: 'viewer',
    mutates: false,
    summary: 'Show the policy of a job type in full.',
  },
} as const satisfies Record<string, Entry>

export type OperationName = keyof typeof CATALOG
export type CatalogEntry = Entry
