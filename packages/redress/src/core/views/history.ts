import { z } from 'zod'
import { failureFields } from '../failure/failure.ts'
import { EVENT_KINDS, eventDataFields, type JobEvent } from '../job/events.ts'
import type { FailureRecord } from '../job/record.ts'
import { spentSchema, unpackSpent } from '../policy/budget.ts'
import { reasonsSchema } from '../policy/decide.ts'
import { isoTime } from '../text/iso-time.ts'
import { count, name, number, status, time } from './fields.ts'

/** One line of a job's history as every door shows it. */
export const eventSchema = z.strictObject({
  seq: count.describe('position in the history of the whole store'),
  at: time,
  kind: z.enum(EVENT_KINDS),
  attempt: count,
  worker: name.nullable(),
  durationMs: number.nullable().describe('how long the handler ran, where it ended an attempt'),
  data: z.strictObject({
    ...eventDataFields,
    dueAt: time.exactOptional(),
    scheduledFor: time.exactOptional(),
    spent: spentSchema.exactOptional(),
  }),
})
export type EventView = z.infer<typeof eventSchema>

export function viewEvent({ seq, atMs, kind, attempt, worker, durationMs, data }: JobEvent): EventView {
  const { dueAtMs, scheduledForMs, spent, ...rest } = data
  return {
    seq,
    at: isoTime(atMs),
    kind,
    attempt,
    worker,
    durationMs,
    data: {
      ...rest,
      ...(dueAtMs === undefined ? {} : { dueAt: isoTime(dueAtMs) }),
      ...(scheduledForMs === undefined ? {} : { scheduledFor: isoTime(scheduledForMs) }),
      ...(spent === undefined ? {} : { spent: unpackSpent(spent === '' ? null : spent) }),
    },
  }
}

/** A failure with its decision, as an operator sees it. */
export const failureSchema = z.strictObject({
  seq: count,
  attempt: count,
  at: time,
  worker: name.nullable(),
  from: status.nullable(),
  to: status,
  ...failureFields,
  decision: reasonsSchema,
})
export type FailureView = z.infer<typeof failureSchema>

export function viewFailure(failure: FailureRecord): FailureView {
  const { seq, attempt, atMs, worker, from, to, phase, layer, code, fault, message, waiting } = failure
  const { detail, context, causes, rule, fingerprint, decision } = failure
  return {
    seq,
    attempt,
    at: isoTime(atMs),
    worker,
    from,
    to,
    phase: phase,
    layer: layer,
    code,
    fault,
    message,
    waiting,
    detail,
    context,
    causes,
    rule,
    fingerprint,
    decision,
  }
}
