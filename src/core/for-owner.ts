import type { JobEvent } from './events.ts'
import type { FailureRecord } from './record.ts'

/**
 * The history of a job as its owner may see it: what happened and what is to be done, in the words that were chosen for
 * them (D25, D26). What was really thrown, on which machine, and who of the operators did what is not theirs to know.
 */
const SOMEBODY = 'an operator'

export function failureForOwner(failure: FailureRecord): FailureRecord {
  const { decision } = failure
  const isByHand = decision.rule === 'mark-failed'
  return {
    ...failure,
    worker: null,
    detail: '',
    context: {},
    causes: [],
    decision: isByHand ? { ...decision, because: `${SOMEBODY} marked it as failed` } : decision,
  }
}

export function eventForOwner(event: JobEvent, owner: string): JobEvent {
  const { actor, reason, ...rest } = event.data
  const isOwn = actor === owner
  // Without an actor, the reason is the engine's or the handler's own.
  const by = actor === undefined || isOwn ? {} : { actor: SOMEBODY }
  const why = reason === undefined || (actor !== undefined && !isOwn) ? {} : { reason }
  return { ...event, worker: null, data: { ...rest, ...(isOwn && { actor }), ...by, ...why } }
}
