import type { ActorAndReason } from './store.ts'

/** Named groups of job types that are paused and resumed together. */
export interface QueueStore {
  /**
   * No job of the queue is claimed until it is resumed, or until `forMs` is over. Running jobs go on. A second pause replaces
   * actor, reason and end. Refused with QUEUE_UNKNOWN if no type has this queue.
   */
  pauseQueue(params: { name: string; by: ActorAndReason; forMs: number | null }): Promise<void>
  resumeQueue(params: { name: string; by: ActorAndReason }): Promise<'resumed' | 'not-paused'>
  /** Records the end of pauses whose time is over. Returns the names of the queues. */
  endPauses(): Promise<string[]>
  /** Every queue of a declared type, by name. */
  queues(): Promise<StoredQueue[]>
  /** How far the limits of a type, or of one limit key of it, are used. */
  load(params: { type: string; limitKey: string | null }): Promise<TypeLoad>
  /** One entry per declared job type, also of types without a job. Cheap: it reads no finished jobs. */
  depths(): Promise<TypeDepth[]>
}

export interface StoredQueue {
  name: string
  types: QueuedType[]
  paused: QueuePause | null
}

interface QueuedType {
  type: string
  /** Since when the oldest ready job waits; null if none is ready. */
  oldestReadyAtMs: number | null
}

export interface QueuePause {
  atMs: number
  by: string
  reason: string
  /** null: until a person resumes it. */
  untilMs: number | null
}

export interface TypeLoad {
  /** Processing jobs of the type, also those of lost workers. */
  underWay: number
  underWayOfKey: number
  /** Those among them that were reported as orphans and wait for a person. */
  orphaned: number
  /** When the rate limit allows the next job; null if it does now, or there is none. */
  rateOpensAtMs: number | null
}

export interface TypeDepth {
  type: string
  queue: string
  /** Due jobs, whatever else holds them. */
  ready: number
  /** Not due yet. */
  waiting: number
  /** Processing jobs, also those of lost workers. */
  active: number
  /** Those among them that were reported as orphans and wait for a person. */
  orphaned: number
}
