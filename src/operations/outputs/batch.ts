import { z } from 'zod'
import { ERRORS, type ErrorCode } from '../../core/errors.ts'
import { SUBJECT_EVENTS } from '../../core/events.ts'
import { FAULTS } from '../../core/failure.ts'
import { ROLLUPS } from '../../core/policy-flow.ts'
import { BATCH_STATES } from '../../core/rollup.ts'
import type { BatchEventView, BatchView } from '../../core/view-batch.ts'
import type { BatchActed } from '../batch-acts.ts'
import type { BatchList, BatchShown } from '../batches.ts'
import { anything, count, done, exactly, id, name, nextCursor, text, time, timeOrNull, yes } from './schema.ts'

const counts = {
  total: count,
  unfinished: count,
  complete: count,
  failed: count,
  permanent: count.describe('of the failed: no further attempt would have helped'),
  cancelled: count,
}

const batchFields = {
  id,
  name,
  owner: name.nullable(),
  state: z.enum(BATCH_STATES),
  rollup: z.enum(ROLLUPS),
  sealed: yes.describe('no more jobs will be added'),
  counts: z.strictObject({ ...counts, queued: count, processing: count }),
  lastError: z
    .strictObject({
      jobId: id,
      type: name,
      code: name,
      message: text,
      attempt: count,
      at: time,
      deadLetterOffset: count.nullable(),
    })
    .nullable(),
  data: anything,
  onSettled: name.nullable(),
  notify: z.array(name),
  createdAt: time,
  settledAt: timeOrNull,
  settlements: count,
  expiresAt: timeOrNull,
}

const batchSchema = exactly<BatchView>()(z.strictObject(batchFields))

export const batchListSchema = exactly<BatchList>()(z.strictObject({ batches: z.array(batchSchema), nextCursor }))

const event = exactly<BatchEventView>()(
  z.strictObject({
    seq: count,
    at: time,
    kind: z.enum(SUBJECT_EVENTS.batch),
    data: z.strictObject({ ...counts, state: z.enum(BATCH_STATES), settlement: count }),
  }),
)

const failures = z.strictObject({
  codes: z.array(
    z.strictObject({
      code: name,
      fault: z.enum(FAULTS),
      message: text.describe('of the newest of them'),
      count,
      retryable: count.describe('so many of them a person may retry, as far as their policy says'),
    }),
  ),
  isMore: yes.describe('there are more failed jobs than were looked at'),
})

export const batchShownSchema = exactly<BatchShown>()(
  z.strictObject({
    ...batchFields,
    settledJobId: id.nullable().describe('the job that its newest settlement submitted'),
    history: z.array(event),
    failures,
  }),
)

export const batchActedSchema = exactly<BatchActed>()(
  z.strictObject({
    ...done,
    batch: batchSchema,
    items: z.array(
      z.strictObject({
        id,
        isDone: yes,
        did: text,
        code: z
          .enum(Object.keys(ERRORS) as ErrorCode[])
          .nullable()
          .describe('why not, where it was refused'),
      }),
    ),
  }),
)
