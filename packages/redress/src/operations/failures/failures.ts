import { z } from 'zod'
import { BATCH_STATES } from '../../core/batch.ts'
import { RedressError } from '../../core/errors.ts'
import { FAULTS } from '../../core/failure/failure.ts'
import { ACT_LEADS_FROM, type FailureGroup, GROUP_STATES, type GroupAct, lastDay } from '../../core/failure/group.ts'
import { SUBJECT_EVENTS } from '../../core/job/events.ts'
import { durationMs, formatMs, isoTime, isoTimeOrNull } from '../../core/text/duration.ts'
import { count, done, id, listOf, name, nextCursor, status, text, time, timeOrNull } from '../../core/views/fields.ts'
import { failureSchema, viewFailure } from '../../core/views/job.ts'
import { FAILURE_GROUP_SORTS, type FailureGroupDetail, foldAll } from '../../store/contract/failure-groups.ts'
import type { Store, StoredType } from '../../store/contract/store.ts'
import {
  actorFields,
  durationInput,
  limitField,
  momentField,
  momentMs,
  requireActorAndReason,
  typeField,
} from '../input-fields.ts'
import { type Context, operation } from '../operation.ts'

const LIST_MAX = 1_000

/** Failures of the same cause. */
const groupSchema = z.strictObject({
  fingerprint: text,
  type: name,
  code: name,
  fault: z.enum(FAULTS),
  message: text,
  count: count.describe('number of failures, not jobs; includes pruned ones'),
  finalCount: count.describe('failures that ended their job'),
  firstSeenAt: time,
  lastSeenAt: time,
  state: z.enum(GROUP_STATES),
  stateSince: time,
  // The actor and the reason of the state; null if no person set it.
  stateBy: name.nullable(),
  stateReason: text.nullable(),
  snoozedUntil: timeOrNull,
  snoozedForMore: z.int().nullable().describe('how many more failures end the snooze'),
})
export type FailureGroupView = z.infer<typeof groupSchema>

const groupListSchema = z.strictObject({
  groups: z.array(
    z.strictObject({
      ...groupSchema.shape,
      queue: name,
      hours: z.array(count).describe('failures in each of the last 24 hours, the current hour last'),
    }),
  ),
  nextCursor,
  notGrouped: z.array(name).describe('types whose failures are not grouped'),
})

const groupDetailSchema = z.strictObject({
  ...groupSchema.shape,
  queue: name,
  // The newest failure whose job is still kept.
  sample: failureSchema.nullable(),
  fields: z.array(
    z.strictObject({
      field: text,
      // The most frequent first.
      values: listOf(z.strictObject({ value: text, count, over: count.describe('by how much count may be too high') })),
    }),
  ),
  jobs: z.array(z.strictObject({ id, status, attempt: count, at: time })),
  batches: z
    .array(z.strictObject({ id, name, state: z.enum(BATCH_STATES), count: count.describe('how many of these jobs') }))
    .describe('the batches of these jobs'),
  // Failures per hour of the last day, the present hour last.
  hours: z.array(z.strictObject({ hour: time, count })),
  // What became of the group, the newest first.
  history: z.array(
    z.strictObject({
      at: time,
      kind: z.enum(SUBJECT_EVENTS.failures),
      actor: name.nullable(),
      reason: text.nullable(),
    }),
  ),
})

const groupActedSchema = z.strictObject({ ...done, group: groupSchema })
type GroupActed = z.infer<typeof groupActedSchema>

const fingerprintField = z.string().min(1).describe('the fingerprint of the group')

