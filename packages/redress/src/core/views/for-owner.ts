import type { Action } from '../job/actions.ts'
import type { EventKind, JobEvent } from '../job/events.ts'
import type { Hold } from '../job/hold.ts'
import type { FailureRecord, JobRecord } from '../job/record.ts'
import type { JobView } from './job.ts'

/**
 * A job and its history as its owner may see them: what happened and what is to be done, in the words that were chosen
 * for them (D25, D26). What was really thrown, on which machine, and who of the operators did what is not theirs to know.
 */
const SOMEBODY = 'an operator'

/** How owners see a code that is not the job type's own: as one of its codes, with its message. */
export interface OwnerCode {
  code: string
  message: string
  waiting: string
}

/** Returns null for a code that owners see unchanged. */
export type OwnerCodes = (type: string, code: string) => OwnerCode | null

/**
 * Whether owners see this code for other codes, or another code for this one. A search by the stored code would then
 * be wrong.
 */
export type IsMapped = (code: string) => boolean

export function failureForOwner(failure: FailureRecord, codeOf: (code: string) => OwnerCode | null): FailureRecord {
  const { decision } = failure
  const isByHand = decision.rule === 'mark-failed'
  const shown = codeOf(failure.code)
  const because = isByHand ? `${SOMEBODY} marked it as failed` : decision.because
  return {
    ...failure,
    ...shown,
    worker: null,
    detail: '',
    context: {},
    causes: [],
    // The sentence may begin with the code.
    decision: { ...decision, because: shown === null ? because : because.replaceAll(failure.code, shown.code) },
  }
}

/** The engine's reasons for these name workers, breakers and their internal details. */
const NAMES_MACHINES: ReadonlySet<EventKind> = new Set(['reclaimed', 'released', 'orphaned', 'lost'])

export function eventForOwner(event: JobEvent, owner: string, codeOf: (code: string) => OwnerCode | null): JobEvent {
  const { actor, reason, code, ...rest } = event.data
  const isOwn = actor === owner
  const by = actor === undefined || isOwn ? {} : { actor: SOMEBODY }
  // Without an actor, the reason comes from the engine or the handler.
  const isTheirs = isOwn || (actor === undefined && !NAMES_MACHINES.has(event.kind))
  const why = reason === undefined || !isTheirs ? {} : { reason }
  const shown = code === undefined ? {} : { code: codeOf(code)?.code ?? code }
  return { ...event, worker: null, data: { ...rest, ...shown, ...(isOwn && { actor }), ...by, ...why } }
}

export function jobForOwner<Job extends JobRecord>(job: Job, codeOf: (code: string) => OwnerCode | null): Job {
  const { lease, latestFailure } = job
  return {
    ...job,
    lease: lease && { ...lease, worker: 'a worker' },
    latestFailure: latestFailure && failureForOwner(latestFailure, codeOf),
  }
}

/** An owner sees the kind of the hold. Its reason is left out: operators wrote it, or it names machines. */
const WHY_HELD: Readonly<Record<Hold['by'], string>> = {
  breaker: 'calls to the dependency are paused for now',
  queue: 'it is paused',
  concurrency: 'the limit of running jobs is reached',
  rate: 'the rate limit is reached',
  workers: 'no worker is running now',
}

export const holdForOwner = <Held extends Pick<Hold, 'by' | 'why'>>(hold: Held): Held => ({
  ...hold,
  why: WHY_HELD[hold.by],
})

/** A failed job shows its code's message; a job that waits for a retry shows the other one. */
function errorForOwner({ type, status, errorCode }: JobView, codes: OwnerCodes) {
  const shown = errorCode === null ? null : codes(type, errorCode)
  return shown && { errorCode: shown.code, errorMessage: status === 'failed' ? shown.message : shown.waiting }
}

export const viewForOwner = <View extends JobView>(view: View, codes: OwnerCodes): View => ({
  ...view,
  ...errorForOwner(view, codes),
  worker: null,
  held: view.held.map(holdForOwner),
  actions: actionsForOwner(view.actions),
})

/** Says in advance which actions an owner may not do. */
export const actionsForOwner = (actions: readonly Action[]): Action[] =>
  actions.map((action) => {
    const what = FOR_OPERATORS[action.name]
    return what !== undefined && action.allowed
      ? { ...action, allowed: false, why: `only an operator can ${what}` }
      : action
  })

/**
 * An owner may give up or repeat their own work. Another input is a submission, another time or priority changes the line of
 * others, and a deletion removes evidence: these are for operators.
 */
const FOR_OPERATORS: Readonly<Partial<Record<Action['name'], string>>> = {
  'mark-failed': 'mark a job failed',
  reschedule: 'reschedule a job',
  promote: 'promote a job',
  reprioritise: 'change the priority of a job',
  'replace-input': 'replace the input of a job',
  delete: 'delete a job',
}
