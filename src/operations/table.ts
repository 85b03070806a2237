import type { z } from 'zod'
import { createAccount, disableAccount, listAccounts } from './accounts.ts'
import { showActivity } from './activity.ts'
import { cancel, markFailed, retry, submit } from './acts.ts'
import { auditTrail } from './audit.ts'
import { cancelBatchJobs, listBatches, retryFailedJobs, showBatch } from './batches.ts'
import { closeBreaker, openBreaker, probeBreaker, releaseBreaker } from './breaker-acts.ts'
import { listBreakers, showBreaker } from './breakers.ts'
import type { OperationName } from './catalog.ts'
import { listLetters, purgeLetters, replayLetter, showLetter } from './dead-letters.ts'
import { reopenFailureGroup, resolveFailureGroup, snoozeFailureGroup } from './failure-group-acts.ts'
import { listFailureGroups, showFailureGroup } from './failure-groups.ts'
import { count, events, explanation, failures, list, orphans, show } from './jobs.ts'
import { listDeliveries, listNotices, testChannel } from './notices.ts'
import type { Operation } from './operation.ts'
import { previewPolicy } from './policy-preview.ts'
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
} from './replays.ts'
import { pauseSchedule, removeSchedule, resumeSchedule, triggerSchedule } from './schedule-acts.ts'
import { listSchedules, showSchedule } from './schedules.ts'
import { createSignInLink } from './sign-in-links.ts'
import { policyOfType, types, workers } from './surroundings.ts'
import { createToken, listTokens, revokeToken } from './tokens.ts'

/** Every entry of the catalogue with its input and how it is done. */
export const OPERATIONS = {
  'jobs.submit': submit,
  'jobs.list': list,
  'jobs.count': count,
  'jobs.show': show,
  'jobs.explain': explanation,
  'jobs.events': events,
  'jobs.failures': failures,
  'jobs.retry': retry,
  'jobs.cancel': cancel,
  'jobs.mark-failed': markFailed,
  'orphans.list': orphans,
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
  'types.list': types,
  'workers.list': workers,
  'activity.show': showActivity,
  'audit.list': auditTrail,
  'breakers.list': listBreakers,
  'breakers.show': showBreaker,
  'breakers.open': openBreaker,
  'breakers.close': closeBreaker,
  'breakers.release': releaseBreaker,
  'breakers.probe': probeBreaker,
  'policy.show': policyOfType,
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
export type InputOf<Name extends OperationName> = z.input<Table[Name]['input']>
export type OutputOf<Name extends OperationName> = Awaited<ReturnType<Table[Name]['run']>>
