import { z } from 'zod'
import type { Backoff } from '../../core/backoff.ts'
import type { Policy } from '../../core/policy.ts'
import { type BreakerPolicy, ROLLUPS } from '../../core/policy-flow.ts'
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

export const policyOfTypeSchema = z.strictObject({ type: name, policy: policySchema })

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
