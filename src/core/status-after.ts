import type { EventData, EventKind } from './events.ts'
import type { Status } from './states.ts'

const STATUS_AFTER: Readonly<Record<Exclude<EventKind, 'lost' | 'expired'>, Status>> = {
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

/** Where a job stands after an event. One that changed nothing says how the job stood. */
export function statusAfter(kind: EventKind, data: EventData): Status {
  if (kind === 'lost') return data.status ?? 'processing'
  return kind === 'expired' ? (data.status ?? 'complete') : STATUS_AFTER[kind]
}
