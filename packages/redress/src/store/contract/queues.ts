import type { By } from './store.ts'

/** Named groups of job types, held up and let go together. */
export interface QueueStore {
  /**
   * Nothing of the queue is claimed until it is resumed, or until `forMs` is over. What runs goes on. Pausing it again
   * replaces who, why and until when. Refused with QUEUE_UNKNOWN where no type has this queue.
   */
  pauseQueue(params: { name: string; by: By; forMs: number | null }): Promise<void>
  resumeQueue(params: { name: string; by: By }): Promise<'resumed' | 'not-paused'>
  /** Records the end of pauses whose time is over; they hold nothing up any more. Answers with their names. */
  endPauses(): Promise<string[]>
  /** Every queue that some type has, by name. */
  queues(): Promise<StoredQueue[]>
  /** What stands between the jobs of a type, or of one key of it, and a worker. */
  load(params: { type: string; limitKey: string | null }): Promise<TypeLoad>
  /** One entry per declared job type, also of types without a job. Cheap: it reads no finished jobs. */
  depths(): Promise<TypeDepth[]>
}

export interface StoredQueue {
  name: string
  types: QueuedType[]
  paused: QueuePause | null
}

export interface QueuedType {
  type: string
  /** When the job that is ready for longest was queued; null when none is. */
  oldestReadyAtMs: number | null
}

export interface QueuePause {
  atMs: number
  by: string
  reason: string
  /** null: until somebody resumes it. */
  untilMs: number | null
}

export interface TypeLoad {
  /** Jobs of the type in the hands of a worker, also of one that is gone. */
  underWay: number
  underWayOfKey: number
  /** Those among them that were reported as orphans: they wait for a person. */
  orphaned: number
  /** When a rate limit lets the next one go; null when it would at once, or there is none. */
  rateOpensAtMs: number | null
}

export interface TypeDepth {
  type: string
  queue: string
  /** Could be claimed now, as far as their own time goes. */
  ready: number
  /** Not due yet. */
  waiting: number
  /** In the hands of a worker, also of one that is gone. */
  active: number
  /** Those among them that were reported: they wait for a person. */
  orphaned: number
}
