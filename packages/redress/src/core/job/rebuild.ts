import type { JobEvent } from './events.ts'
import type { Status } from './states.ts'

/** The part of a job's row that its history determines. */
export interface RebuiltState {
  status: Status
  attempt: number
  worker: string | null
  spent: string | null
  dueAtMs: number | null
  failure: number | null
  isOrphaned: boolean
  isCancelRequested: boolean
}

/** Rebuilds a job's state from its history, or says which event could not have happened. */
export function rebuild(events: readonly JobEvent[]): RebuiltState {
  const state: RebuiltState = {
    status: 'queued',
    attempt: 0,
    worker: null,
    spent: null,
    dueAtMs: null,
    failure: null,
    isOrphaned: false,
    isCancelRequested: false,
  }
  let isSubmitted = false
  for (const event of events) {
    const refuse = (why: string): never => {
      throw new Error(`event ${event.seq} (${event.kind}, attempt ${event.attempt}) cannot follow: ${why}`)
    }
    if (event.kind === 'lost') continue
    if (!isSubmitted) {
      if (event.kind !== 'queued' && event.kind !== 'failed') refuse('a history begins with queued or failed')
      isSubmitted = true
    } else if (event.kind === 'queued') refuse('the job was submitted already')
    else if (!MAY_FOLLOW[event.kind].includes(state.status)) refuse(`the job was ${state.status}`)
    else if (state.status === 'processing' && event.attempt !== state.attempt) {
      refuse(`attempt ${state.attempt} was the one under way`)
    }
    apply(state, event, refuse)
  }
  return state
}

const MAY_FOLLOW: Record<Exclude<JobEvent['kind'], 'queued' | 'lost'>, readonly Status[]> = {
  processing: ['queued'],
  started: ['processing'],
  complete: ['processing'],
  retry: ['processing'],
  failed: ['queued', 'processing'],
  cancelled: ['queued', 'processing'],
  released: ['processing'],
  snoozed: ['processing'],
  reclaimed: ['processing'],
  orphaned: ['processing'],
  recovered: ['processing'],
  'cancel-requested': ['processing'],
  'manual-retry': ['failed'],
  rescheduled: ['queued'],
  reprioritised: ['queued'],
  'input-replaced': ['queued'],
  expired: ['complete', 'failed', 'cancelled'],
  // The history of a deleted job is gone.
  deleted: [],
}

function apply(state: RebuiltState, event: JobEvent, refuse: (why: string) => never): void {
  const { kind, data } = event
  switch (kind) {
    case 'queued':
      state.dueAtMs = data.dueAtMs ?? null
      return
    case 'processing':
      if (event.attempt <= state.attempt) refuse(`attempt numbers only grow, and it was ${state.attempt}`)
      state.status = 'processing'
      state.attempt = event.attempt
      state.worker = event.worker
      state.dueAtMs = null
      return
    case 'rescheduled':
      state.dueAtMs = data.dueAtMs ?? null
      return
    case 'input-replaced':
      if (state.attempt > 0) refuse(`attempt ${state.attempt} ran with the input before it`)
      if (data.dueAtMs !== undefined) state.dueAtMs = data.dueAtMs
      return
    case 'reprioritised':
    case 'started':
    case 'expired':
    case 'deleted':
      return
    case 'orphaned':
      state.isOrphaned = true
      return
    case 'recovered':
      state.isOrphaned = false
      return
    case 'cancel-requested':
      state.isCancelRequested = true
      return
    case 'retry':
    case 'released':
    case 'snoozed':
    case 'reclaimed':
    case 'manual-retry':
      leaveProcessing(state, 'queued', data.spent)
      state.failure = null
      state.dueAtMs = data.dueAtMs ?? null
      return
    case 'failed':
      leaveProcessing(state, 'failed', data.spent)
      state.failure = data.failure ?? null
      return
    case 'complete':
    case 'cancelled':
      leaveProcessing(state, kind, data.spent)
      return
  }
}

function leaveProcessing(state: RebuiltState, status: Status, spent: string | undefined): void {
  state.status = status
  state.worker = null
  state.dueAtMs = null
  state.isOrphaned = false
  state.isCancelRequested = false
  if (spent !== undefined) state.spent = spent === '' ? null : spent
}
