import type { LetterFacts, Skip } from '../../core/dead-letter/replay.ts'
import type { By, NewJob, StoredFailure } from './store.ts'

/** Jobs set aside with payload and cause. Their offsets only grow, and none is ever given to another letter. */
export interface DeadLetterStore {
  /** By offset, the oldest first unless it is said otherwise. */
  deadLetters(params: LetterFilter & LetterPage): Promise<StoredDeadLetter[]>
  deadLetter(params: { offset: number }): Promise<StoredDeadLetter | null>
  /** How many there are by type and code, and the highest offset among them. */
  countDeadLetters(params: LetterFilter): Promise<LetterCounts>

  /**
   * Makes a new job from the letter and marks the letter, in one transaction, if nothing stands in the way at that
   * moment. `replaysSeen` is how often it had been replayed when the person chose it.
   */
  replayDeadLetter(params: { offset: number; replaysSeen: number; isEdited: boolean; job: NewJob }): Promise<Replayed>

  /**
   * Removes letters for good, a bounded number per call; call again with the answered cursor. Their jobs stay failed,
   * with their history. `upToOffset` keeps what comes meanwhile.
   */
  purgeDeadLetters(
    params: By & { filter: LetterFilter; afterOffset: number; upToOffset: number; limit: number },
  ): Promise<{ purged: number; cursor: number | null }>
}

export interface LetterPage {
  /** Those that come after it, in the order that is asked for; 0 for all. */
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
  /** Set aside at this time or later. */
  sinceMs?: number
  /** Set aside before this time. */
  untilMs?: number
  isReplayed?: boolean
}

export interface StoredDeadLetter extends LetterFacts {
  offset: number
  jobId: string
  type: string
  queue: string
  owner: string | null
  /** Of the batch that its job was made in, also when another job has taken its place there. */
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

export interface LetterCounts {
  letters: number
  /** 0 when there are none. */
  lastOffset: number
  byCause: { type: string; code: string; letters: number }[]
}

export type Replayed = { job: string; skip: null } | { job: null; skip: Skip }

/** The marks on the letter decide whether it may be replayed again, so the current `retriedAs` of its job is accepted. */
export const madeAfter = ({ retriedAs }: StoredDeadLetter, job: NewJob): NewJob =>
  job.retriedFrom === null ? job : { ...job, retriedFrom: { ...job.retriedFrom, retriedAsSeen: retriedAs } }
