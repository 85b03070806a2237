import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { RedressError } from '../../../src/core/errors.ts'
import { EDGES } from '../../../src/core/job/states.ts'
import { table } from '../../../src/core/policy/backoff.ts'
import { CONTRADICTIONS } from '../../../src/core/policy/checks.ts'
import { edgesOf, type Policy, type PolicyInput, policy, weakens } from '../../../src/core/policy/policy.ts'
import { anyPolicy, anyPolicyInput } from './arbitrary-policy.ts'
import { fetchbox, pdfXml, proxx, watermark } from './policies.ts'

function problemsOf(input: PolicyInput): readonly string[] {
  try {
    policy(input)
    return []
  } catch (error) {
    return (error as RedressError).problems
  }
}

/** One policy for each row of the table, contradicting itself in that way only. */
const CONTRADICTORY: readonly [one: string, other: string, PolicyInput][] = [
  ['forwardOnly', 'retry.max', { forwardOnly: true, retry: { max: 2 } }],
  ['forwardOnly', 'manualRetry.mode', { forwardOnly: true, manualRetry: 'in-place' }],
  ['forwardOnly', 'orphan.action', { forwardOnly: true, orphan: 'requeue' }],
  ['forwardOnly', 'shutdown', { forwardOnly: true, shutdown: 'requeue' }],
  ['retry.perCode', 'retry.max', { retry: { max: 3, perCode: { IO_ERROR: 4 } } }],
  ['retry.perCode', 'retry.max', { retry: { perCode: { IO_ERROR: 1 } } }],
  ['retry.backoff', 'retry.max', { retry: { max: 1, backoff: table(['1m']) } }],
  ['retry.unknown', 'retry.max', { retry: { unknown: 'transient' } }],
  ['retry.unknown', 'deadLetter', { retry: { unknown: 'dead-letter' } }],
  ['retry.backoff', 'timeout.total', { retry: { max: 2, backoff: table(['5m']) }, timeout: { total: '5m' } }],
  ['manualRetry.mode', 'deadLetter', { manualRetry: 'in-place', deadLetter: 'queue' }],
  ['manualRetry.budget', 'manualRetry.mode', { manualRetry: { budget: 'keep' } }],
  ['orphan.budget', 'orphan.action', { orphan: { budget: 'consume' }, retry: { max: 2 } }],
  ['orphan.budget', 'retry.max', { orphan: { action: 'requeue', budget: 'consume' } }],
  ['orphan.stuckAfter', 'orphan.action', { orphan: { action: 'fail', stuckAfter: '30m' } }],
  ['orphan.stuckAfter', 'timeout.attempt', { orphan: { action: 'requeue', stuckAfter: '1h' } }],
  ['timeout.attempt', 'timeout.total', { timeout: { attempt: '2h', total: '1h' } }],
  ['retry.budget', 'retry.max', { retry: { budget: { ratio: 0.2 } } }],
  ['breaker.minCalls', 'breaker.windowCalls', { breaker: { guards: 'gateway', windowCalls: 5, minCalls: 6 } }],
  ['breaker.code', 'breaker.mode', { breaker: { guards: 'gateway', code: 'GW_5XX' } }],
  ['concurrency.perKey', 'concurrency.max', { concurrency: { max: 1, perKey: 2 } }],
  ['notify', 'aggregates', { notify: { failed: ['owner'] }, aggregates: false }],
]

test.each(CONTRADICTORY)('%s that contradicts %s is refused by both names and a reason', (one, other, input) => {
  const [problem, ...others] = problemsOf(input)
  expect(problem).toMatch(`${one} contradicts ${other}: `)
  expect(others).toEqual([])
})

test('every row of the table of contradictions is shown by an example', () => {
  expect(CONTRADICTORY.map(([one, other]) => [one, other])).toEqual(CONTRADICTIONS.map(({ fields }) => fields))
})

test('any well-formed policy is usable or refused by contradictions that name two fields', () => {
  fc.assert(
    fc.property(anyPolicyInput, (input) => {
      for (const problem of problemsOf(input)) expect(problem).toMatch(/^[\w.]+ contradicts [\w.]+: .{20,}$/)
    }),
    { numRuns: 500 },
  )
})

test('the policies of the four documents contradict nothing', () => {
  expect([proxx, watermark, pdfXml, fetchbox].map((made) => made.retry.max)).toEqual([1, 4, 3, 3])
})

const edgeNames = (made: typeof proxx) => edgesOf(made).map((edge) => `${edge.from}->${edge.to} ${edge.by}`)

test('a forward-only policy has four edges and no way back [P51 P52]', () => {
  expect(edgeNames(proxx)).toEqual([
    'queued->processing claim',
    'queued->failed mark-failed',
    'processing->complete close',
    'processing->failed close',
  ])
})

test('a policy that says everything has every edge', () => {
  expect(edgesOf(watermark)).toEqual(EDGES)
})

