import { expect, test } from 'vitest'
import { type ExplainInput, explain } from '../../../src/core/explain/explain.ts'
import { renderExplanation } from '../../../src/core/explain/text.ts'
import { packSpent, spendFailure, unpackSpent } from '../../../src/core/policy/budget.ts'
import { policy } from '../../../src/core/policy/policy.ts'
import { type EventTuple, failure, history, record } from '../job/records.ts'
import { pdfXml, proxx, watermark } from '../policy/policies.ts'

const spentOn = (...codes: string[]) => packSpent(codes.reduce(spendFailure, unpackSpent(null)))

function explained({
  events = [],
  nowMs = 10_000,
  ...given
}: Partial<Omit<ExplainInput, 'events'>> & { events?: EventTuple[] }) {
  const input = { job: record(), failures: [], ...given, events: history(['queued', 1_000, 0], ...events), nowMs }
  return explain(input)
}

const retried = failure({
  seq: 1,
  to: 'queued',
  decision: {
    because: 'GW_5XX is transient; failure 1 of 3; next attempt in 7.2 s',
    rule: 'retry.max',
    budget: { name: 'retry.max', before: 0, after: 1, max: 3 },
    delay: { source: 'retry.backoff', kind: 'exponential', failuresBefore: 0, baseMs: 5_000, jitterMs: 2_200 },
  },
})
const final = failure({ seq: 2, attempt: 2 })

const failedJob = record({
  status: 'failed',
  attempt: 2,
  spent: spentOn('GW_5XX', 'GW_5XX'),
  policy: pdfXml,
  owner: 'ann',
  finishedAtMs: 9_000,
  latestFailure: final,
})
const failedEvents: EventTuple[] = [
  ['processing', 1_020, 1],
  ['started', 1_021, 1],
  ['retry', 2_000, 1, { failure: 1, code: 'GW_5XX', dueAtMs: 9_200 }, 980],
  ['processing', 9_200, 2],
  ['failed', 9_300, 2, { failure: 2, code: 'GW_5XX' }, 90],
]

test('a failed job is explained from the record: verdict, attempts, decisions with their numbers, what can be done', () => {
  const said = explained({ job: failedJob, failures: [retried, final], events: failedEvents })
  expect(renderExplanation(said)).toBe(
    `FAILED. Fault: dependency. GW_5XX: Converter service kept failing. Retry later.
Tried 2 of 3. Nothing will happen by itself.

pdf.convert 0190a5a0-0000-7000-8000-000000000001
submitted 1970-01-01T00:00:01.000Z, 9 s ago for ann

   +0 ms  submitted

  +20 ms  attempt 1 on box:1:a, ran 980 ms
          failed   GW_5XX during execution (layer: worker)
          known by HTTP status 5xx
          said     Error: 502 Bad Gateway
          facts    httpStatus 502
          then     to be tried again: GW_5XX is transient; failure 1 of 3; next attempt in 7.2 s
          by       retry.max 0 -> 1 of 3; wait 7.2 s = 5 s (exponential, step 1) + 2.2 s jitter

  +8.2 s  attempt 2 on box:1:a, ran 90 ms
          failed   GW_5XX during execution (layer: worker)
          known by HTTP status 5xx
          said     Error: 502 Bad Gateway
          facts    httpStatus 502
          then     failed for good: GW_5XX is transient; failure 3 of 3; no attempt is left
          by       retry.max 2 -> 3 of 3

What can be done now
  retry        yes  sends it back to the queue with a fresh budget
  mark-failed  no   only a queued or processing job can be marked failed; this one is failed
  cancel       no   only a queued or processing job can be cancelled; this one is failed
`,
  )
})

