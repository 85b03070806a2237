import type { ActorAndReason } from './store.ts'

/** Who did what, why, and to which ids. Entries are written in the transaction of the act, never changed, and kept for ever. */
export interface AuditStore {
  /** The newest first. */
  auditTrail(params: AuditParams): Promise<StoredAct[]>
}

export interface AuditParams {
  filter: AuditFilter
  /** Only entries older than this one. */
  beforeSeq: number | null
  limit: number
}

export interface AuditFilter {
  actor?: string
  /** The name of an operation, or its first part: 'jobs' matches 'jobs.retry'. */
  act?: string
  /** The kind of thing it was done to: 'job', 'queue', 'failure-group', ... */
  target?: string
  /** One of the ids that it was done to. */
  id?: string
  sinceMs?: number
  /** Before this time. */
  untilMs?: number
}

export interface StoredAct extends ActorAndReason {
  seq: number
  atMs: number
  act: string
  target: string
  ids: string[]
  data: Record<string, unknown> | null
}
