import type { Fault } from './failure.ts'
import { type FailureGroup, type GroupState, lastDay } from './failure-group.ts'
import { isoTime, isoTimeOrNull } from './iso-time.ts'
import type { CountedValue } from './top-values.ts'

/** Failures of the same cause, as every door shows them. */
export interface FailureGroupView {
  fingerprint: string
  type: string
  code: string
  fault: Fault
  message: string
  /** Failures, not jobs; pruned ones are still counted. */
  count: number
  /** Those of them that ended their job. */
  finalCount: number
  firstSeenAt: string
  lastSeenAt: string
  state: GroupState
  stateSince: string
  /** Who set the state, and why; null where nobody did. */
  stateBy: string | null
  stateReason: string | null
  snoozedUntil: string | null
  /** So many more failures end the snooze before its time. */
  snoozedForMore: number | null
}

export function viewGroup(group: FailureGroup): FailureGroupView {
  const { fingerprint, type, code, fault, message, count, state, stateBy, stateReason, snoozedCount } = group
  return {
    fingerprint,
    type,
    code,
    fault,
    message,
    count,
    finalCount: group.final,
    firstSeenAt: isoTime(group.firstAtMs),
    lastSeenAt: isoTime(group.lastAtMs),
    state,
    stateSince: isoTime(group.stateAtMs),
    stateBy,
    stateReason,
    snoozedUntil: state === 'snoozed' ? isoTimeOrNull(group.snoozedUntilMs) : null,
    snoozedForMore: state === 'snoozed' && snoozedCount !== null ? snoozedCount - count : null,
  }
}

export interface TopField {
  field: string
  /** The most frequent first. `count` may be too high by `over`, and is never too low. */
  values: readonly CountedValue[]
}

export const viewFields = ({ fields }: FailureGroup): TopField[] =>
  Object.entries(fields).map(([field, values]) => ({ field, values }))

export const viewHours = (group: FailureGroup, nowMs: number): { hour: string; count: number }[] =>
  lastDay(group, nowMs).map(({ startMs, count }) => ({ hour: isoTime(startMs), count }))