test('a door may add the command for what is allowed, and colours, and its width', () => {
  const said = explained({ job: failedJob, failures: [retried, final], events: failedEvents })
  const text = renderExplanation(said, {
    columns: 60,
    paint: (tone, part) => (tone === 'bad' ? `<bad>${part}</bad>` : part),
    commandFor: ({ name }) => `redress jobs ${name} ID`,
  })
  expect(text).toContain('<bad>FAILED. Fault: dependency.')
  expect(text).toContain('redress jobs retry ID')
  expect(text).not.toContain('redress jobs cancel')
  const plain = text.replace(/<\/?bad>/g, '')
  expect(plain.split('\n').filter((line) => line.length > 60)).toEqual([])
})

test('a code that is never retried says so in the verdict', () => {
  const never = failure({
    code: 'GW_4XX',
    fault: 'caller',
    message: 'Couldn’t convert this file',
    decision: {
      because: 'GW_4XX is never retried',
      rule: 'code is never retried',
      budget: { name: 'retry.max', before: 0, after: 1, max: 3 },
    },
  })
  const job = record({ ...failedJob, attempt: 1, spent: spentOn('GW_4XX'), latestFailure: never })
  expect(explained({ job }).verdict).toEqual([
    'FAILED.',
    'Fault: caller.',
    'GW_4XX: Couldn’t convert this file.',
    'Tried 1 of 3: GW_4XX is never retried.',
    'Nothing will happen by itself.',
  ])
})

test('attempts that cost nothing are not counted as tries: never "4 of 3"', () => {
  const job = record({ ...failedJob, attempt: 4, spent: spentOn('A', 'A', 'A') })
  expect(explained({ job }).verdict).toContain('Tried 4 times; 3 of 3 failures counted.')
  // A manual retry that keeps the budget allows one more failure than there is budget for.
  const kept = record({ ...failedJob, attempt: 4, spent: spentOn('A', 'A', 'A', 'A') })
  expect(explained({ job: kept }).verdict).toContain('Tried 4 times; 3 of 3 failures counted.')
})

test('explain says that a refused submission was never executed [P9]', () => {
  const refused = failure({ phase: 'pre_dispatch', layer: 'submission', attempt: 0, from: null, worker: null })
  const job = record({ status: 'failed', finishedAtMs: 1_000, latestFailure: refused, policy: proxx })
  const said = explain({
    job,
    events: history(['failed', 1_000, 0, { failure: 1 }]),
    failures: [refused],
    nowMs: 2_000,
  })
  expect(said.verdict).toContain('It was never dispatched: nothing was executed.')
  expect(renderExplanation(said)).toContain('refused at submission; nothing was executed')
  expect(renderExplanation(said)).toContain('GW_5XX during pre_dispatch (layer: submission)')
})

test('a job that waits says for what and until when', () => {
  const job = record({
    attempt: 1,
    spent: spentOn('GW_5XX'),
    policy: watermark,
    dueAtMs: 61_000,
    latestFailure: retried,
  })
  const events: EventTuple[] = [
    ['processing', 1_020, 1],
    ['retry', 2_000, 1, { failure: 1, dueAtMs: 61_000 }, 5],
  ]
  const waiting = explained({ job, failures: [retried], events })
  expect(waiting).toMatchObject({ tone: 'waiting' })
  expect(waiting.verdict).toEqual([
    'QUEUED, to be tried again.',
    'Fault: dependency.',
    'GW_5XX: Converter service is having an issue. We’ll retry shortly.',
    'Failed 1 of 4.',
    'Next attempt in 51 s, at 1970-01-01T00:01:01.000Z.',
  ])
  expect(explained({ job, failures: [retried], events, nowMs: 70_000 }).verdict).toContain(
    'Next attempt as soon as a worker is free.',
  )
  expect(explained({ job: record() }).verdict).toEqual([
    'QUEUED.',
    'It goes as soon as a worker is free.',
    'It has waited for 9 s.',
  ])
})

