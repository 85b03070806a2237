import type { BatchState } from '../../core/batch.ts'
import type { Fault } from '../../core/failure/failure.ts'
import type { FailureGroup, GroupAct, GroupState } from '../../core/failure/group.ts'
import type { Status } from '../../core/job/states.ts'
import type { By } from './store.ts'
/**
 * Failures of the same cause, counted. Groups are derived from the failures by a cursor, so that a failing job pays
 * nothing for them; whoever reads them folds first what is not counted yet. What is pruned stays counted. Types whose
 * policy has `aggregates: false` have no groups.
 */
export interface FailureGroupStore {
  /** Counts failures that are not counted yet, at most so many. Each counts once, however many fold at a time. */
  foldFailures(params: { limit: number }): Promise<Folded>
  failureGroups(params: FailureGroupsParams): Promise<FailureGroup[]>
  failureGroup(params: { fingerprint: string }): Promise<FailureGroupDetail | null>
  /** A person's act on a group, if it still stands as that person saw it. */
  actOnFailureGroup(params: FailureGroupIntervention): Promise<'done' | 'moved-on'>
}

export interface Folded {
  folded: number
  isCaughtUp: boolean
}

export interface FailureGroupsParams {
  filter: FailureGroupFilter
  /** The highest first. */
  sort: FailureGroupSort
  /** Only what comes after this one in that order. */
  after: { value: number; fingerprint: string } | null
  limit: number
}

export const FAILURE_GROUP_SORTS = ['last-seen', 'count'] as const
export type FailureGroupSort = (typeof FAILURE_GROUP_SORTS)[number]

export interface FailureGroupFilter {
  type?: string
  code?: string
  fault?: Fault
  state?: GroupState
  /** Seen at this time or later. */
  sinceMs?: number
  /** Part of the message, code, type or fingerprint, in any case of letters. */
  text?: string
}

export interface FailureGroupDetail {
  group: FailureGroup
  /** The newest failures whose jobs are still kept, the newest first, one per job. */
  jobs: { id: string; status: Status; failure: number; attempt: number; atMs: number }[]
  /** The batches that these jobs have a place in, those with most of them first. */
  batches: FailureGroupBatch[]
  /** What became of the group, the newest first. */
  events: FailureGroupEvent[]
}

export interface FailureGroupBatch {
  id: string
  name: string
  state: BatchState
  /** How many of these jobs. */
  count: number
}

export interface FailureGroupEvent {
  atMs: number
  kind: 'resolved' | 'snoozed' | 'reopened' | 'regressed'
  data: { actor?: string; reason?: string; failure?: number; untilMs?: number; more?: number }
}

export interface FailureGroupIntervention extends By {
  fingerprint: string
  act: GroupAct
  /** The state that the person decided on. */
  expect: GroupState
}

/** Enough that one step is nearly always all there is, and short enough for everybody else to wait for. */
export const FOLD_PER_STEP = 1_000

/** Folds until all is counted, or so many steps are done: short transactions, with room between them for others. */
export async function foldAll(store: FailureGroupStore, stepsMax = Number.POSITIVE_INFINITY): Promise<number> {
  let folded = 0
  for (let step = 0; step < stepsMax; step++) {
    const answer = await store.foldFailures({ limit: FOLD_PER_STEP })
    folded += answer.folded
    if (answer.isCaughtUp) break
  }
  return folded
}
