/**
 * The state machine of a job, as a table. A policy narrows it (see `edgesOf` in policy.ts);
 * the store refuses whatever is left out.
 */
export const STATUSES = ['queued', 'processing', 'complete', 'failed', 'cancelled'] as const
export type Status = (typeof STATUSES)[number]

export const TERMINAL: ReadonlySet<Status> = new Set(['complete', 'failed', 'cancelled'])

/** Every edge the engine knows, with what takes it. `backward` edges are the ones a policy may remove. */
export const EDGES = [
  { from: 'queued', to: 'processing', by: 'claim', backward: false },
  { from: 'queued', to: 'failed', by: 'mark-failed', backward: false },
  { from: 'queued', to: 'cancelled', by: 'cancel', backward: false },
  { from: 'processing', to: 'complete', by: 'close', backward: false },
  { from: 'processing', to: 'failed', by: 'close', backward: false },
  { from: 'processing', to: 'cancelled', by: 'cancel', backward: false },
  { from: 'processing', to: 'queued', by: 'retry', backward: true },
  { from: 'processing', to: 'queued', by: 'reclaim', backward: true },
  { from: 'processing', to: 'queued', by: 'release', backward: true },
  { from: 'processing', to: 'queued', by: 'snooze', backward: true },
  { from: 'failed', to: 'queued', by: 'manual-retry', backward: true },
] as const

export type Edge = (typeof EDGES)[number]
export type EdgeCause = Edge['by']
