import type { Store } from '../contract/store.ts'
import { openAccounts } from './accounts.ts'
import { openActivity } from './activity.ts'
import { openAudit } from './audit.ts'
import { type Batches, openBatchStore } from './batches.ts'
import { openFailureGroups } from './failure-groups.ts'
import { openFeed } from './feed.ts'
import { openDeleting } from './jobs/deleting.ts'
import { openIntervening } from './jobs/intervening.ts'
import { openJobs } from './jobs/jobs.ts'
import { openMerging } from './jobs/merging.ts'
import { openPruning, type PruningParts } from './jobs/pruning.ts'
import { openLogs } from './jobs/reports.ts'
import { typesOf } from './jobs/types.ts'
import { openExpiring } from './jobs/waiting.ts'
import { openDeadLetters, openLetters } from './letters/dead-letters.ts'
import { openReplays } from './letters/replays.ts'
import { openBreakers } from './limits/breakers.ts'
import { openQueues } from './limits/queues.ts'
import { openNotices } from './notices.ts'
import { openSchedules } from './schedules.ts'
import type { ScriptContext } from './tx/context.ts'
import { openWorkers } from './workers.ts'

/** What subjects need of a driver beside the context. */
interface DriverParts {
  batches: Batches
  pruning: PruningParts
  /** Calls the listener after each commit of this process; returns a function that ends it. */
  onCommit: Parameters<typeof openFeed>[1]
  /** Whether an error says that another live job has the dedupe key. */
  isDedupeKeyTaken?: Parameters<typeof openIntervening>[2]
}

/** What each driver does its own way. */
type OfDriver =
  | AttemptMethod
  | 'register'
  | 'enforceSingletons'
  | 'submit'
  | 'submitIn'
  | 'wake'
  | 'nowMs'
  | 'onWake'
  | 'onSubmit'
  | 'stop'
type AttemptMethod = 'claim' | 'start' | 'renew' | 'report' | 'close' | 'reclaim'

/** The methods of the store that are written once. A driver adds submit, claim, close and its connection. */
export function openSubjects(
  context: ScriptContext,
  { batches, pruning, onCommit, isDedupeKeyTaken }: DriverParts,
): Omit<Store, OfDriver> {
  const letters = openLetters(context)
  return {
    ...openAccounts(context),
    ...openActivity(context),
    ...openAudit(context),
    ...openBatchStore(context, batches),
    ...openBreakers(context),
    ...openDeadLetters(context, letters),
    ...openDeleting(context),
    ...openExpiring(context, batches),
    ...openFailureGroups(context),
    ...openFeed(context, onCommit),
    ...openIntervening(context, batches, isDedupeKeyTaken),
    ...openJobs(context),
    ...openMerging(context),
    ...openLogs(context),
    ...openNotices(context),
    ...openPruning(context, pruning),
    ...openQueues(context),
    ...openReplays(context, letters),
    ...openSchedules(context),
    ...openWorkers(context),
    types: () => typesOf(context),
  }
}