test('each backward edge is there only where the policy asks for it', () => {
  const backward = (input: PolicyInput) =>
    edgesOf(policy(input))
      .filter((edge) => edge.backward)
      .map((edge) => edge.by)
  expect(backward({ shutdown: 'fail' })).toEqual(['snooze'])
  expect(backward({ shutdown: 'fail', retry: { max: 2 } })).toEqual(['retry', 'snooze'])
  expect(backward({ shutdown: 'fail', orphan: 'requeue' })).toEqual(['reclaim', 'snooze'])
  expect(backward({ shutdown: 'requeue' })).toEqual(['release', 'snooze'])
  expect(backward({ shutdown: 'fail', manualRetry: 'in-place' })).toEqual(['snooze', 'manual-retry'])
})

const LOCKED: PolicyInput = {
  locked: true,
  retry: { max: 3, perCode: { IO_ERROR: 2 } },
  manualRetry: { mode: 'in-place', budget: 'keep' },
  orphan: { action: 'requeue', budget: 'consume', maxReclaims: 2 },
  lease: { startTimeout: '1m' },
  timeout: { attempt: '1m', total: '1h' },
  deadLetter: 'flag',
  reject: 'record',
  audit: 'write-ahead',
  aggregates: false,
  cancel: false,
  shutdown: 'fail',
  retention: { complete: '7d', failed: null, cancelled: '7d' },
}

test.each<[string, PolicyInput]>([
  ['locked', { locked: false }],
  ['retry.max', { retry: { max: 4, perCode: { IO_ERROR: 2 } } }],
  ['retry.unknown', { retry: { max: 3, perCode: { IO_ERROR: 2 }, unknown: 'transient' } }],
  ['retry.perCode.IO_ERROR', { retry: { max: 3 } }],
  ['manualRetry.budget', { manualRetry: { mode: 'in-place', budget: 'reset' } }],
  ['orphan.budget', { orphan: { action: 'requeue', maxReclaims: 2 } }],
  ['orphan.maxReclaims', { orphan: { action: 'requeue', budget: 'consume', maxReclaims: 3 } }],
  ['lease.startTimeout', { lease: { startTimeout: null } }],
  ['timeout.attempt', { timeout: { attempt: null, total: '1h' } }],
  ['timeout.total', { timeout: { attempt: '1m' } }],
  ['deadLetter', { deadLetter: 'none' }],
  ['reject', { reject: 'refuse' }],
  ['audit', { audit: 'transactional' }],
  ['aggregates', { aggregates: true }],
  ['cancel', { cancel: true }],
  ['adds the edge', { shutdown: 'requeue' }],
  ['retention.complete', { retention: { complete: '6d', failed: null, cancelled: '7d' } }],
  ['retention.cancelled', { retention: { complete: '7d', failed: null, cancelled: '6d' } }],
  ['retention.failed', { retention: { complete: '7d', failed: '1d', cancelled: '7d' } }],
])('a locked policy cannot be weakened in %s [P68]', (field, change) => {
  const reasons = weakens(policy(LOCKED), policy({ ...LOCKED, ...change }))
  expect(reasons).toContainEqual(expect.stringMatching(`^${field}`))
})

test('a locked forward-only policy cannot gain a retry, a way back or automatic orphan handling [P68]', () => {
  const input: PolicyInput = { ...(JSON.parse(JSON.stringify(proxx)) as PolicyInput) }
  expect(weakens(proxx, policy({ ...input, forwardOnly: false }))).toEqual([
    'adds the edge processing -> queued (snooze)',
    'forwardOnly: ways back may be added',
  ])
  expect(weakens(proxx, policy({ ...input, orphan: 'fail' }))).toEqual(['orphan.action: a person is no longer asked'])
  expect(weakens(policy({ ...input, manualRetry: 'off' }), proxx)).toEqual(['manualRetry.mode: a person may do more'])
  expect(weakens(proxx, watermark).length).toBeGreaterThan(10)
})

test('a locked policy can be kept or tightened, and an unlocked policy can be changed freely [P68]', () => {
  const locked = policy(LOCKED)
  expect(weakens(locked, locked)).toEqual([])
  expect(weakens(locked, policy({ ...LOCKED, retry: { max: 2, perCode: { IO_ERROR: 1 } } }))).toEqual([])
  expect(weakens(policy({ ...LOCKED, locked: false }), policy())).toEqual([])
})

test('several harmless changes cannot add up to a weaker locked policy [P68]', () => {
  // Each step changes one field only: of policies drawn at random hardly any two are in order.
  const fields = Object.keys(proxx).filter((field) => field !== 'locked')
  const anyStep = fc.tuple(fc.constantFrom(...fields), anyPolicy)
  let chains = 0
  fc.assert(
    fc.property(anyPolicy, fc.array(anyStep, { minLength: 10, maxLength: 40 }), (start, steps) => {
      const first = { ...start, locked: true }
      let last: Policy = first
      for (const [field, other] of steps) {
        const next = { ...last, [field]: other[field as keyof Policy] }
        if (weakens(last, next).length === 0) last = next
      }
      if (last !== first) chains += 1
      expect(weakens(first, last)).toEqual([])
    }),
  )
  expect(chains).toBeGreaterThan(50)
})
