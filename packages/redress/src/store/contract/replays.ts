import type { ReplayAct, ReplayPlan, ReplayState, Skip, SkipCode } from '../../core/dead-letter/replay.ts'
import type { Status } from '../../core/job/states.ts'
import type { LetterFilter, StoredDeadLetter } from './dead-letters.ts'
import type { By, NewJob } from './store.ts'

/**
 * The replay of many dead letters as a thing of its own: a frozen selection that any number of processes work off, in
 * steps that each compare before they change. No letter becomes two jobs by it, whoever dies in the middle.
 */
export interface ReplayStore {
  /** Begins a selection; it can be started when its last items were added. */
  draftReplay(params: By & NewReplay): Promise<void>
  addReplayItems(params: { id: string; items: readonly NewReplayItem[]; isLast: boolean }): Promise<void>
  /** A person's act, if the replay still stands as that person saw it. */
  moveReplay(params: By & { id: string; act: ReplayAct; expect: ReplayState }): Promise<'done' | 'moved-on'>

  replay(params: { id: string }): Promise<StoredReplay | null>
  /** The newest first. */
  replays(params: { state?: ReplayState; beforeKey?: number; limit: number }): Promise<StoredReplay[]>
  replayItems(params: {
    id: string
    state?: ReplayItemState
    afterPosition: number
    limit: number
  }): Promise<StoredReplayItem[]>
  /** What its items came to. */
  replayCounts(params: { id: string }): Promise<ReplayCounts>

  /**
   * Takes one due replay in hand for `turnMs`, so that others leave it alone meanwhile, and answers with the letters to
   * prepare: only of the given types, for only a program that knows a type can check its input. What needs no
   * preparation (the verdict on a canary, the end) is done at once; then there are no items. null: nothing is due.
   */
  takeReplayTurn(params: { types: readonly string[]; turnMs: number; limit: number }): Promise<ReplayTurn | null>
  /** Makes jobs of prepared letters: those still waiting, that nothing stands in the way of, as many as may go now. */
  advanceReplay(params: {
    id: string
    decided: readonly DecidedItem[]
  }): Promise<{ submitted: number; skipped: number }>
  /** When a replay next has something to do; null when none is under way. */
  nextReplayAtMs(): Promise<number | null>
}

export interface NewReplay extends ReplayPlan {
  id: string
  /** What was asked for; kept to be shown. */
  selection: LetterFilter
  /** A JSON merge patch for each payload, as text. */
  patch: string | null
}

export interface NewReplayItem {
  offset: number
  type: string
  /** How often the letter had been replayed when it was chosen. */
  replaysSeen: number
  /** The id that its job will have, reserved here. */
  job: string
  skip: Skip | null
}

export type ReplayItemState = 'waiting' | 'skipped' | 'submitted'

export interface StoredReplay extends NewReplay {
  key: number
  state: ReplayState
  /** Why it stands so. */
  why: string
  isCanaryOver: boolean
  /** Who planned it, and why. */
  plannedBy: By
  /** Who started or resumed it last: in whose name its jobs are made. */
  startedBy: By | null
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
  /** Of its job now; null where there is none, or none any more. */
  status: Status | null
}

export interface ReplayCounts {
  skipped: { code: SkipCode; letters: number }[]
  /** Of those that wait. */
  waiting: { type: string; letters: number }[]
  /** The jobs that were made, as they stand now; `gone` were removed after their retention. */
  jobs: Record<Status | 'gone', number>
}

export interface ReplayTurn {
  id: string
  patch: string | null
  by: By
  items: { position: number; job: string; letter: StoredDeadLetter | null }[]
}

export interface DecidedItem {
  position: number
  /** With the id that the item reserves, or why there is none. */
  decision: { job: NewJob } | { skip: Skip }
}
