import fc from 'fast-check'
import { expect, test } from 'vitest'
import { table } from '../../../src/core/policy/backoff.ts'
import { failuresOf, NOTHING_SPENT, type Spent, spendManualRetry } from '../../../src/core/policy/budget.ts'
import { type Decision, decide, type FailureFacts } from '../../../src/core/policy/decide.ts'
import { type Policy, type PolicyInput, policy } from '../../../src/core/policy/policy.ts'
import { anyChance, anyCode, anyPolicy } from './arbitrary-policy.ts'
import { fetchbox, pdfXml, proxx, watermark } from './policies.ts'

const failure = (over: Partial<FailureFacts> = {}): FailureFacts => ({
  code: 'GW_5XX',
  retry: 'transient',
  retryAfterMs: null,
  ...over,
})
const job = (spent: Spent = NOTHING_SPENT, attempt = spent.failures + 1) => ({ spent, attempt, createdAtMs: 0 })

/** What each failure in turn leads to, until the job is failed. */
function decisions(made: Policy, failures: readonly Partial<FailureFacts>[], chance = 0): Decision[] {
  const taken: Decision[] = []
  let spent: Spent = NOTHING_SPENT
  for (const facts of failures) {
    const decision = decide(job(spent), failure(facts), made, 0, chance)
    taken.push(decision)
    if (decision.kind === 'fail') break
    spent = decision.spent
  }
  return taken
}
const shown = (taken: readonly Decision[]) =>
  taken.map((decision) => (decision.kind === 'retry' ? decision.delayMs : `fail: ${decision.reasons.rule}`))

const anyFailure: fc.Arbitrary<FailureFacts> = fc.record({
  code: anyCode,
  retry: fc.constantFrom('never', 'transient', 'dead-letter', 'unknown', 'final'),
  retryAfterMs: fc.option(fc.oneof(fc.double(), fc.integer({ min: 0, max: 10_000_000 })), { nil: null }),
})

test('a policy of 3 retries waits 1, 5 and 15 minutes, and the 4th failure is final [W12 W14 W15 W16]', () => {
  expect(shown(decisions(watermark, Array(9).fill({})))).toEqual([60_000, 300_000, 900_000, 'fail: retry.max'])
})

test('a policy of 3 attempts waits 5000 * 2^n + rand(0..5000) ms between them [D13 E8]', () => {
  expect(shown(decisions(pdfXml, Array(9).fill({}), 0.5))).toEqual([7_500, 12_500, 'fail: retry.max'])
})

test('a handler can end the job although its code is retryable [E8]', () => {
  const [only, ...more] = decisions(pdfXml, [{ code: 'IO_ERROR', retry: 'final' }, {}])
  expect(more).toEqual([])
  expect(only?.reasons).toMatchObject({
    rule: 'its handler said so',
    because: 'IO_ERROR, and its handler said that trying again is useless',
  })
})

test('a terminal code fails at once [D11]', () => {
  expect(decisions(pdfXml, [{ code: 'GW_4XX', retry: 'never' }])).toEqual([
    {
      kind: 'fail',
      deadLetter: 'flag',
      isPermanent: true,
      spent: { ...NOTHING_SPENT, failures: 1, byCode: { GW_4XX: 1 } },
      reasons: {
        because: 'GW_4XX is never retried',
        rule: 'code is never retried',
        budget: { name: 'retry.max', before: 0, after: 1, max: 3 },
      },
    },
  ])
})

test('a code with its own limit is retried once, whatever budget the job has left [D8 D40]', () => {
  const io = { code: 'IO_ERROR' }
  expect(shown(decisions(pdfXml, [io, io]))).toEqual([5_000, 'fail: retry.perCode.IO_ERROR'])
  expect(shown(decisions(pdfXml, [io, {}, io]))).toEqual([5_000, 10_000, 'fail: retry.perCode.IO_ERROR'])
  expect(shown(decisions(pdfXml, [{}, {}, io]))).toEqual([5_000, 10_000, 'fail: retry.max'])
})

test('a policy with one attempt never retries any kind of failure [P38 P42]', () => {
  fc.assert(
    fc.property(anyFailure, fc.nat(), anyChance, (facts, nowMs, chance) => {
      expect(decide(job(), facts, proxx, nowMs, chance).kind).toBe('fail')
    }),
  )
})

test.each<[PolicyInput, string, string]>([
  [{}, 'retry.unknown = never', 'UNKNOWN is unclassified, and under this policy not retried'],
  [
    { retry: { unknown: 'dead-letter' }, deadLetter: 'queue' },
    'retry.unknown = dead-letter',
    'UNKNOWN is unclassified, and under this policy dead-lettered at once',
  ],
])('an unclassified failure under %j is failed by %s', (input, rule, because) => {
  const unknown = failure({ code: 'UNKNOWN', retry: 'unknown' })
  expect(decide(job(), unknown, policy(input), 0, 0)).toMatchObject({ kind: 'fail', reasons: { rule, because } })
})

test('an unclassified failure may be taken as transient', () => {
  const [first] = decisions(watermark, [{ code: 'UNKNOWN', retry: 'unknown' }])
  expect(first?.reasons.because).toBe('UNKNOWN is taken as transient; failure 1 of 4; next attempt in 1 m')
})

