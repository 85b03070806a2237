import { z } from 'zod'
import type { Backoff } from '../../core/backoff.ts'
import { FAULTS } from '../../core/failure.ts'
import type { Policy } from '../../core/policy.ts'
import { type BreakerPolicy, ROLLUPS } from '../../core/policy-flow.ts'
import type { PolicyField } from '../../core/policy-words.ts'
import type { Step } from '../../core/simulate.ts'
import { RETRY_CLASSES } from '../../core/taxonomy.ts'
import type { PolicyPreview } from '../policy-preview.ts'
import { reasonsSchema } from './history.ts'
import { statusSchema } from './job.ts'
import { count, exactly, id, name, number, text, time, timeOrNull, yes } from './schema.ts'

const jitter = z
  .discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('ratio'), ratio: number }),
    z.strictObject({ kind: z.literal('add'), maxMs: number }),
  ])
  .nullable()

const backoff = exactly<Backoff>()(
  z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('table'), delaysMs: z.array(number), jitter }),
    z.strictObject({
      kind: z.literal('exponential'),
      baseMs: number,
      factor: number,
      capMs: number.nullable(),
      jitter,
    }),
  ]),
)

const breaker = exactly<BreakerPolicy>()(
  z.strictObject({
    guards: name,
    mode: z.enum(['hold', 'fail-fast']),
    windowCalls: number,
    windowMs: number,
    minCalls: number,
    ratio: number,
    cooldownMs: number,
    halfOpenProbes: number,
    probesToClose: number,
    rampMs: number,
    code: name.nullable(),
  }),
)

const policySchema = exactly<Policy>()(
  z.strictObject({
    retry: z.strictObject({
      max: number,
      perCode: z.record(name, number),
      backoff: backoff.nullable(),
      unknown: z.enum(['never', 'transient', 'dead-letter']),
      retryAfterMsMax: number,
      budget: z.strictObject({ ratio: number, perMinute: number }).nullable(),
    }),
    manualRetry: z.strictObject({ mode: z.enum(['in-place', 'new-job', 'off']), budget: z.enum(['reset', 'keep']) }),
    orphan: z.strictObject({
      action: z.enum(['report', 'requeue', 'fail']),
      budget: z.enum(['free', 'consume']),
      maxReclaims: number,
      stuckAfterMs: number.nullable(),
    }),
    lease: z.strictObject({ ttlMs: number, startTimeoutMs: number.nullable() }),
    timeout: z.strictObject({ attemptMs: number.nullable(), totalMs: number.nullable() }),
    deadLetter: z.enum(['none', 'flag', 'queue']),
    reject: z.enum(['record', 'refuse']),
    shutdown: z.enum(['requeue', 'fail']),
    audit: z.enum(['transactional', 'write-ahead']),
    errors: z.enum(['latest', 'terminal']),
    aggregates: yes,
    cancel: yes,
    deny: z.enum(['hide', 'forbid']),
    forwardOnly: yes,
    retention: z.strictObject({
      completeMs: number.nullable(),
      failedMs: number.nullable(),
      cancelledMs: number.nullable(),
      deadLettersMs: number.nullable(),
    }),
    locked: yes,
    breaker: breaker.nullable(),
    concurrency: z.strictObject({ max: number.nullable(), perKey: number.nullable() }),
    rate: z.strictObject({ max: number, perMs: number, burst: number, scope: z.enum(['type', 'key']) }).nullable(),
    backlog: z.strictObject({ max: number.nullable() }),
    rollup: z.enum(ROLLUPS),
    notify: z.strictObject({
      failed: z.array(name),
      orphaned: z.array(name),
      settled: z.array(name),
      windowMs: number,
    }),
  }),
)

const field = exactly<PolicyField>()(z.strictObject({ name, value: text.describe('in words'), isDefault: yes }))

export const policyOfTypeSchema = z.strictObject({
  type: name,
  policy: policySchema,
  fields: z.array(field).describe('the same, field by field, as its author would write it'),
})

const step = exactly<Step>()(
  z.strictObject({
    atMs: number.describe('since the job was submitted; attempts are taken to last no time at all'),
    attempt: count,
    outcome: name,
    status: statusSchema.describe('after the decision'),
    reasons: reasonsSchema.nullable(),
    nextAtMs: number.nullable().describe('when the next attempt may begin; null when there is none'),
    note: text.nullable().describe('what was assumed'),
  }),
)

export const policyPreviewSchema = exactly<PolicyPreview>()(
  z.strictObject({
    type: name,
    outcomes: z.array(name),
    steps: z.array(step),
    text: text.describe('the same for people'),
    codes: z
      .array(z.strictObject({ code: name, fault: z.enum(FAULTS), retry: z.enum(RETRY_CLASSES), message: text }))
      .describe(`the type's own failure codes`),
    isCodesKnown: yes.describe('false where this program has not declared the type: then codes is empty'),
  }),
)

export const typeListSchema = z.strictObject({
  types: z.array(z.strictObject({ name, queue: name, registeredAt: time, policy: policySchema })),
})

export const workerListSchema = z.strictObject({
  workers: z.array(
    z.strictObject({
      id,
      host: text,
      pid: count,
      types: z.array(name).describe('the job types it runs'),
      state: z.enum(['working', 'silent', 'stopped']),
      startedAt: time,
      seenAt: time,
      stoppedAt: timeOrNull,
    }),
  ),
})
