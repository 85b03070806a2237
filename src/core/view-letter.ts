import { isoTime, isoTimeOrNull } from './iso-time.ts'
import type { FailureRecord } from './record.ts'
import { type LetterFacts, obstacleTo } from './replay-obstacle.ts'
import type { Status } from './states.ts'
import { type FailureView, viewFailure } from './view-history.ts'

/** A dead letter as every door shows it (F15): the task, its failure, how often it was tried, and when it was set aside. */
export interface LetterView {
  offset: number
  jobId: string
  type: string
  queue: string
  owner: string | null
  /** Of the batch that its job was made in. */
  batchId: string | null
  /** The number of tries of the task: each attempt, and each further try of the stage that an attempt failed with. */
  attempts: number
  at: string
  failure: FailureView
  input: unknown
  /** Of the job that it is about. */
  jobStatus: Status
  replays: number
  replayedAt: string | null
  replayedAs: string | null
  /** Whether it can be replayed now, and why not. */
  replay: { allowed: boolean; why: string }
}

export interface LetterRecord extends LetterFacts {
  offset: number
  jobId: string
  type: string
  queue: string
  owner: string | null
  batchId: string | null
  payload: string
  failure: FailureRecord
  attempts: number
  atMs: number
  replayedAtMs: number | null
}

export function viewLetter(letter: LetterRecord): LetterView {
  const { offset, jobId, type, queue, owner, batchId, attempts, atMs, failure, payload } = letter
  const { status, replays, replayedAtMs, replayedAs } = letter
  const obstacle = obstacleTo(letter, 0, false)
  return {
    offset,
    jobId,
    type,
    queue,
    owner,
    batchId,
    attempts,
    at: isoTime(atMs),
    failure: viewFailure(failure),
    input: JSON.parse(payload),
    jobStatus: status,
    replays,
    replayedAt: isoTimeOrNull(replayedAtMs),
    replayedAs,
    replay: { allowed: obstacle === null, why: obstacle?.why ?? 'makes a new job; this one stays failed' },
  }
}
