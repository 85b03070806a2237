import type { EventData, EventKind } from './events.ts'
import type { Status } from './states.ts'

const STATUS_AFTER: Readonly<Record<Exclude<EventKind, 'lost'>, Status>> = {
  queued: 'queued',
  processing: 'processing',
  started: 'processing',
  complete: 'complete',
  retry: 'queued',
  failed: 'failed',
  cancelled: 'cancelled',
  released: 'queued',
  snoozed: 'queued',
  reclaimed: 'queued',
  orphaned: 'processing',
  recovered: 'processing',
  'cancel-requested': 'processing',
  'manual-retry': 'queued',
}

/** Where a job stands after an event. A refused write changed nothing: it says how the job stood. */
export function statusAfter(kind: EventKind, data: EventData): Status {
  return kind === 'lost' ? (data.status ?? 'processing') : STATUS_AFTER[kind]
}
