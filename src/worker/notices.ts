import type { NotifiedJob } from '../core/notices.ts'
import { noticesOfFailure, noticesOfOrphan } from '../core/notices.ts'
import type { Policy } from '../core/policy.ts'
import type { Close, Reclaim } from '../store/store.ts'

/** What is to be told of a change, as a field to go with it; no field where nobody is to be told. */
export function toldOf(
  job: NotifiedJob,
  change: Reclaim['change'] | Close['change'],
  policy: Policy,
  worker: string,
): Pick<Close, 'notices'> {
  const notices =
    change.to === 'failed'
      ? noticesOfFailure({ ...job, spent: change.spent }, change.failure, policy)
      : change.to === 'orphaned'
        ? noticesOfOrphan(job, worker, policy)
        : []
  return notices.length === 0 ? NOTHING : { notices }
}

const NOTHING = {}