test('a queued job whose time is over says that it will fail, and not only that it goes', () => {
  const job = record({ policy: policy({ timeout: { total: '5s' } }) })
  const hold = { by: 'breaker', name: 'gateway', why: 'it is down', untilMs: null } as const
  const over = 'Its time is over (timeout.total 5 s): when its turn comes it fails.'
  expect(explained({ job, holds: [hold] }).verdict.at(-1)).toBe(over)
  expect(explained({ job, nowMs: 5_999 }).verdict).not.toContain(over)
})

test('a running job names its worker, how long it has been at it, and the end of its lease', () => {
  const running = record({
    status: 'processing',
    attempt: 2,
    claimedAtMs: 5_000,
    startedAtMs: 5_001,
    progress: 0.4,
    lease: { worker: 'box:1:a', untilMs: 35_000 },
  })
  expect(explained({ job: running }).verdict).toEqual([
    'PROCESSING. Attempt 2 on box:1:a, claimed 5 s ago.',
    '40 % done.',
    'Its lease ends in 25 s unless renewed.',
  ])
  expect(explained({ job: running, nowMs: 40_000 })).toMatchObject({
    tone: 'bad',
    verdict: expect.arrayContaining([expect.stringContaining('Its lease ran out 5 s ago')]),
  })
})

test('explain says that a person decides about an orphan and offers to mark it failed [P55 P56]', () => {
  const job = record({
    status: 'processing',
    attempt: 1,
    policy: proxx,
    orphanedAtMs: 7_000,
    lease: { worker: 'box:1:a', untilMs: 6_000 },
  })
  const events: EventTuple[] = [
    ['processing', 1_020, 1],
    ['orphaned', 7_000, 1],
  ]
  const said = explained({ job, events })
  expect(said.verdict).toEqual([
    'ORPHANED. box:1:a is gone; reported 3 s ago.',
    'Under this policy a person decides. Nothing will happen by itself.',
  ])
  expect(said.actions).toContainEqual({
    name: 'mark-failed',
    allowed: true,
    why: 'ends it as failed; its worker is gone',
  })
  expect(renderExplanation(said)).toContain('reported as an orphan: box:1:a is gone')
})

test('attempts that cost nothing are shown too: released, snoozed, reclaimed, refused as stale', () => {
  const events: EventTuple[] = [
    ['processing', 1_100, 1],
    ['released', 1_200, 1, { reason: 'the worker stopped' }],
    ['processing', 1_300, 2],
    ['snoozed', 1_400, 2, { reason: 'no licence free', dueAtMs: 6_400 }, 50],
    ['processing', 6_400, 3],
    ['reclaimed', 40_000, 3, { reason: 'its worker is lost; taken back 1 of 5 times; next attempt at once' }],
    ['lost', 41_000, 3, { write: 'close', status: 'queued', currentAttempt: 3 }],
    ['processing', 42_000, 4],
    ['complete', 43_000, 4, {}, 900],
  ]
  const job = record({ status: 'complete', attempt: 4, finishedAtMs: 43_000 })
  const text = renderExplanation(explained({ job, events }), { columns: 200 })
  for (const part of [
    'COMPLETE at attempt 4, 42 s after it was submitted.',
    'given back: the worker stopped; it costs nothing',
    'put off by its handler (no licence free); next attempt in 5 s, and it costs nothing',
    'taken back: its worker is lost; taken back 1 of 5 times; next attempt at once',
    'a late close of attempt 3 by box:1:a was refused: the job was queued at attempt 3, so it does not count',
  ]) {
    expect(text).toContain(part)
  }
})