const listFailureGroups = operation('failures.list', {
  input: z.strictObject({
    type: typeField.optional().describe('only failures of this job type'),
    code: z.string().min(1).optional().describe('only failures with this code'),
    state: z.enum(GROUP_STATES).optional().describe('only groups in this state'),
    fault: z.enum(FAULTS).optional().describe('only failures with this fault'),
    since: momentField('only groups seen since'),
    q: z.string().min(1).optional().describe('part of the message, the code, the type or the fingerprint'),
    sort: z.enum(FAILURE_GROUP_SORTS).default('last-seen').describe('sort order'),
    limit: limitField(LIST_MAX),
    cursor: z.string().optional().describe('continue after the last page: its nextCursor'),
  }),
  output: groupListSchema,
  run: async ({ store }, { type, code, state, fault, since, q, sort, limit, cursor }) => {
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

const showFailureGroup = operation('failures.show', {
  input: z.strictObject({ fingerprint: fingerprintField }),
  output: groupDetailSchema,
  run: async ({ store }, { fingerprint }) => {
    const { group, jobs, batches, events } = await neededGroup(store, fingerprint)
    const [newest] = jobs
    const failures = newest === undefined ? [] : await store.failures({ id: newest.id })
    const sample = failures.find(({ seq }) => seq === newest?.failure)
    return {
      ...viewGroup(group),
      queue: queueOf(group.type, await store.types()),
      sample: sample === undefined ? null : viewFailure(sample),
      fields: Object.entries(group.fields).map(([field, values]) => ({ field, values })),
      jobs: jobs.map(({ id, status, attempt, atMs }) => ({ id, status, attempt, at: isoTime(atMs) })),
      batches,
      hours: lastDay(group, await store.nowMs()).map(({ startMs, count }) => ({ hour: isoTime(startMs), count })),
      history: events.map(({ atMs, kind, data }) => ({
        at: isoTime(atMs),
        kind,
        actor: data.actor ?? null,
        reason: data.reason ?? null,
      })),
    }
  },
})

const groupActFields = { fingerprint: fingerprintField, ...actorFields }
const MORE_MAX = 1_000_000_000

const resolveFailureGroup = operation('failures.resolve', {
  input: z.strictObject(groupActFields),
  output: groupActedSchema,
  run: (context, act) => actOn(context, act, { to: 'resolved' }),
})

const reopenFailureGroup = operation('failures.reopen', {
  input: z.strictObject(groupActFields),
  output: groupActedSchema,
  run: (context, act) => actOn(context, act, { to: 'open' }),
})

const snoozeFailureGroup = operation('failures.snooze', {
  input: z.strictObject({
    ...groupActFields,
    for: durationInput.optional().describe(`for how long: '30m', '8h', '7d'`),
    more: z.coerce.number().int().min(1).max(MORE_MAX).optional().describe('until this many more failures'),
  }),
  output: groupActedSchema,
  run: (context, { for: duration, more, ...act }) => {
    if (duration === undefined && more === undefined) {
      throw new RedressError('OPTION_INVALID', 'A snooze needs an end: `for` or `more`.', {
        action: `Give a duration (for: '8h'), a number of failures (more: 100), or both.`,
      })
    }
    const forMs = duration === undefined ? null : durationMs(duration, 'for')
    if (forMs === 0) throw new RedressError('OPTION_INVALID', 'for: the snooze must be longer than zero.')
    return actOn(context, act, { to: 'snoozed', forMs, more: more ?? null })
  },
})

async function actOn(
  { store }: Context,
  { fingerprint, actor, reason, dryRun }: z.output<z.ZodObject<typeof groupActFields>>,
  act: GroupAct,
): Promise<GroupActed> {
  const { group } = await neededGroup(store, fingerprint)
  requireActorAndReason({ actor, reason }, `failure group ${fingerprint}`)
  const expect = group.state
  if (!ACT_LEADS_FROM[act.to].includes(expect)) {
    throw new RedressError('FAILURE_GROUP_WRONG_STATE', `Failure group ${fingerprint} is already ${expect}.`)
  }
  const becomes = describe(act, await store.nowMs())
  if (dryRun) {
    const did = `Nothing was done. Failure group ${fingerprint} (${expect}) becomes ${becomes}.`
    return { isDone: false, did, group: viewGroup(group) }
  }
  const answer = await store.actOnFailureGroup({ fingerprint, actor, reason, expect, act })
  const now = (await neededGroup(store, fingerprint)).group
  if (answer === 'done') {
    return { isDone: true, did: `Failure group ${fingerprint} is ${becomes}.`, group: viewGroup(now) }
  }
  const message = `Failure group ${fingerprint} is ${now.state} now; it was ${expect} when this was decided. Nothing was done.`
  throw new RedressError('FAILURE_GROUP_WRONG_STATE', message)
}

function describe(act: GroupAct, nowMs: number): string {
  if (act.to === 'open') return 'open'
  if (act.to === 'resolved') return 'resolved; a new failure makes it regressed'
  const ends = [
    ...(act.forMs === null ? [] : [`for ${formatMs(act.forMs)}, until ${isoTime(nowMs + act.forMs)}`]),
    ...(act.more === null ? [] : [`until ${act.more} more failures`]),
  ]
  return `snoozed ${ends.join(', or ')}`
}

/** Counts new failures first. */
async function neededGroup(store: Store, fingerprint: string): Promise<FailureGroupDetail> {
  await foldAll(store)
  const found = await store.failureGroup({ fingerprint })
  if (found !== null) return found
  throw new RedressError('FAILURE_GROUP_NOT_FOUND', `There is no failure group ${fingerprint}.`, {
    action:
      'See `redress failures list`. Failures of a type whose policy has aggregates: false are not grouped: see its jobs.',
  })
}

function viewGroup(group: FailureGroup): FailureGroupView {
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

export const failureOperations = {
  'failures.list': listFailureGroups,
  'failures.show': showFailureGroup,
  'failures.resolve': resolveFailureGroup,
  'failures.snooze': snoozeFailureGroup,
  'failures.reopen': reopenFailureGroup,
}
