import type { DeletedJob } from '../../core/job/deleted.ts'
import { exponential } from '../../core/policy/backoff.ts'
import { policy } from '../../core/policy/policy.ts'
import type { Attempt } from '../../worker/attempt/attempt.ts'
import type { AnyContract, AnyDefinition, AnyImplementation } from './contract.ts'

/**
 * The job that removes the files of a deleted job. It is retried for about a day, and then fails where an operator sees it. Its
 * input has the input of the deleted job, so it is removed an hour after its success.
 */
export function fileRemovalOf(
  { codes, classify }: AnyContract,
  implementation: AnyImplementation,
): AnyDefinition | null {
  if (implementation.removeFiles === undefined) return null
  return {
    queue: 'redress.files',
    // A file store that does not answer must not take the slots of other jobs.
    slotsMax: () => 1,
    codes,
    classify: [...(implementation.classify ?? []), ...classify],
    policy: policy({
      retry: { max: 30, unknown: 'transient', backoff: exponential('5s', { factor: 3, cap: '1h', jitter: '20%' }) },
      manualRetry: 'in-place',
      orphan: 'requeue',
      timeout: { attempt: '5m' },
      deadLetter: 'flag',
      retention: { complete: '1h', failed: '90d', cancelled: '30d' },
    }),
    run: async (deleted: DeletedJob, attempt: Attempt<string>): Promise<void> => {
      await implementation.removeFiles?.(deleted, attempt)
    },
  }
}
