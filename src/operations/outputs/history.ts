import { z } from 'zod'
import type { Spent } from '../../core/budget.ts'
import type { DelayInputs, Reasons } from '../../core/decide.ts'
import { EVENT_KINDS } from '../../core/events.ts'
import type { ExplainedStep, Explanation } from '../../core/explain.ts'
import type { Alike } from '../../core/explain-alike.ts'
import { type CauseLink, FAULTS, OWNERS, STAGES } from '../../core/failure.ts'
import { GROUP_STATES } from '../../core/failure-group.ts'
import type { StageSummary } from '../../core/stage.ts'
import type { EventView, FailureView } from '../../core/view-history.ts'
import { actionSchema, holdSchema, statusSchema } from './job.ts'
import { count, exactly, id, name, number, text, time } from './schema.ts'

const spent = exactly<Spent>()(
  z.strictObject({
    failures: count,
    byCode: z.record(name, count),
    reclaims: count,
    releases: count,
    snoozes: count,
    manualRetries: count,
    attemptBase: count,
    triesWithin: count,
  }),
)

const stageSummary = exactly<StageSummary>()(
  z.strictObject({
    name,
    runs: count.describe('how often the stage was entered'),
    tries: count,
    max: count,
    succeeded: count,
    failed: count,
    codes: z.record(name, count).describe('failed tries by code'),
  }),
)

export const eventSchema = exactly<EventView>()(
  z.strictObject({
    seq: count.describe('position in the history of the whole store'),
    at: time,
    kind: z.enum(EVENT_KINDS),
    attempt: count,
    worker: name.nullable(),
    durationMs: number.nullable().describe('how long the handler ran, where it ended an attempt'),
    data: z.strictObject({
      failure: count.describe(`seq of the failure's record`).optional(),
      code: name.optional(),
      httpStatus: number.optional(),
      stages: z.array(stageSummary).optional(),
      actor: name.optional(),
      reason: text.optional(),
      write: z.enum(['start', 'renew', 'close']).describe('of a lost write: which one').optional(),
      status: statusSchema.optional(),
      currentAttempt: count.optional(),
      deadLetterOffset: count.optional(),
      schedule: name.optional(),
      dueAt: time.optional(),
      scheduledFor: time.optional(),
      spent: spent.optional(),
    }),
  }),
)

const delay = exactly<DelayInputs>()(
  z.discriminatedUnion('source', [
    z.strictObject({ source: z.literal('none') }),
    z.strictObject({ source: z.literal('error.retryAfter'), askedMs: number, maxMs: number }),
    z.strictObject({
      source: z.literal('retry.backoff'),
      kind: z.enum(['table', 'exponential']),
      failuresBefore: count,
      baseMs: number,
      jitterMs: number,
    }),
  ]),
)

export const reasonsSchema = exactly<Reasons>()(
  z.strictObject({
    because: text.describe('one plain sentence'),
    rule: text.describe('the rule of the policy that answered'),
    budget: z.strictObject({ name, before: number, after: number, max: number }),
    delay: delay.optional(),
  }),
)

const cause = exactly<CauseLink>()(z.strictObject({ name: text, message: text, code: text.optional() }))

export const failureSchema = exactly<FailureView>()(
  z.strictObject({
    seq: count,
    attempt: count,
    at: time,
    worker: name.nullable(),
    from: statusSchema.nullable(),
    to: statusSchema,
    stage: z.enum(STAGES),
    owner: z.enum(OWNERS).describe('who has to account for it'),
    code: name,
    fault: z.enum(FAULTS),
    message: text.describe('public; shown when nothing more will happen by itself'),
    waiting: text.describe('public; shown while a retry is waiting'),
    detail: text.describe('what was really thrown; redacted, for operators'),
    context: z.record(text, z.unknown()),
    causes: z.array(cause),
    rule: text.describe('the rule that chose the code'),
    fingerprint: text,
    decision: reasonsSchema,
  }),
)

export const eventsSchema = z.strictObject({ events: z.array(eventSchema) })
export const failuresSchema = z.strictObject({ failures: z.array(failureSchema) })

const tone = z.enum(['bad', 'good', 'waiting', 'plain'])

const alike = exactly<Alike>()(
  z.strictObject({ fingerprint: text, others: count, since: time, state: z.enum(GROUP_STATES), text }),
)

const step = exactly<ExplainedStep>()(
  z.strictObject({
    at: time,
    sinceSubmittedMs: number,
    attempt: count.nullable().describe('null for what happened outside an attempt'),
    worker: name.nullable(),
    ranMs: number.nullable(),
    text,
    tone,
    notes: z.array(z.strictObject({ sinceSubmittedMs: number, text, tone })),
    stages: z.array(stageSummary),
    failure: failureSchema.nullable(),
    ended: z.strictObject({ text, tone }).nullable(),
  }),
)

export const explanationSchema = exactly<Explanation>()(
  z.strictObject({
    id,
    type: name,
    status: statusSchema,
    owner: name.nullable(),
    retriedFrom: id.nullable(),
    retriedAs: id.nullable(),
    submittedAt: time,
    ageMs: number,
    at: time,
    tone,
    verdict: z.array(text).describe('sentences, the most important first'),
    held: z.array(holdSchema),
    alike: alike.nullable(),
    steps: z.array(step),
    actions: z.array(actionSchema),
  }),
)
