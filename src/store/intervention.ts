import { unpackSpent } from '../core/budget.ts'
import { RedressError } from '../core/errors.ts'
import type { Status } from '../core/states.ts'
import type { BatchKey, Intervention, JobKey, WorkerKey } from './store.ts'

/** What every driver compares before it lets a person act on a job. */

type Act = Intervention['act']

/** A job as it stands, in the columns that a person's act may depend on. */
export interface StandingRow {
  key: JobKey
  status: Status
  attempt: number
  worker: WorkerKey | null
  cancel_requested_at: number | null
  dedupe_key: string | null
  dedupe_held: number | null
  type: number
  spent: string | null
  batch: BatchKey | null
  permanent: number | null
  retried_as: string | null
}

/** Where each act leads from; the state machine has no other edge for it. */
const FROM: Record<Act['kind'], readonly Status[]> = {
  'retry-in-place': ['failed'],
  'mark-failed': ['queued', 'processing'],
  cancel: ['queued'],
  'request-cancel': ['processing'],
}

/** As the operations call them. */
export const OPERATION_OF: Record<Act['kind'], string> = {
  'retry-in-place': 'jobs.retry',
  'mark-failed': 'jobs.mark-failed',
  cancel: 'jobs.cancel',
  'request-cancel': 'jobs.cancel',
}

/** Whether the job stands as the person saw it. An act that no job in that state knows is an error of the caller. */
export function standsAsSeen(
  row: Pick<StandingRow, 'status' | 'attempt' | 'spent' | 'retried_as'>,
  { id, expect, act }: Intervention,
): boolean {
  if (row.status !== expect.status || row.attempt !== expect.attempt) return false
  if (act.kind === 'retry-in-place' && row.retried_as !== (expect.retriedAs ?? null)) return false
  if ('spent' in act && !isDecidedOn(row, act)) return false
  if (!FROM[act.kind].includes(row.status)) {
    throw new RedressError('JOB_WRONG_STATE', `A ${row.status} job knows no ${act.kind}.`, { jobId: id })
  }
  return true
}

/**
 * A job that a person sent back and another one failed again stands where it stood, with the same attempt: only the
 * count of manual retries tells what is decided on the job as it is now from what is decided on an old page.
 */
function isDecidedOn(row: { spent: string | null }, act: Extract<Act, { spent: string | null }>): boolean {
  const adds = act.kind === 'retry-in-place' ? 1 : 0
  return unpackSpent(act.spent).manualRetries === unpackSpent(row.spent).manualRetries + adds
}
