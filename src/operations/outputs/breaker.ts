import { z } from 'zod'
import { SUBJECT_EVENTS } from '../../core/events.ts'
import type { BreakerAct } from '../breaker-acts.ts'
import type { BreakerDetail, BreakerView } from '../breakers.ts'
import { count, done, exactly, name, number, text, time, timeOrNull, yes } from './schema.ts'

const status = z.enum(['closed', 'open', 'half-open'])
const mode = z.enum(['hold', 'fail-fast'])

const breakerFields = {
  name,
  status: status.describe('what holds: what was forced, or else what was computed'),
  why: text,
  nextChangeAt: timeOrNull,
  computed: z.strictObject({ status, since: time, reason: text, triesAt: timeOrNull, passed: count }),
  forced: z
    .strictObject({ status: z.enum(['open', 'closed']), actor: name, reason: text, at: time, until: timeOrNull })
    .nullable(),
  window: z.strictObject({ calls: count, failed: count, ratio: number }),
  mode: z.enum(['mixed', 'hold', 'fail-fast']),
  underWay: count,
  allowed: number.nullable().describe('how many may be under way at once; null for any number'),
  heldJobs: count,
  types: z.array(z.strictObject({ name, mode })),
  probe: z.strictObject({
    isDeclared: yes,
    last: z.strictObject({ at: time, passed: yes, said: text }).nullable(),
  }),
}

const breakerSchema = exactly<BreakerView>()(z.strictObject(breakerFields))

export const breakerDetailSchema = exactly<BreakerDetail>()(
  z.strictObject({
    ...breakerFields,
    policy: z.strictObject({
      windowCalls: number,
      windowMs: number,
      minCalls: number,
      ratio: number,
      cooldownMs: number,
      halfOpenProbes: number,
      probesToClose: number,
      rampMs: number,
    }),
    calls: z
      .array(z.strictObject({ at: time, succeeded: count, failed: count }))
      .describe('by the second in which they ended, the newest last; none from before it last changed'),
    history: z
      .array(
        z.strictObject({
          at: time,
          kind: z.enum(SUBJECT_EVENTS.breaker),
          status: status.describe('how it stood then'),
          actor: name.nullable(),
          reason: text,
          until: timeOrNull,
        }),
      )
      .describe('the newest first'),
  }),
)

export const breakerListSchema = z.strictObject({ breakers: z.array(breakerSchema) })

export const breakerActedSchema = exactly<BreakerAct>()(z.strictObject({ ...done, breaker: breakerSchema }))