test('the explanation names the actor and reason of a retry or cancel', () => {
  const again = explained({
    job: record({ policy: watermark, attempt: 1 }),
    failures: [failure()],
    events: [
      ['processing', 1_100, 1],
      ['failed', 1_200, 1, { failure: 1 }, 5],
      ['manual-retry', 5_000, 1, { actor: 'ann', reason: 'the gateway is back' }],
    ],
  })
  expect(again.verdict).toEqual(['QUEUED again by ann: the gateway is back.', 'It goes as soon as a worker is free.'])
  expect(renderExplanation(again)).toContain('sent back to the queue by ann: the gateway is back')

  const cancelled = explained({
    job: record({ status: 'cancelled', attempt: 1, finishedAtMs: 5_000 }),
    events: [
      ['processing', 1_100, 1],
      ['cancel-requested', 2_000, 1, { actor: 'bob', reason: 'wrong file' }],
      ['cancelled', 5_000, 1, { reason: 'bob cancelled the job: wrong file' }, 900],
    ],
  })
  expect(cancelled.verdict[0]).toBe('CANCELLED by bob: wrong file.')
  expect(renderExplanation(cancelled)).toContain('asked to cancel by bob: wrong file')
})

test('a failure that a cancellation overtook is shown with the attempt it ended', () => {
  const overtaken = failure({ to: 'cancelled' })
  const said = explained({
    job: record({ status: 'cancelled', attempt: 1, finishedAtMs: 5_000, latestFailure: overtaken }),
    failures: [overtaken],
    events: [
      ['processing', 1_100, 1],
      ['cancel-requested', 2_000, 1, { actor: 'bob', reason: 'wrong file' }],
      ['cancelled', 5_000, 1, { reason: 'it was asked to cancel' }, 900],
    ],
  })
  expect(said.steps.at(-1)?.failure?.code).toBe('GW_5XX')
})

test('stored text cannot give orders to the terminal it is shown in', () => {
  const nasty = failure({ detail: 'Error: \u001b[2J\u001b]0;owned\u0007 gone', message: 'a\u001b[31mb' })
  const job = record({ ...failedJob, owner: '\u001b[1mann', latestFailure: nasty })
  const text = renderExplanation(
    explained({
      job,
      failures: [nasty],
      events: [
        ['processing', 1_100, 1],
        ['failed', 1_200, 1, { failure: 1 }],
      ],
    }),
  )
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
  expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/)
})

test('a long history shows how it began and how it ended', () => {
  const events = Array.from({ length: 100 }, (_, i): EventTuple[] => [
    ['processing', 2_000 + i * 10, i + 1],
    ['snoozed', 2_005 + i * 10, i + 1, {}, 5],
  ]).flat()
  const text = renderExplanation(explained({ job: record({ attempt: 100 }), events }))
  expect(text).toContain('... 61 more of the same history ...')
  expect(text).toContain('attempt 1 on')
  expect(text).toContain('attempt 100 on')
  expect(text).not.toContain('attempt 50 on')
})

test('an imported failure is explained with the system, queue and job it comes from, and not as a refused submission', () => {
  const decision = {
    because: 'it had failed after 3 attempts before it was imported from BullMQ, queue mail, job 17',
    rule: 'imported as failed',
    budget: { name: 'retry.max', before: 0, after: 0, max: 3 },
  }
  const imported = failure({ seq: 1, attempt: 0, code: 'IMPORTED', decision })
  const job = record({ status: 'failed', attempt: 0, latestFailure: imported })
  const events = history([
    'failed',
    1_000,
    0,
    { failure: 1, code: 'IMPORTED', importedFrom: 'BullMQ, queue mail, job 17' },
  ])
  const said = explain({ job, events, failures: [imported], nowMs: 10_000 })
  expect(said.verdict).toContain('Imported from BullMQ, queue mail, job 17.')
  expect(said.steps[0]?.text).toBe('imported as failed from BullMQ, queue mail, job 17; nothing was executed here')
  expect(renderExplanation(said)).not.toContain('refused')
  const waiting = history(['queued', 1_000, 0, { importedFrom: 'pg-boss, queue mail, job 4711' }])
  const queued = explain({ job: record(), events: waiting, failures: [], nowMs: 10_000 })
  expect(queued.steps[0]?.text).toBe('imported from pg-boss, queue mail, job 4711')
})
