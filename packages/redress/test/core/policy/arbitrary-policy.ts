import fc from 'fast-check'
import { exponential, table } from '../../../src/core/policy/backoff.ts'
import { type Policy, type PolicyInput, policy } from '../../../src/core/policy/policy.ts'

const CODES = ['GW_5XX', 'IO_ERROR', 'UNKNOWN', 'WORKER_LOST', 'constructor'] as const
export const anyCode = fc.constantFrom(...CODES)
export const anyChance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

const anyDuration = fc.oneof(
  fc.integer({ min: 1, max: 100_000_000 }),
  fc.constantFrom('250ms', '5s', '1m', '1m30s', '2h', '7d'),
)
const anyJitter = fc.oneof(fc.constantFrom('0%', '20%', '100%'), fc.constantFrom('5s', '1m'))

export const anyBackoff = fc.oneof(
  fc
    .tuple(fc.array(anyDuration, { minLength: 1, maxLength: 6 }), fc.option(anyJitter, { nil: null }))
    .map(([delays, jitter]) => table(delays, { jitter })),
  fc
    .tuple(
      fc.integer({ min: 1, max: 3_600_000 }),
      fc.double({ min: 1, max: 10, noNaN: true }),
      fc.boolean(),
      fc.option(anyJitter, { nil: null }),
    )
    .map(([base, factor, capped, jitter]) => exponential(base, { factor, ...(capped ? { cap: '2h' } : {}), jitter })),
)

/** Well formed, but often contradictory. */
export const anyPolicyInput: fc.Arbitrary<PolicyInput> = fc.record(
  {
    retry: fc.record(
      {
        max: fc.integer({ min: 1, max: 6 }),
        perCode: fc.dictionary(anyCode, fc.integer({ min: 1, max: 6 }), { maxKeys: 2 }),
        backoff: fc.option(anyBackoff, { nil: null }),
        unknown: fc.constantFrom('never', 'transient', 'dead-letter'),
        retryAfterMax: anyDuration,
      },
      { requiredKeys: [] },
    ),
    manualRetry: fc.oneof(
      fc.constantFrom('in-place' as const, 'new-job' as const, 'off' as const),
      fc.record({ mode: fc.constantFrom('in-place', 'new-job'), budget: fc.constantFrom('reset', 'keep') }),
    ),
    orphan: fc.oneof(
      fc.constantFrom('report' as const, 'requeue' as const, 'fail' as const),
      fc.record(
        {
          action: fc.constantFrom('report', 'requeue', 'fail'),
          budget: fc.constantFrom('free', 'consume'),
          maxReclaims: fc.integer({ min: 1, max: 6 }),
        },
        { requiredKeys: [] },
      ),
    ),
    lease: fc.record(
      { ttl: fc.integer({ min: 1000, max: 90_000 }), startTimeout: fc.option(anyDuration, { nil: null }) },
      { requiredKeys: [] },
    ),
    timeout: fc.record(
      { attempt: fc.option(anyDuration, { nil: null }), total: fc.option(anyDuration, { nil: null }) },
      { requiredKeys: [] },
    ),
    deadLetter: fc.constantFrom('none', 'flag', 'queue'),
    reject: fc.constantFrom('record', 'refuse'),
    shutdown: fc.constantFrom('requeue', 'fail'),
    audit: fc.constantFrom('transactional', 'write-ahead'),
    errors: fc.constantFrom('latest', 'terminal'),
    aggregates: fc.boolean(),
    cancel: fc.boolean(),
    deny: fc.constantFrom('hide', 'forbid'),
    forwardOnly: fc.boolean(),
    retention: fc.record(
      { complete: anyDuration, failed: fc.option(anyDuration, { nil: null }), deadLetters: anyDuration },
      { requiredKeys: [] },
    ),
    breaker: fc.option(
      fc.record(
        {
          guards: fc.constantFrom('gateway', 's3'),
          mode: fc.constantFrom('hold', 'fail-fast'),
          windowCalls: fc.integer({ min: 5, max: 50 }),
          window: fc.constantFrom('1s', '2m'),
          minCalls: fc.integer({ min: 1, max: 6 }),
          ratio: fc.constantFrom(0.1, 0.5, 1),
          cooldown: anyDuration,
          ramp: anyDuration,
        },
        { requiredKeys: ['guards'] },
      ),
      { nil: null },
    ),
    concurrency: fc.oneof(
      fc.integer({ min: 1, max: 9 }),
      fc.record({ max: fc.integer({ min: 2, max: 9 }), perKey: fc.integer({ min: 1, max: 3 }) }, { requiredKeys: [] }),
    ),
    rate: fc.option(
      fc.record(
        { max: fc.integer({ min: 1, max: 9 }), per: anyDuration, scope: fc.constantFrom('type', 'key') },
        { requiredKeys: ['max'] },
      ),
      { nil: null },
    ),
    backlog: fc.record({ max: fc.integer({ min: 1, max: 9 }) }),
    rollup: fc.constantFrom('all-or-nothing', 'partial', 'any-permanent'),
    notify: fc.record(
      { failed: fc.constantFrom([], ['owner']), settled: fc.constantFrom([], ['ops']), window: anyDuration },
      { requiredKeys: [] },
    ),
    locked: fc.boolean(),
  },
  { requiredKeys: [] },
)

/** Only those that can be used. */
export const anyPolicy: fc.Arbitrary<Policy> = anyPolicyInput
  .map((input) => {
    try {
      return policy(input)
    } catch {
      return null
    }
  })
  .filter((made) => made !== null)
