import { ACCOUNTS } from './accounts/catalog.ts'
import { ACTIVITY } from './activity/catalog.ts'
import { AUDIT } from './audit/catalog.ts'
import { BATCHES } from './batches/catalog.ts'
import { BREAKERS } from './breakers/catalog.ts'
import { DEAD_LETTERS } from './dead-letters/catalog.ts'
import { FAILURES } from './failures/catalog.ts'
import { JOBS } from './jobs/catalog.ts'
import { NOTICES } from './notices/catalog.ts'
import { QUEUES } from './queues/catalog.ts'
import { REPLAYS } from './replays/catalog.ts'
import { SCHEDULES } from './schedules/catalog.ts'
import { TYPES } from './types/catalog.ts'
import { WORKERS } from './workers/catalog.ts'

/** What a door needs to know of an operation before it runs: command line, HTTP route, role and summary. */
export interface CatalogEntry {
  /** `<name>` is a required positional field of the input, `[name]` an optional one. All other fields are options. */
  cli: string
  /** `:name` is a field of the input. */
  http: string
  /** The lowest role that may run it. */
  role: 'viewer' | 'operator' | 'admin'
  /** Owners may run it on their own things. Its input has `owner`, which the door fills in for them. */
  allowsOwners?: boolean
  mutates: boolean
  /** Its input has `actor`, which the door fills in: a caller cannot act in the name of another. */
  needsActor?: boolean
  /** It creates something: over HTTP the answer is 201. */
  creates?: boolean
  /** It gives access, limited by `scopes`. A caller cannot give scopes that it does not have. */
  grantsAccess?: boolean
  /** It cannot be undone: the command line asks for confirmation. */
  needsConfirmation?: boolean
  summary: string
}

/**
 * Every operation of a person or program, as one table; all doors are made from it. Each subject has a folder with its
 * entries (`catalog.ts`) and its inputs, outputs and functions, which `table.ts` assembles. Orphans are in `jobs/`,
 * policies in `types/`, tokens and sign-in links in `accounts/`. A `catalog.ts` imports no package: `redress --help`
 * and the dashboard must not load zod to know the operations.
 */
export const CATALOG = {
  ...JOBS,
  ...FAILURES,
  ...DEAD_LETTERS,
  ...REPLAYS,
  ...BATCHES,
  ...NOTICES,
  ...QUEUES,
  ...TYPES,
  ...WORKERS,
  ...ACTIVITY,
  ...AUDIT,
  ...BREAKERS,
  ...SCHEDULES,
  ...ACCOUNTS,
} as const satisfies Record<string, CatalogEntry>

/** The name of an operation: `'jobs.retry'`. */
export type OperationName = keyof typeof CATALOG
