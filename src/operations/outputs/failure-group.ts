import { z } from 'zod'
import { FAULTS } from '../../core/failure.ts'
import { GROUP_STATES } from '../../core/failure-group.ts'
import { BATCH_STATES } from '../../core/rollup.ts'
import type { FailureGroupView } from '../../core/view-failure-group.ts'
import type { FailureGroupActed } from '../failure-group-acts.ts'
import type { FailureGroupDetailView, FailureGroupList, FailureGroupListed } from '../failure-groups.ts'
import { failureSchema } from './history.ts'
import { statusSchema } from './job.ts'
import { count, done, exactly, id, name, nextCursor, text, time, timeOrNull } from './schema.ts'

const groupFields = {
  fingerprint: text,
  type: name,
  code: name,
  fault: z.enum(FAULTS),
  message: text,
  count: count.describe('failures, not jobs; pruned ones are still counted'),
  finalCount: count.describe('those of them that ended their job'),
  firstSeenAt: time,
  lastSeenAt: time,
  state: z.enum(GROUP_STATES),
  stateSince: time,
  stateBy: name.nullable(),
  stateReason: text.nullable(),
  snoozedUntil: timeOrNull,
  snoozedForMore: z.int().nullable().describe('so many more failures end the snooze'),
}

const groupSchema = exactly<FailureGroupView>()(z.strictObject(groupFields))

const listedSchema = exactly<FailureGroupListed>()(
  z.strictObject({
    ...groupFields,
    queue: name,
    hours: z.array(count).describe('failures in each of the last 24 hours, the present hour last'),
  }),
)

export const groupListSchema = exactly<FailureGroupList>()(
  z.strictObject({
    groups: z.array(listedSchema),
    nextCursor,
    notGrouped: z.array(name).describe('types whose failures are not grouped'),
  }),
)

export const groupDetailSchema = exactly<FailureGroupDetailView>()(
  z.strictObject({
    ...groupFields,
    queue: name,
    sample: failureSchema.nullable(),
    fields: z.array(
      z.strictObject({
        field: text,
        values: z.array(
          z.strictObject({ value: text, count, over: count.describe('by how much count may be too high') }),
        ),
      }),
    ),
    jobs: z.array(z.strictObject({ id, status: statusSchema, attempt: count, at: time })),
    batches: z
      .array(z.strictObject({ id, name, state: z.enum(BATCH_STATES), count: count.describe('how many of these jobs') }))
      .describe('the batches of these jobs'),
    hours: z.array(z.strictObject({ hour: time, count })),
    history: z.array(
      z.strictObject({
        at: time,
        kind: z.enum(['resolved', 'snoozed', 'reopened', 'regressed']),
        actor: name.nullable(),
        reason: text.nullable(),
      }),
    ),
  }),
)

export const groupActedSchema = exactly<FailureGroupActed>()(z.strictObject({ ...done, group: groupSchema }))
