import type { Fault } from '../core/failure.ts'
import {
  type FailureGroup,
  type GroupAct,
  type GroupedFailure,
  type GroupState,
  stateAt,
} from '../core/failure-group.ts'
import { stateAt as batchStateAt } from '../core/rollup.ts'
import type { Status } from '../core/states.ts'
import { type StoredBatch, standingOf } from './batch-rows.ts'
import type { FailureGroupBatch, FailureGroupDetail, FailureGroupEvent } from './failure-groups.ts'
import { parse, type Row } from './rows.ts'

const KIND_OF_ACT = { resolved: 'resolved', snoozed: 'snoozed', open: 'reopened' } as const
/** As the operations call them. */
const ACT = { resolved: 'failures.resolve', snoozed: 'failures.snooze', open: 'failures.reopen' } as const

export const subjectOf = (fingerprint: string): `failures:${string}` => `failures:${fingerprint}`

/** As it stands at a time: a snooze that is over has nobody who writes so. */
export const asOf = (group: FailureGroup, nowMs: number): FailureGroup => ({ ...group, state: stateAt(group, nowMs) })

/** How a person's act on a group is written down: as an event of the group, and in the audit trail. */
export function noteOf(wanted: GroupAct, changed: FailureGroup) {
  const until = {
    ...(changed.snoozedUntilMs !== null && { untilMs: changed.snoozedUntilMs }),
    ...(wanted.to === 'snoozed' && wanted.more !== null && { more: wanted.more }),
  }
  return { kind: KIND_OF_ACT[wanted.to], act: ACT[wanted.to], until }
}

export function toGrouped(row: Row, type: string): GroupedFailure {
  return {
    seq: row.seq as number,
    job: row.job as number,
    atMs: row.at as number,
    fingerprint: row.fingerprint as string,
    type,
    code: row.code as string,
    fault: row.fault as Fault,
    message: row.message as string,
    context: parse<Record<string, unknown>>(row.context as string | null, {}),
    isFinal: row.to_status === 'failed',
  }
}

export function toGroup(row: Row): FailureGroup {
  return {
    fingerprint: row.fingerprint as string,
    type: row.type as string,
    code: row.code as string,
    fault: row.fault as Fault,
    message: row.message as string,
    firstAtMs: row.first_at as number,
    lastAtMs: row.last_at as number,
    count: row.count as number,
    final: row.final as number,
    newest: JSON.parse(row.newest as string),
    fields: JSON.parse(row.fields as string),
    hours: JSON.parse(row.hours as string),
    state: row.state as GroupState,
    stateAtMs: row.state_at as number,
    stateBy: row.state_by as string | null,
    stateReason: row.state_reason as string | null,
    stateSeq: row.state_seq as number,
    snoozedUntilMs: row.snoozed_until as number | null,
    snoozedCount: row.snoozed_count as number | null,
  }
}

/** The other way, in the order of the columns. */
export function groupColumns(group: FailureGroup) {
  return {
    fingerprint: group.fingerprint,
    type: group.type,
    code: group.code,
    fault: group.fault,
    message: group.message,
    first_at: group.firstAtMs,
    last_at: group.lastAtMs,
    count: group.count,
    final: group.final,
    newest: JSON.stringify(group.newest),
    fields: JSON.stringify(group.fields),
    hours: JSON.stringify(group.hours),
    state: group.state,
    state_at: group.stateAtMs,
    state_by: group.stateBy,
    state_reason: group.stateReason,
    state_seq: group.stateSeq,
    snoozed_until: group.snoozedUntilMs,
    snoozed_count: group.snoozedCount,
  }
}

export function toGroupJob(row: Row, failure: number): FailureGroupDetail['jobs'][number] {
  const [id, status] = [row.id as string, row.status as Status]
  return { id, status, failure, attempt: row.attempt as number, atMs: row.at as number }
}

/** `keys`: for each of the jobs the batch that it has a place in, if it has one. */
export function toGroupBatches(
  keys: readonly (number | null)[],
  batches: readonly StoredBatch[],
  nowMs: number,
): FailureGroupBatch[] {
  const found = batches.map((row) => ({
    id: row.id,
    name: row.name,
    state: batchStateAt(standingOf(row), nowMs),
    count: keys.filter((key) => key === row.key).length,
  }))
  return found.sort((a, b) => b.count - a.count || a.id.localeCompare(b.id))
}

export function toGroupEvent(row: Row): FailureGroupEvent {
  return {
    atMs: row.at as number,
    kind: row.kind as FailureGroupEvent['kind'],
    data: parse<FailureGroupEvent['data']>(row.data as string | null, {}),
  }
}
