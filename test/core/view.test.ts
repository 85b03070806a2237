import { expect, test } from 'vitest'
import { packSpent, spendFailure, spendManualRetry, unpackSpent } from '../../src/core/budget.ts'
import { isoTime } from '../../src/core/iso-time.ts'
import type { JobRecord } from '../../src/core/record.ts'
import { viewJob } from '../../src/core/view.ts'
import { viewEvent, viewFailure } from '../../src/core/view-history.ts'
import { pdfXml, watermark } from './policies.ts'
import { failure, history, record } from './records.ts'

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

test('W11 W13 a new job has no retries behind it and may go at once', () => {
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
])('W15 W16 after %i failures of a job with three retries, the count is %i/3', (failures, retryCount) => {
  const codes = Array<string>(failures).fill('GW_5XX')
  expect(view({ policy: watermark, attempt: failures, spent: spentOn(...codes) }).retryCount).toBe(retryCount)
})

test('D14 every dispatch counts, also one that ended without a failure', () => {
  expect(view({ policy: pdfXml, attempt: 2, spent: spentOn('GW_5XX') })).toMatchObject({
    attemptCount: 2,
    retryCount: 1,
  })
})

test('W13 a job that waits for its next attempt says when', () => {
  expect(view({ dueAtMs: 61_000 }).retryAfter).toBe('1970-01-01T00:01:01.000Z')
})

test('W18 D29 the error of a waiting job is shown where the policy says so, in the words for waiting', () => {
  const waiting = { attempt: 1, latestFailure: failure({ to: 'queued' }) }
  expect(view({ ...waiting, policy: watermark })).toMatchObject({
    errorCode: 'GW_5XX',
    errorMessage: 'Converter service is having an issue. We’ll retry shortly.',
  })
  expect(view({ ...waiting, policy: pdfXml })).toMatchObject({ errorCode: null, errorMessage: null })
})

test('D16 D29 a failed job has its error and its time, in the words that are final', () => {
  const failed = { status: 'failed', attempt: 3, finishedAtMs: 9_000, latestFailure: failure() } as const
  expect(view({ ...failed, policy: pdfXml })).toMatchObject({
    failedAt: isoTime(9_000),
    finishedAt: isoTime(9_000),
    errorCode: 'GW_5XX',
    errorMessage: 'Converter service kept failing. Retry later.',
  })
})

test('D16 only a failed job has failedAt', () => {
  expect(view({ status: 'complete', finishedAtMs: 9_000 })).toMatchObject({
    failedAt: null,
    finishedAt: isoTime(9_000),
  })
})

test('W19 D23 after a manual retry nothing is left of the error, and the count begins anew', () => {
  const spent = packSpent(spendManualRetry(unpackSpent(spentOn('A', 'A', 'A', 'A')), 4, 'reset'))
  const shown = view({ policy: watermark, attempt: 4, spent, latestFailure: failure({ to: 'failed' }) })
  expect(shown).toMatchObject({ errorCode: null, attemptCount: 0, retryCount: 0, manualRetryCount: 1 })
})

test('D15 the last attempt is known while it runs and while the job waits for the next one', () => {
  expect(view({ status: 'processing', attempt: 1, claimedAtMs: 4_000 }).lastAttemptAt).toBe(isoTime(4_000))
  expect(view({ attempt: 1, latestFailure: failure({ atMs: 5_000, to: 'queued' }) }).lastAttemptAt).toBe(isoTime(5_000))
})

test('P9 a submission that was refused had no attempt', () => {
  const refused = failure({ stage: 'pre_dispatch', owner: 'submission', attempt: 0 })
  expect(view({ status: 'failed', finishedAtMs: 9_000, latestFailure: refused })).toMatchObject({
    lastAttemptAt: null,
    attemptCount: 0,
    startedAt: null,
  })
})

test('a person who ends a waiting job is no attempt', () => {
  const marked = failure({ stage: 'pre_dispatch', owner: 'submission', code: 'MARKED_FAILED' })
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
