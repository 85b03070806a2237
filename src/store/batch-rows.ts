import { RedressError } from '../core/errors.ts'
import type { Policy } from '../core/policy.ts'
import type { Rollup } from '../core/policy-flow.ts'
import { type BatchStanding, type BatchState, isPastExpiry, stateAt } from '../core/rollup.ts'
import type { BatchFailure } from '../core/view-batch.ts'
import type { BatchRow } from './batches.ts'

/** A row of `batches`, which has the same columns in every driver. */
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

/** As it stands at this moment, whether or not anybody has written down that it has expired. */
export function batchRowOf(
  row: StoredBatch & { processing: number },
  lastFailure: BatchFailure | null,
  nowMs: number,
): BatchRow {
  const standing = standingOf(row)
  return {
    ...standing,
    state: stateAt(standing, nowMs),
    isSealed: standing.isSealed || isPastExpiry(standing, nowMs),
    key: row.key,
    id: row.id,
    name: row.name,
    owner: row.owner,
    processing: row.processing,
    data: row.data,
    onSettled: row.on_settled === null ? null : JSON.parse(row.on_settled),
    notify: row.notify === null ? [] : JSON.parse(row.notify),
    createdAtMs: row.created_at,
    settledAtMs: row.settled_at,
    settlements: row.settlements,
    lastFailure,
  }
}

export const closedError = ({ id, name, state, sealed }: StoredBatch): RedressError => {
  const why = state === 'expired' ? 'it has expired' : sealed === 1 ? 'it is sealed' : 'its time is over'
  return new RedressError('BATCH_CLOSED', `Batch ${id} (${name}) takes no more jobs: ${why}.`)
}

/** Its line would have to be on disk before the transaction that settles the batch, which nobody can foresee. */
export function refuseWriteAheadOnSettled(type: string, { audit }: Policy): void {
  if (audit !== 'write-ahead') return
  throw new RedressError('OPTION_INVALID', `onSettled: ${type} has audit 'write-ahead', and cannot be submitted so.`, {
    action: 'Let onSettled submit a job of another type, which submits that one.',
  })
}
