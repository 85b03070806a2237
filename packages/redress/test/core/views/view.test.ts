import { expect, test } from 'vitest'
import type { JobRecord } from '../../../src/core/job/record.ts'
import { packSpent, spendFailure, spendManualRetry, unpackSpent } from '../../../src/core/policy/budget.ts'
import { isoTime } from '../../../src/core/text/duration.ts'
import { viewEvent, viewFailure, viewJob } from '../../../src/core/views/job.ts'
import { failure, history, record } from '../job/records.ts'
import { pdfXml, watermark } from '../policy/policies.ts'

const view = (given: Partial<JobRecord>) => viewJob(record(given), [])
const spentOn = (...codes: string[]) => packSpent(codes.reduce(spendFailure, unpackSpent(null)))

test('a job has the same fields wherever it is shown', () => {
  expect(Object.keys(view({}))).toEqual(
    expect.arrayContaining(
      `id type queue status owner batchId attemptCount maxAttempts retryCount manualRetryCount lastAttemptAt retryAfter
       createdAt queuedAt startedAt finishedAt failedAt progress errorCode errorMessage retriedFrom result actions
       priority worker leaseUntil orphanedAt cancelRequestedAt deadLettered`.split(/\s+/),
    ),
  )
})

test('a new job has retryCount 0 and no retryAfter [W11 W13]', () => {
  expect(view({ policy: watermark })).toMatchObject({
    retryCount: 0,
    maxAttempts: 4,
    retryAfter: null,
    attemptCount: 0,
  })
})

test.each([
  [1, 1],
  [3, 3],
  [4, 3],
])('after %i failures of a job with three retries the count is %i/3 [W15 W16]', (failures, retryCount) => {
  const codes = Array<string>(failures).fill('GW_5XX')
  expect(view({ policy: watermark, attempt: failures, spent: spentOn(...codes) }).retryCount).toBe(retryCount)
})

test('every dispatch counts as an attempt, also one without an outcome [D14]', () => {
  expect(view({ policy: pdfXml, attempt: 2, spent: spentOn('GW_5XX') })).toMatchObject({
    attemptCount: 2,
    retryCount: 1,
  })
})

test('a job that waits for its next attempt shows retryAfter [W13]', () => {
  expect(view({ dueAtMs: 61_000 }).retryAfter).toBe('1970-01-01T00:01:01.000Z')
})

test('a waiting job shows its error in the waiting text when the policy says so [W18 D29]', () => {
  const waiting = { attempt: 1, latestFailure: failure({ to: 'queued' }) }
  expect(view({ ...waiting, policy: watermark })).toMatchObject({
    errorCode: 'GW_5XX',
    errorMessage: 'Converter service is having an issue. We’ll retry shortly.',
  })
  expect(view({ ...waiting, policy: pdfXml })).toMatchObject({ errorCode: null, errorMessage: null })
})

test('a failed job shows its error in the final text and its time [D16 D29]', () => {
  const failed = { status: 'failed', attempt: 3, finishedAtMs: 9_000, latestFailure: failure() } as const
  expect(view({ ...failed, policy: pdfXml })).toMatchObject({
    failedAt: isoTime(9_000),
    finishedAt: isoTime(9_000),
    errorCode: 'GW_5XX',
    errorMessage: 'Converter service kept failing. Retry later.',
  })
})

test('only a failed job has failedAt [D16]', () => {
  expect(view({ status: 'complete', finishedAtMs: 9_000 })).toMatchObject({
    failedAt: null,
    finishedAt: isoTime(9_000),
  })
})

test('after a manual retry the error is gone and the count starts again [W19 D23]', () => {
  const spent = packSpent(spendManualRetry(unpackSpent(spentOn('A', 'A', 'A', 'A')), 4, 'reset'))
  const shown = view({ policy: watermark, attempt: 4, spent, latestFailure: failure({ to: 'failed' }) })
  expect(shown).toMatchObject({ errorCode: null, attemptCount: 0, retryCount: 0, manualRetryCount: 1 })
})

test('lastAttemptAt is set while an attempt runs and while the job waits for the next one [D15]', () => {
  expect(view({ status: 'processing', attempt: 1, claimedAtMs: 4_000 }).lastAttemptAt).toBe(isoTime(4_000))
  expect(view({ attempt: 1, latestFailure: failure({ atMs: 5_000, to: 'queued' }) }).lastAttemptAt).toBe(isoTime(5_000))
})

test('a refused submission has no attempt [P9]', () => {
  const refused = failure({ phase: 'pre_dispatch', layer: 'submission', attempt: 0 })
  expect(view({ status: 'failed', finishedAtMs: 9_000, latestFailure: refused })).toMatchObject({
    lastAttemptAt: null,
    attemptCount: 0,
    startedAt: null,
  })
})

test('a person who ends a waiting job is no attempt', () => {
  const marked = failure({ phase: 'pre_dispatch', layer: 'submission', code: 'MARKED_FAILED' })
  expect(view({ status: 'failed', attempt: 1, finishedAtMs: 9_000, latestFailure: marked }).lastAttemptAt).toBe(null)
})

test('a lease is shown as worker and end, and a result as the value it is', () => {
  const lease = { worker: 'box:1:a', untilMs: 30_000 }
  expect(view({ status: 'processing', lease })).toMatchObject({ worker: 'box:1:a', leaseUntil: isoTime(30_000) })
  expect(view({ status: 'complete', result: '{"xml":"<a/>"}' }).result).toEqual({ xml: '<a/>' })
})

test('events and failures are shown with times in words', () => {
  const [event] = history(['retry', 2_000, 1, { dueAtMs: 7_000, failure: 1, spent: '{"failures":1}' }, 12])
  expect(viewEvent(event as NonNullable<typeof event>)).toMatchObject({
    at: isoTime(2_000),
    durationMs: 12,
    data: { failure: 1, dueAt: isoTime(7_000), spent: { failures: 1, reclaims: 0 } },
  })
  expect(viewFailure(failure())).toMatchObject({ at: isoTime(2_000), code: 'GW_5XX', decision: { rule: 'retry.max' } })
})
