import type { LetterFacts, Skip } from '../../core/dead-letter/replay.ts'
import type { ActorAndReason, NewJob, StoredFailure } from './store.ts'

/** Dead letters: failed jobs with payload and cause. Offsets only grow and are never reused. */
export interface DeadLetterStore {
  /** By offset, the oldest first by default. */
  deadLetters(params: LetterFilter & LetterPage): Promise<StoredDeadLetter[]>
  deadLetter(params: { offset: number }): Promise<StoredDeadLetter | null>
  /** Their number by type and code, and the highest offset among them. */
  countDeadLetters(params: LetterFilter): Promise<LetterCounts>

  /**
   * Makes a new job from the letter and marks the letter, in one transaction, if there is no obstacle at that moment.
   * `replaysSeen` is how often it had been replayed when the person chose it.
   */
  replayDeadLetter(params: { offset: number; replaysSeen: number; isEdited: boolean; job: NewJob }): Promise<Replayed>

  /**
   * Removes letters for good, a bounded number per call; call again with the returned cursor. Their jobs stay failed, with
   * their history. `upToOffset` protects letters that are added meanwhile.
   */
  purgeDeadLetters(
    params: ActorAndReason & { filter: LetterFilter; afterOffset: number; upToOffset: number; limit: number },
  ): Promise<{ purged: number; cursor: number | null }>
}

export interface LetterPage {
  /** Only letters after it in the requested order; 0 for all. */
  afterOffset: number
  limit: number
  isNewestFirst?: boolean
}

export interface LetterFilter {
  offset?: number
  type?: string
  code?: string
  owner?: string
  fingerprint?: string
  /** Added at this time or later. */
  sinceMs?: number
  /** Added before this time. */
  untilMs?: number
  isReplayed?: boolean
}

export interface StoredDeadLetter extends LetterFacts {
  offset: number
  jobId: string
  type: string
  queue: string
  owner: string | null
  /** The batch of its job, also if another job has taken its place there. */
  batchId: string | null
  payload: string
  failure: StoredFailure
  attempts: number
  atMs: number
  replayedAtMs: number | null
  /** The newest job that a person made from its job, through this letter or in another way. */
  retriedAs: string | null
  /** What a job made from it takes over. */
  priority: number
  dedupeKey: string | null
  limitKey: string | null
}

interface LetterCounts {
  letters: number
  /** 0 if there are none. */
  lastOffset: number
  byCause: { type: string; code: string; letters: number }[]
}

export type Replayed = { job: string; skip: null } | { job: null; skip: Skip }

/** The marks on the letter decide whether it may be replayed again, so the current `retriedAs` of its job is accepted. */
export const madeAfter = ({ retriedAs }: StoredDeadLetter, job: NewJob): NewJob =>
  job.retriedFrom === null ? job : { ...job, retriedFrom: { ...job.retriedFrom, retriedAsSeen: retriedAs } }
