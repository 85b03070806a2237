import type { EventKind } from '../src/core/events.ts'

/** In the order in which they can happen. The type makes a kind that is missing here an error. */
export const eventMeanings: Readonly<Record<EventKind, string>> = {
  queued: 'Submitted and accepted. Names the person and the reason where it was made by a retry.',
  processing: 'Claimed by a worker: the attempt begins to count.',
  started: 'The handler really began. Left out when the attempt closes at once; its close says how long it ran.',
  complete: 'The attempt succeeded, and its output passed verification.',
  retry: 'The attempt failed, and the job goes back to the queue by its policy.',
  failed: 'Failed for good: by policy, because its worker was lost, by a person, or before any dispatch.',
  cancelled: 'Cancelled, while it waited or while it ran.',
  released: 'Given back by a worker that stops or has no room. Costs nothing.',
  snoozed: 'Put off by its own handler. Costs nothing.',
  reclaimed: 'Taken back from a worker that is gone.',
  orphaned: 'Its worker is gone. Reported and not touched: a person decides.',
  recovered: 'The worker of a reported orphan came back.',
  'cancel-requested': 'A person asked to cancel a running job; its worker is told.',
  'manual-retry': 'A person sent a failed job back to the queue.',
  lost: 'A worker wrote after its lease was gone. The write was refused; this is the evidence.',
}
