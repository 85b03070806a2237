import type { By } from './store.ts'

/** Who did what, why, and to which ids: written in the transaction that does it, never changed, kept for ever. */
export interface AuditStore {
  /** The newest first. */
  auditTrail(params: AuditParams): Promise<StoredAct[]>
}

export interface AuditParams {
  filter: AuditFilter
  /** Only what is older than this entry. */
  beforeSeq: number | null
  limit: number
}

export interface AuditFilter {
  actor?: string
  /** The name of an operation, or its first part: 'jobs' stands for 'jobs.retry' and all its like. */
  act?: string
  /** The kind of thing it was done to: 'job', 'queue', 'failure-group', ... */
  target?: string
  /** It was done to this one, perhaps among others. */
  id?: string
  sinceMs?: number
  /** Before this time. */
  untilMs?: number
}

export interface StoredAct extends By {
  seq: number
  atMs: number
  act: string
  target: string
  ids: string[]
  data: Record<string, unknown> | null
}
