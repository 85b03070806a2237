import { z } from 'zod'
import { RedressError } from '../core/errors.ts'
import { FAULTS } from '../core/failure.ts'
import { GROUP_STATES, lastDay } from '../core/failure-group.ts'
import { isoTime } from '../core/iso-time.ts'
import type { Status } from '../core/states.ts'
import { type FailureGroupView, type TopField, viewFields, viewGroup, viewHours } from '../core/view-failure-group.ts'
import { type FailureView, viewFailure } from '../core/view-history.ts'
import {
  FAILURE_GROUP_SORTS,
  type FailureGroupBatch,
  type FailureGroupDetail,
  foldAll,
} from '../store/failure-groups.ts'
import type { Store, StoredType } from '../store/store.ts'
import { limitField, operation, typeField } from './operation.ts'
import { groupDetailSchema, groupListSchema } from './outputs/failure-group.ts'
import { momentField, momentMs } from './time-field.ts'

const LIST_MAX = 1_000

export interface FailureGroupListed extends FailureGroupView {
  queue: string
  /** Failures in each of the last 24 hours, the present hour last. */
  hours: number[]
}

export interface FailureGroupList {
  groups: FailureGroupListed[]
  /** Give it as `cursor` for those that follow; null when these were the last. */
  nextCursor: string | null
  /** Types whose policy has `aggregates: false`: each of their failures stands for itself. */
  notGrouped: string[]
}

export interface FailureGroupDetailView extends FailureGroupView {
  queue: string
  /** The newest failure whose job is still kept. */
  sample: FailureView | null
  fields: TopField[]
  jobs: { id: string; status: Status; attempt: number; at: string }[]
  /** The batches of these jobs, with how many of them are in each. */
  batches: FailureGroupBatch[]
  /** Failures per hour of the last day, the present hour last. */
  hours: { hour: string; count: number }[]
  /** What became of the group, the newest first. */
  history: GroupEventView[]
}

export interface GroupEventView {
  at: string
  kind: FailureGroupDetail['events'][number]['kind']
  actor: string | null
  reason: string | null
}

export const fingerprintField = z.string().min(1).describe('the fingerprint of the group')

export const listFailureGroups = operation('failures.list', {
  input: z.strictObject({
    type: typeField.optional().describe('only failures of this job type'),
    code: z.string().min(1).optional().describe('only failures with this code'),
    state: z.enum(GROUP_STATES).optional().describe('only groups in this state'),
    fault: z.enum(FAULTS).optional().describe('only failures of which this is at fault'),
    since: momentField('only what was seen since'),
    q: z.string().min(1).optional().describe('part of the message, the code, the type or the fingerprint'),
    sort: z.enum(FAILURE_GROUP_SORTS).default('last-seen').describe('what comes first'),
    limit: limitField(LIST_MAX),
    cursor: z.string().optional().describe('go on after the last page, with its nextCursor'),
  }),
  output: groupListSchema,
  run: async ({ store }, { type, code, state, fault, since, q, sort, limit, cursor }): Promise<FailureGroupList> => {
    await foldAll(store)
    const nowMs = await store.nowMs()
    const found = await store.failureGroups({
      filter: {
        ...(type !== undefined && { type }),
        ...(code !== undefined && { code }),
        ...(state !== undefined && { state }),
        ...(fault !== undefined && { fault }),
        ...(since !== undefined && { sinceMs: momentMs(since, 'since', nowMs) }),
        ...(q !== undefined && { text: q }),
      },
      sort,
      after: cursor === undefined ? null : readCursor(cursor),
      limit: limit + 1,
    })
    const shown = found.slice(0, limit)
    const last = shown.at(-1)
    const value = sort === 'count' ? last?.count : last?.lastAtMs
    const types = await store.types()
    return {
      groups: shown.map((group) => ({
        ...viewGroup(group),
        queue: queueOf(group.type, types),
        hours: lastDay(group, nowMs).map(({ count }) => count),
      })),
      nextCursor: found.length > shown.length ? `${value}_${last?.fingerprint}` : null,
      notGrouped: types
        .filter(({ name, policy }) => !policy.aggregates && (type === undefined || type === name))
        .map(({ name }) => name),
    }
  },
})

/** A group is of a type that was declared, and types are never removed. */
const queueOf = (type: string, types: readonly StoredType[]): string =>
  types.find(({ name }) => name === type)?.queue ?? ''

function readCursor(cursor: string): { value: number; fingerprint: string } {
  const [, value, fingerprint] = /^(\d+)_(.+)$/.exec(cursor) ?? []
  if (value !== undefined && fingerprint !== undefined) return { value: Number(value), fingerprint }
  throw new RedressError('OPTION_INVALID', `cursor: ${JSON.stringify(cursor)} is not the nextCursor of a list.`)
}

export const showFailureGroup = operation('failures.show', {
  input: z.strictObject({ fingerprint: fingerprintField }),
  output: groupDetailSchema,
  run: async ({ store }, { fingerprint }): Promise<FailureGroupDetailView> => {
    const { group, jobs, batches, events } = await neededGroup(store, fingerprint)
    const [newest] = jobs
    const failures = newest === undefined ? [] : await store.failures({ id: newest.id })
    const sample = failures.find(({ seq }) => seq === newest?.failure)
    return {
      ...viewGroup(group),
      queue: queueOf(group.type, await store.types()),
      sample: sample === undefined ? null : viewFailure(sample),
      fields: viewFields(group),
      jobs: jobs.map(({ id, status, attempt, atMs }) => ({ id, status, attempt, at: isoTime(atMs) })),
      batches,
      hours: viewHours(group, await store.nowMs()),
      history: events.map(({ atMs, kind, data }) => ({
        at: isoTime(atMs),
        kind,
        actor: data.actor ?? null,
        reason: data.reason ?? null,
      })),
    }
  },
})

/** With every failure counted that there is. */
export async function neededGroup(store: Store, fingerprint: string): Promise<FailureGroupDetail> {
  await foldAll(store)
  const found = await store.failureGroup({ fingerprint })
  if (found !== null) return found
  throw new RedressError('FAILURE_GROUP_NOT_FOUND', `No group of failures has the fingerprint ${fingerprint}.`, {
    action:
      'See `redress failures list`. Failures of a type whose policy has aggregates: false are not grouped: see its jobs.',
  })
}
