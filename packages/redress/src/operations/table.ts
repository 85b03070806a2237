import type { z } from 'zod'
import { createAccount, disableAccount, listAccounts } from './accounts/accounts.ts'
import { createSignInLink, createToken, listTokens, revokeToken } from './accounts/tokens.ts'
import { showActivity } from './activity.ts'
import { auditTrail } from './audit.ts'
import { cancelBatchJobs, listBatches, retryFailedJobs, showBatch } from './batches/batches.ts'
import { closeBreaker, listBreakers, openBreaker, probeBreaker, releaseBreaker, showBreaker } from './breakers.ts'
import type { OperationName } from './catalog.ts'
import { listLetters, purgeLetters, replayLetter, showLetter } from './dead-letters/dead-letters.ts'
import {
  listFailureGroups,
  reopenFailureGroup,
  resolveFailureGroup,
  showFailureGroup,
  snoozeFailureGroup,
} from './failure-groups.ts'
import { cancel, markFailed, retry } from './jobs/interventions.ts'
import {
  countJobs,
  explainJob,
  listEvents,
  listFailures,
  listJobs,
  listOrphans,
  showJob,
  submitJob,
} from './jobs/jobs.ts'
import { listDeliveries, listNotices, testChannel } from './notices.ts'
import type { Operation } from './operation.ts'
import { listQueues, pauseQueue, resumeQueue } from './queues.ts'
import {
  abortReplay,
  listReplays,
  pauseReplay,
  planOfReplay,
  replayMatching,
  resumeReplay,
  showReplay,
  startReplay,
} from './replays/replays.ts'
import {
  listSchedules,
  pauseSchedule,
  removeSchedule,
  resumeSchedule,
  showSchedule,
  triggerSchedule,
} from './schedules.ts'
import { listTypes, previewPolicy, showPolicy } from './types.ts'
import { listWorkers } from './workers.ts'

export { perform } from './operation.ts'

/** Every entry of the catalogue with its input and how it is done. */
export const OPERATIONS = {
  'jobs.submit': submitJob,
  'jobs.list': listJobs,
  'jobs.count': countJobs,
  'jobs.show': showJob,
  'jobs.explain': explainJob,
  'jobs.events': listEvents,
  'jobs.failures': listFailures,
  'jobs.retry': retry,
  'jobs.cancel': cancel,
  'jobs.mark-failed': markFailed,
  'orphans.list': listOrphans,
  'failures.list': listFailureGroups,
  'failures.show': showFailureGroup,
  'failures.resolve': resolveFailureGroup,
  'failures.snooze': snoozeFailureGroup,
  'failures.reopen': reopenFailureGroup,
  'dead-letters.list': listLetters,
  'dead-letters.show': showLetter,
  'dead-letters.replay': replayLetter,
  'dead-letters.replay-matching': replayMatching,
  'dead-letters.purge': purgeLetters,
  'replays.plan': planOfReplay,
  'replays.start': startReplay,
  'replays.pause': pauseReplay,
  'replays.resume': resumeReplay,
  'replays.abort': abortReplay,
  'replays.list': listReplays,
  'replays.show': showReplay,
  'batches.list': listBatches,
  'batches.show': showBatch,
  'batches.cancel': cancelBatchJobs,
  'batches.retry-failed': retryFailedJobs,
  'notices.list': listNotices,
  'notices.deliveries': listDeliveries,
  'notices.test': testChannel,
  'queues.list': listQueues,
  'queues.pause': pauseQueue,
  'queues.resume': resumeQueue,
  'types.list': listTypes,
  'workers.list': listWorkers,
  'activity.show': showActivity,
  'audit.list': auditTrail,
  'breakers.list': listBreakers,
  'breakers.show': showBreaker,
  'breakers.open': openBreaker,
  'breakers.close': closeBreaker,
  'breakers.release': releaseBreaker,
  'breakers.probe': probeBreaker,
  'policy.show': showPolicy,
  'policy.preview': previewPolicy,
  'schedules.list': listSchedules,
  'schedules.show': showSchedule,
  'schedules.pause': pauseSchedule,
  'schedules.resume': resumeSchedule,
  'schedules.trigger': triggerSchedule,
  'schedules.remove': removeSchedule,
  'accounts.create': createAccount,
  'accounts.list': listAccounts,
  'accounts.disable': disableAccount,
  'tokens.create': createToken,
  'tokens.list': listTokens,
  'tokens.revoke': revokeToken,
  'sign-in-links.create': createSignInLink,
} satisfies { [Name in OperationName]: Pick<Operation, 'name' | 'input' | keyof import('./catalog.ts').CatalogEntry> }

type Table = typeof OPERATIONS
export type InputOf<Name extends OperationName> = Given<z.input<Table[Name]['input']>, z.output<Table[Name]['input']>>
/** A number may also be given as text, as the doors do and as `nextCursor` is. */
type Given<Input, Output> = {
  [Field in keyof Input]: unknown extends Input[Field] ? TextOr<Output[Field & keyof Output]> : Input[Field]
}
type TextOr<Value> = unknown extends Value ? unknown : Value | string
export type OutputOf<Name extends OperationName> = Awaited<ReturnType<Table[Name]['run']>>
