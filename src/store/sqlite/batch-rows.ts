import type { Rollup } from '../../core/policy-flow.ts'
import type { BatchStanding, BatchState } from '../../core/rollup.ts'

/** A row of `batches`. */
export interface StoredBatch {
  key: number
  id: string
  name: string
  owner: string | null
  rollup: Rollup | null
  state: BatchState
  sealed: number
  total: number
  unfinished: number
  complete: number
  failed: number
  permanent: number
  cancelled: number
  data: string
  on_settled: string | null
  notify: string | null
  created_at: number
  settled_at: number | null
  settlements: number
  expires_at: number | null
}

const ROLLUP_WITHOUT_JOBS: Rollup = 'partial'

export const standingOf = (row: StoredBatch): BatchStanding => ({
  state: row.state,
  isSealed: row.sealed === 1,
  rollup: row.rollup ?? ROLLUP_WITHOUT_JOBS,
  expiresAtMs: row.expires_at,
  total: row.total,
  unfinished: row.unfinished,
  complete: row.complete,
  failed: row.failed,
  permanent: row.permanent,
  cancelled: row.cancelled,
})
