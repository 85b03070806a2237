import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { RedressError } from '../../../src/core/errors.ts'
import { exponential, table } from '../../../src/core/policy/backoff.ts'
import { policy, policyFromJson, storedPolicy } from '../../../src/core/policy/policy.ts'
import { anyPolicyInput } from './arbitrary-policy.ts'

function problemsOf(build: () => unknown): readonly string[] {
  try {
    build()
  } catch (error) {
    expect(error).toMatchObject({ name: 'RedressError', code: 'POLICY_INVALID' })
    return (error as RedressError).problems
  }
  return []
}

test('the default policy is the safest: one attempt, and an orphan is only reported [P38]', () => {
  expect(policy()).toEqual({
    retry: { max: 1, perCode: {}, backoff: null, unknown: 'never', retryAfterMsMax: 86_400_000, budget: null },
    manualRetry: { mode: 'new-job', budget: 'reset' },
    orphan: { action: 'report', budget: 'free', maxReclaims: 5, stuckAfterMs: null },
    lease: { ttlMs: 30_000, startTimeoutMs: 60_000 },
    timeout: { attemptMs: 3_600_000, totalMs: null },
    deadLetter: 'none',
    reject: 'refuse',
    shutdown: 'requeue',
    audit: 'transactional',
    errors: 'terminal',
    aggregates: true,
    cancel: true,
    deny: 'hide',
    forwardOnly: false,
    retention: { completeMs: 2_592_000_000, failedMs: null, cancelledMs: 2_592_000_000, deadLettersMs: null },
    breaker: null,
    concurrency: { max: null, perKey: null },
    rate: null,
    backlog: { max: null },
    rollup: 'partial',
    notify: { failed: [], orphaned: [], settled: [], windowMs: 3_600_000 },
    locked: false,
  })
})

test('durations are written without unit in the name and stored in milliseconds', () => {
  const made = policy({
    lease: { ttl: '10s', startTimeout: null },
    timeout: { attempt: '10m', total: '1h' },
    retention: { complete: '7d', failed: '90d', cancelled: null },
    retry: { retryAfterMax: '1h' },
  })
  expect(made.lease).toEqual({ ttlMs: 10_000, startTimeoutMs: null })
  expect(made.timeout).toEqual({ attemptMs: 600_000, totalMs: 3_600_000 })
  expect(made.retention).toEqual({
    completeMs: 604_800_000,
    failedMs: 7_776_000_000,
    cancelledMs: null,
    deadLettersMs: null,
  })
  expect(made.retry.retryAfterMsMax).toBe(3_600_000)
})

test('a word stands for the manual retry mode or the orphan action', () => {
  expect(policy({ manualRetry: 'in-place', orphan: 'requeue' })).toEqual(
    policy({ manualRetry: { mode: 'in-place' }, orphan: { action: 'requeue' } }),
  )
})

test('a JSON file writes a backoff in words and means the same as the builders', () => {
  const fromFile = (backoff: object) => policyFromJson({ retry: { max: 3, backoff } }).retry.backoff
  expect(fromFile({ table: ['1m', '5m'], jitter: '20%' })).toEqual(table(['1m', '5m'], { jitter: '20%' }))
  expect(fromFile({ exponential: '5s', factor: 2, cap: '1h', jitter: '5s' })).toEqual(
    exponential('5s', { factor: 2, cap: '1h', jitter: '5s' }),
  )
})

test('a policy is frozen all the way down, and what it was made from is not', () => {
  const delays = [1000]
  const backoff = { kind: 'table' as const, delaysMs: delays, jitter: null }
  const made = policy({ retry: { max: 2, backoff } })
  const parts = [made, made.retry, made.retry.backoff, made.retry.perCode, made.lease]
  expect(parts.every(Object.isFrozen)).toBe(true)
  expect([backoff, delays].some(Object.isFrozen)).toBe(false)
})

