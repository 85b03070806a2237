import type { OperationName } from '../../operations/catalog.ts'
import type { OutputOf } from '../../operations/table.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { accessActed, accountList, accountMade, linkMade, tokenList, tokenMade } from './accounts.ts'
import { activity } from './activity.ts'
import { audit } from './audit.ts'
import { batch, batchActed, batchList } from './batches.ts'
import { breaker, breakerAct, breakers } from './breakers.ts'
import { letter, letterList, purged, replayedLetter } from './dead-letters.ts'
import { actedOnGroup, failureGroup, failureGroups } from './failures.ts'
import { events, explanation, failures, job, jobCount, jobList } from './jobs.ts'
import { deliveries, notices, testedChannel } from './notices.ts'
import { queueActed, queues } from './queues.ts'
import { actedOnReplay, planned, replay, replayedMatching, replayList } from './replays.ts'
import { schedule, scheduleActed, scheduleList } from './schedules.ts'
import { policy, policyPreview, types, workers } from './surroundings.ts'

export interface Rendering {
  terminal: Terminal
  /** A line to paste, with the options that lead to the same store. */
  command(...words: string[]): string
  /** Where the pages are, as far as this command knows: 'http://127.0.0.1:7373'. */
  server: string
  /** For the person, beside the data. */
  hint(text: string): void
}

type Renderer<Name extends OperationName> = (output: OutputOf<Name>, rendering: Rendering) => string

/** How the answer of each operation looks in a terminal. */
export const RENDERERS: { [Name in OperationName]: Renderer<Name> } = {
  'jobs.list': jobList,
  'jobs.count': jobCount,
  'jobs.show': job,
  'jobs.explain': explanation,
  'jobs.events': events,
  'jobs.failures': failures,
  'jobs.submit': submitted,
  'jobs.retry': did,
  'jobs.cancel': did,
  'jobs.mark-failed': did,
  'orphans.list': jobList,
  'failures.list': failureGroups,
  'failures.show': failureGroup,
  'failures.resolve': actedOnGroup,
  'failures.snooze': actedOnGroup,
  'failures.reopen': actedOnGroup,
  'dead-letters.list': letterList,
  'dead-letters.show': letter,
  'dead-letters.replay': replayedLetter,
  'dead-letters.replay-matching': replayedMatching,
  'dead-letters.purge': purged,
  'replays.plan': planned,
  'replays.start': actedOnReplay,
  'replays.pause': actedOnReplay,
  'replays.resume': actedOnReplay,
  'replays.abort': actedOnReplay,
  'replays.list': replayList,
  'replays.show': replay,
  'batches.list': batchList,
  'batches.show': batch,
  'batches.cancel': batchActed,
  'batches.retry-failed': batchActed,
  'notices.list': notices,
  'notices.deliveries': deliveries,
  'notices.test': testedChannel,
  'queues.list': queues,
  'queues.pause': queueActed,
  'queues.resume': queueActed,
  'types.list': types,
  'workers.list': workers,
  'activity.show': activity,
  'audit.list': audit,
  'breakers.list': breakers,
  'breakers.show': breaker,
  'breakers.open': breakerAct,
  'breakers.close': breakerAct,
  'breakers.release': breakerAct,
  'breakers.probe': breakerAct,
  'policy.show': policy,
  'policy.preview': policyPreview,
  'schedules.list': scheduleList,
  'schedules.show': schedule,
  'schedules.pause': scheduleActed,
  'schedules.resume': scheduleActed,
  'schedules.trigger': scheduleActed,
  'schedules.remove': scheduleActed,
  'accounts.create': accountMade,
  'accounts.list': accountList,
  'accounts.disable': accessActed,
  'tokens.create': tokenMade,
  'tokens.list': tokenList,
  'tokens.revoke': accessActed,
  'sign-in-links.create': linkMade,
}

/** What to say instead of an empty table. */
export const NOTHING: Partial<Record<OperationName, string>> = {
  'breakers.list': 'No job type has a breaker.',
  'jobs.list': 'No jobs.',
  'jobs.events': 'No events.',
  'jobs.failures': 'It has not failed.',
  'orphans.list': 'No orphans: every processing job has a worker.',
  'dead-letters.list': 'No dead letters.',
  'replays.list': 'No replays.',
  'batches.list': 'No batches.',
  'schedules.list': 'No schedules.',
  'audit.list': 'No entries: nobody did anything like that.',
  'accounts.list': 'No accounts.',
  'tokens.list': 'None of this kind.',
  'notices.list': 'No notices.',
  'notices.deliveries': 'No deliveries.',
  'queues.list': 'No program has declared a job type here.',
  'types.list': 'No program has declared a job type here.',
  'workers.list': 'No worker is at this store. See --all for those that were.',
}

function did(output: OutputOf<'jobs.retry'>, { hint, command }: Rendering): string {
  if (output.isDone) hint(`See how it goes: ${command('explain', output.job.id)}`)
  return `${output.did}\n`
}

function submitted(output: OutputOf<'jobs.submit'>, { hint, command }: Rendering): string {
  if (output.job !== null) hint(`See how it goes: ${command('explain', output.job.id)}`)
  return `${output.did}\n`
}
