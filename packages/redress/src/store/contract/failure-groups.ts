import type { BatchState } from '../../core/batch.ts'
import type { Fault } from '../../core/failure/failure.ts'
import type { FailureGroup, GroupAct, GroupState } from '../../core/failure/group.ts'
import type { Status } from '../../core/job/states.ts'
import type { ActorAndReason } from './store.ts'
/**
 * Failures counted by cause. A cursor counts failures into groups, so a failing job costs nothing more. Readers first count
 * the new failures. Pruned failures stay counted. Types with `aggregates: false` have no groups.
 */
export interface FailureGroupStore {
  /** Counts at most `limit` new failures. Each counts once, however many processes count at the same time. */
  foldFailures(params: { limit: number }): Promise<Folded>
  failureGroups(params: FailureGroupsParams): Promise<FailureGroup[]>
  failureGroup(params: { fingerprint: string }): Promise<FailureGroupDetail | null>
  /** A person's act on a group, if it is still as that person saw it. */
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
  /** Only groups after this one in that order. */
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
  /** With a failure at this time or later. */
  sinceMs?: number
  /** Part of the message, code, type or fingerprint, case-insensitive. */
  text?: string
}

export interface FailureGroupDetail {
  group: FailureGroup
  /** The newest failures whose jobs are still kept, the newest first, one per job. */
  jobs: { id: string; status: Status; failure: number; attempt: number; atMs: number }[]
  /** The batches of these jobs, those with the most of them first. */
  batches: FailureGroupBatch[]
  /** The events of the group, the newest first. */
  events: FailureGroupEvent[]
}

export interface FailureGroupBatch {
  id: string
  name: string
  state: BatchState
  /** How many of these jobs it has. */
  count: number
}

export interface FailureGroupEvent {
  atMs: number
  kind: 'resolved' | 'snoozed' | 'reopened' | 'regressed'
  data: { actor?: string; reason?: string; failure?: number; untilMs?: number; more?: number }
}

interface FailureGroupIntervention extends ActorAndReason {
  fingerprint: string
  act: GroupAct
  /** The state that the person decided on. */
  expect: GroupState
}

/** Large enough that one step is usually enough, and small enough that other transactions can wait for it. */
export const FOLD_PER_STEP = 1_000

/** Counts until all failures are counted or the steps are used up. Short transactions let others run in between. */
export async function foldAll(store: FailureGroupStore, stepsMax = Number.POSITIVE_INFINITY): Promise<number> {
  let folded = 0
  for (let step = 0; step < stepsMax; step++) {
    const answer = await store.foldFailures({ limit: FOLD_PER_STEP })
    folded += answer.folded
    if (answer.isCaughtUp) break
  }
  return folded
}
