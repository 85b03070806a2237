import { judge } from '../core/actions.ts'
import type { Fault } from '../core/failure.ts'
import { asForwardOnly } from '../core/policy.ts'
import type { BatchRow } from '../store/batches.ts'
import type { FailedEnd, Store, StoredType } from '../store/store.ts'

/** The failed jobs of a batch, by their code. */
export interface BatchFailures {
  /** Those with most jobs first. */
  codes: BatchFailureCode[]
  /** There are more failed jobs than were looked at. */
  isMore: boolean
}

export interface BatchFailureCode {
  code: string
  /** Of the newest of them. */
  fault: Fault
  message: string
  count: number
  /** So many of them a person may retry, as far as their policy says. */
  retryable: number
}

const JOBS_MAX = 10_000

/** Of whoever may see only their own, jobs of others in their batch do not count. */
export async function failuresOfBatch(
  store: Store,
  { id, failed }: BatchRow,
  owner: string | undefined,
): Promise<BatchFailures> {
  if (failed === 0) return { codes: [], isMore: false }
  const { ends, isMore } = await store.countFailed({
    batch: id,
    ...(owner !== undefined && { owner }),
    max: JOBS_MAX,
  })
  const types = new Map((await store.types()).map((type) => [type.name, type]))
  const byCode = new Map<string, BatchFailureCode>()
  for (const end of ends) {
    const { code, fault, message, count } = end
    // One code of several types: those with most jobs come first, and their words are shown.
    const sum = byCode.get(code) ?? { code, fault, message, count: 0, retryable: 0 }
    const isRetryable = mayRetry(end, types.get(end.type))
    byCode.set(code, { ...sum, count: sum.count + count, retryable: sum.retryable + (isRetryable ? count : 0) })
  }
  const codes = [...byCode.values()].sort((a, b) => b.count - a.count || (a.code < b.code ? -1 : 1))
  return { codes, isMore }
}

function mayRetry({ isForwardOnly }: FailedEnd, type: StoredType | undefined): boolean {
  if (type === undefined) return false
  const policy = isForwardOnly ? asForwardOnly(type.policy) : type.policy
  // A job made by a retry takes the place of its origin in the batch.
  const failed = { status: 'failed', retriedAs: null, retriedAsStatus: null } as const
  return judge({ ...failed, policy, isForwardOnly, orphanedAtMs: null, cancelRequestedAtMs: null }, 'retry').allowed
}