test('a policy is the same after a trip through JSON, by every door', () => {
  fc.assert(
    fc.property(anyPolicyInput, (input) => {
      if (problemsOf(() => policy(input)).length > 0) return
      const made = policy(input)
      const json = JSON.parse(JSON.stringify(made))
      expect(policy(json)).toEqual(made)
      expect(storedPolicy(json)).toEqual(made)
      expect(policy(made)).toEqual(made)
    }),
    { numRuns: 500 },
  )
})

test('all problems of shape are reported at once, each with its field', () => {
  const problems = problemsOf(() =>
    policyFromJson({
      retry: { max: 0, perCode: { IO_ERROR: 'twice' }, backoff: { exponential: '5 parsecs' } },
      orphan: 'heal',
      lease: { ttl: '10ms' },
      aggregates: 'yes',
    }),
  )
  expect(problems.map((problem) => problem.split(':')[0])).toEqual([
    'retry.max',
    'retry.perCode.IO_ERROR',
    'retry.backoff.exponential',
    'orphan.action',
    'lease.ttl',
    'aggregates',
  ])
  expect(problems.join('\n')).toContain('"5 parsecs" is not a duration')
  expect(problems.join('\n')).toContain('shorter than the least allowed, 1 s')
})

test.each([
  [{ retri: { max: 3 } }, 'retri: no such field; the nearest is retry'],
  [{ retry: { maximum: 3 } }, 'retry.maximum: no such field; the nearest is retry.max'],
  [{ lease: { tll: '5s' } }, 'lease.tll: no such field; the nearest is lease.ttl'],
  [{ orphan: { budgt: 'free' } }, 'orphan.budgt: no such field; the nearest is orphan.budget'],
  [{ ttl: '5s' }, 'ttl: no such field; the nearest is lease.ttl'],
  [{ deadletter: 'flag' }, 'deadletter: no such field; the nearest is deadLetter'],
  [{ lease: { ttl: '5s', ttlMs: 5000 } }, 'lease.ttlMs: no such field; the nearest is lease.ttl'],
  [{ lease: { ttlMs: '5s' } }, 'lease.ttlMs: no such field; the nearest is lease.ttl'],
])('%j is refused with the nearest field that exists', (written, problem) => {
  expect(problemsOf(() => policyFromJson(written))).toEqual([problem])
})

test.each([null, 'fast', 7, []])('%j is not a policy', (written) => {
  expect(problemsOf(() => policyFromJson(written))).toEqual([expect.stringMatching(/^policy: /)])
})

test('a field that the store does not know yet takes its default', () => {
  const { cancel, locked, ...older } = policy({ retry: { max: 2 } })
  expect(storedPolicy(older)).toEqual({ ...older, cancel, locked })
})

test('a field of a newer program is left out of a stored policy, and refused in a written one', () => {
  const known = policy({ rate: { max: 5, per: '1s' } })
  const newer = {
    ...known,
    colour: 'red',
    rate: { ...known.rate, burstMs: 5 },
    orphan: { ...known.orphan, laterMs: 7 },
  }
  expect(storedPolicy(newer)).toEqual(known)
  expect(problemsOf(() => policyFromJson(newer))).toHaveLength(3)
})

test('a stored policy is still readable when a check was added since', () => {
  const contradictory = { ...policy(), retry: { ...policy().retry, unknown: 'transient' } }
  expect(storedPolicy(contradictory).retry.unknown).toBe('transient')
  expect(problemsOf(() => policyFromJson(contradictory))).toHaveLength(1)
})

test('an attempt without its own limit takes no longer than the whole job may', () => {
  expect(policy({ timeout: { total: '10m' } }).timeout).toEqual({ attemptMs: 600_000, totalMs: 600_000 })
  expect(policy({ timeout: { total: '2h' } }).timeout.attemptMs).toBe(3_600_000)
  expect(policy({ timeout: { attempt: null, total: '2h' } }).timeout.attemptMs).toBeNull()
})

test('a forward-only policy fails running jobs at shutdown by default [P52]', () => {
  expect(policy({ forwardOnly: true }).shutdown).toBe('fail')
  expect(problemsOf(() => policy({ forwardOnly: true, shutdown: 'requeue' }))).toHaveLength(1)
})