test("every final failure is dead-lettered: exhausted, immediate or the caller's fault [F12 F13 F14]", () => {
  const lastOf = (failures: Partial<FailureFacts>[]) => decisions(fetchbox, failures).at(-1)
  expect(lastOf([{}, {}, {}])).toMatchObject({ kind: 'fail', deadLetter: 'queue' })
  expect(lastOf([{ code: 'SYSTEM_PANIC', retry: 'dead-letter' }])).toMatchObject({
    deadLetter: 'queue',
    reasons: { rule: 'code is dead-lettered', because: 'SYSTEM_PANIC is dead-lettered at once' },
  })
  expect(lastOf([{ code: 'VALIDATION_MISSING_FIELD', retry: 'never' }])).toMatchObject({ deadLetter: 'queue' })
})

test('a dead-letter code under a policy without dead letters is just failed', () => {
  expect(decide(job(), failure({ retry: 'dead-letter' }), watermark, 0, 0)).toMatchObject({
    deadLetter: 'none',
    reasons: { because: 'GW_5XX is failed for good at once' },
  })
})

test('the longer of the backoff and an error’s own retryAfter counts, up to a bound, and its source is recorded', () => {
  const made = policy({ retry: { max: 4, backoff: table(['1m']), retryAfterMax: '1h' } })
  const after = (retryAfterMs: number) => decide(job(), failure({ retryAfterMs }), made, 0, 0)
  expect(after(70_000)).toMatchObject({
    delayMs: 70_000,
    reasons: { rule: 'error.retryAfter', delay: { source: 'error.retryAfter', askedMs: 70_000, maxMs: 3_600_000 } },
  })
  for (const shorter of [0, -5, 7_000, 60_000]) {
    expect(after(shorter)).toMatchObject({ delayMs: 60_000, reasons: { delay: { source: 'retry.backoff' } } })
  }
  expect(after(9_999_999)).toMatchObject({ delayMs: 3_600_000, reasons: { delay: { askedMs: 9_999_999 } } })
  expect(after(Number.POSITIVE_INFINITY)).toMatchObject({ delayMs: 3_600_000 })
  expect(after(Number.NaN)).toMatchObject({ delayMs: 60_000, reasons: { delay: { source: 'retry.backoff' } } })
})

test('a retry that would begin after the total time is not made', () => {
  const made = policy({ retry: { max: 5, backoff: { table: ['10m'] } }, timeout: { total: '1h' } })
  const at = (nowMs: number) => decide(job(), failure(), made, nowMs, 0)
  expect(at(3_000_000 - 1).kind).toBe('retry')
  expect(at(3_000_000)).toMatchObject({
    kind: 'fail',
    reasons: { rule: 'timeout.total', because: expect.stringContaining('would begin after timeout.total (1 h)') },
  })
})

test('without a backoff the next attempt is at once', () => {
  const [first] = decisions(policy({ retry: { max: 2 } }), [{}])
  expect(first).toMatchObject({ kind: 'retry', delayMs: 0, reasons: { delay: { source: 'none' } } })
})

test('lost workers, releases and snoozes cost no failure, and the reason says so [W40]', () => {
  const spent = { ...NOTHING_SPENT, reclaims: 2, releases: 1, snoozes: 1 }
  expect(decide(job(spent, 5), failure(), watermark, 0, 0).reasons).toMatchObject({
    because:
      'GW_5XX is transient; failure 1 of 4 (attempt 5; 4 ended without counting as a failure); next attempt in 1 m',
    budget: { before: 0, after: 1, max: 4 },
  })
})

test('after a manual retry with reset the budget and the delays start again [W19]', () => {
  const [, , last] = decisions(pdfXml, [{}, {}, {}])
  const again = spendManualRetry(last?.spent ?? NOTHING_SPENT, 3, 'reset')
  const { kind, reasons } = decide({ spent: again, attempt: 4, createdAtMs: 0 }, failure(), pdfXml, 0, 0)
  expect([kind, reasons.because]).toEqual(['retry', 'GW_5XX is transient; failure 1 of 3; next attempt in 5 s'])
})

test('after a manual retry that keeps the budget, one attempt is all there is', () => {
  const spent = { ...NOTHING_SPENT, failures: 3, byCode: { GW_5XX: 3 }, manualRetries: 1 }
  expect(decide(job(spent), failure(), pdfXml, 0, 0)).toMatchObject({
    kind: 'fail',
    reasons: { because: 'GW_5XX is transient; all 3 of retry.max were already spent; no attempt is left' },
  })
})

test('no sequence of failures is given more attempts than its budgets, and every delay is within bounds', () => {
  fc.assert(
    fc.property(anyPolicy, fc.array(anyFailure, { maxLength: 20 }), anyChance, (made, failures, chance) => {
      let spent: Spent = NOTHING_SPENT
      let nowMs = 0
      for (const facts of failures) {
        const decision = decide({ spent, attempt: spent.failures + 1, createdAtMs: 0 }, facts, made, nowMs, chance)
        expect(decision).toEqual(
          decide({ spent, attempt: spent.failures + 1, createdAtMs: 0 }, facts, made, nowMs, chance),
        )
        expect(JSON.parse(JSON.stringify(decision.reasons))).toEqual(decision.reasons)
        if (decision.kind === 'fail') return
        spent = decision.spent
        nowMs += decision.delayMs
        expect(Number.isSafeInteger(decision.delayMs) && decision.delayMs >= 0).toBe(true)
        expect(spent.failures).toBeLessThan(made.retry.max)
        const ofCode = Object.hasOwn(made.retry.perCode, facts.code) ? made.retry.perCode[facts.code] : undefined
        if (ofCode !== undefined) expect(failuresOf(spent, facts.code)).toBeLessThan(ofCode)
        if (made.timeout.totalMs !== null) expect(nowMs).toBeLessThan(made.timeout.totalMs)
      }
      expect(failures.length).toBeLessThan(made.retry.max)
    }),
    { numRuns: 500 },
  )
})
