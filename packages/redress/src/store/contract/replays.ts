import type { ReplayAct, ReplayPlan, ReplayState, Skip, SkipCode } from '../../core/dead-letter/replay.ts'
import type { Status } from '../../core/job/states.ts'
import type { LetterFilter, StoredDeadLetter } from './dead-letters.ts'
import type { ActorAndReason, NewJob } from './store.ts'

/**
 * The replay of many dead letters: a frozen selection that any number of processes work through, in steps that each compare
 * before they change. No letter becomes two jobs, even if a process dies in the middle.
 */
export interface ReplayStore {
  /** Begins a selection. The replay can be started after its last items were added. */
  draftReplay(params: ActorAndReason & NewReplay): Promise<void>
  addReplayItems(params: { id: string; items: readonly NewReplayItem[]; isLast: boolean }): Promise<void>
  /** A person's act, if the replay is still as that person saw it. */
  moveReplay(params: ActorAndReason & { id: string; act: ReplayAct; expect: ReplayState }): Promise<'done' | 'moved-on'>

  replay(params: { id: string }): Promise<StoredReplay | null>
  /** The newest first. */
  replays(params: { state?: ReplayState; beforeKey?: number; limit: number }): Promise<StoredReplay[]>
  replayItems(params: {
    id: string
    state?: ReplayItemState
    afterPosition: number
    limit: number
  }): Promise<StoredReplayItem[]>
  /** The outcomes of its items. */
  replayCounts(params: { id: string }): Promise<ReplayCounts>

  /**
   * Reserves one due replay for `turnMs`, so that other processes leave it alone, and returns the letters to prepare. Only
   * letters of the given types, because only a program that knows a type can check its input. Steps without preparation
   * (the verdict on a canary, the end) are done at once; then there are no items. null: nothing is due.
   */
  takeReplayTurn(params: { types: readonly string[]; turnMs: number; limit: number }): Promise<ReplayTurn | null>
  /** Makes jobs of prepared letters that still wait and have no obstacle, as many as the rate allows now. */
  advanceReplay(params: {
    id: string
    decided: readonly DecidedItem[]
  }): Promise<{ submitted: number; skipped: number }>
  /** When the next step of any replay is due; null if none is under way. */
  nextReplayAtMs(): Promise<number | null>
}

export interface NewReplay extends ReplayPlan {
  id: string
  /** The selection as it was requested, for display. */
  selection: LetterFilter
  /** A JSON merge patch for each payload, as text. */
  patch: string | null
}

export interface NewReplayItem {
  offset: number
  type: string
  /** How often the letter had been replayed when it was chosen. */
  replaysSeen: number
  /** The reserved id of its job. */
  job: string
  skip: Skip | null
}

export type ReplayItemState = 'waiting' | 'skipped' | 'submitted'

export interface StoredReplay extends NewReplay {
  key: number
  state: ReplayState
  /** The reason for its state. */
  why: string
  isCanaryOver: boolean
  /** Who planned it, and why. */
  plannedBy: ActorAndReason
  /** Who started or resumed it last: the actor of its jobs. */
  startedBy: ActorAndReason | null
  total: number
  submitted: number
  skipped: number
  createdAtMs: number
  startedAtMs: number | null
  endedAtMs: number | null
}

export interface StoredReplayItem {
  position: number
  offset: number
  type: string
  state: ReplayItemState
  skip: Skip | null
  /** Reserved while it waits. */
  job: string
  /** The state of its job; null if there is none, or it was removed. */
  status: Status | null
}

export interface ReplayCounts {
  skipped: { code: SkipCode; letters: number }[]
  /** Of the waiting items. */
  waiting: { type: string; letters: number }[]
  /** The current states of the jobs that were made; `gone` were removed after their retention. */
  jobs: Record<Status | 'gone', number>
}

export interface ReplayTurn {
  id: string
  patch: string | null
  by: ActorAndReason
  items: { position: number; job: string; letter: StoredDeadLetter | null }[]
}

export interface DecidedItem {
  position: number
  /** The job, with the id that the item reserves, or why there is none. */
  decision: { job: NewJob } | { skip: Skip }
}
