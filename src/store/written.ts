import type { DecidedFailure } from '../core/change.ts'
import type { Status } from '../core/states.ts'
import type { JobKey, WorkerKey } from './store.ts'

/** What drivers write into the append-only tables. */

export interface FailedAttempt {
  key: JobKey
  atMs: number
  attempt: number
  worker: WorkerKey | null
  failure: DecidedFailure
  from: Status | null
  to: Status
  /** Only of a failure that ends its job. */
  isPermanent?: boolean
}

/** Something a person did, or a rule in a person's name. */
export interface AuditEntry {
  atMs: number
  /** What was done: the name of the operation. */
  act: string
  /** What kind of thing it was done to: 'job', 'batch', 'queue', ... */
  target: string
  ids: readonly string[]
  data?: object | null
}
