import { z } from 'zod'
import type { BreakerAct } from '../breaker-acts.ts'
import type { BreakerView } from '../breakers.ts'
import { count, done, exactly, name, number, text, time, timeOrNull, yes } from './schema.ts'

const status = z.enum(['closed', 'open', 'half-open'])
const mode = z.enum(['hold', 'fail-fast'])

const breakerSchema = exactly<BreakerView>()(
  z.strictObject({
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
  }),
)

export const breakerListSchema = z.strictObject({ breakers: z.array(breakerSchema) })

export const breakerActedSchema = exactly<BreakerAct>()(z.strictObject({ ...done, breaker: breakerSchema }))
