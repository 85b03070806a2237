import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ACTIONS, type ActionName, actionsFor, judge } from '../../../src/core/job/actions.ts'
import { STATUSES, type Status } from '../../../src/core/job/states.ts'
import { edgesOf, policy } from '../../../src/core/policy/policy.ts'
import { anyPolicy } from '../policy/arbitrary-policy.ts'
import { pdfXml, proxx, watermark } from '../policy/policies.ts'
import { record } from './records.ts'

const allowed = (job: Parameters<typeof actionsFor>[0]): ActionName[] =>
  actionsFor(job).flatMap((action) => (action.allowed ? [action.name] : []))

test('every action is named, whether it may be done or not, with one plain sentence', () => {
  for (const status of STATUSES) {
    const actions = actionsFor(record({ status }))
    expect(actions.map(({ name }) => name)).toEqual([...ACTIONS])
    for (const { why } of actions) expect(why).toMatch(/^[a-z].{10,}[^.]$/)
  }
})

test.each<[Status, ActionName[]]>([
  ['queued', ['mark-failed', 'cancel', 'reschedule', 'reprioritise', 'replace-input']],
  ['processing', ['mark-failed', 'cancel']],
  ['complete', ['delete']],
  ['failed', ['retry', 'delete']],
  ['cancelled', ['delete']],
])('a job that is %s may be: %j', (status, names) => {
  expect(allowed(record({ status, policy: watermark }))).toEqual(names)
})

describe('retry', () => {
  test('only a failed job can be retried, and the refusal names its state [W30]', () => {
    expect(judge(record({ status: 'queued' }), 'retry')).toEqual({
      allowed: false,
      by: 'state',
      why: 'only a failed job can be retried; this one is queued',
    })
  })

  test('an orphan is to be marked failed first, and the refusal says so', () => {
    expect(judge(record({ status: 'processing', orphanedAtMs: 1 }), 'retry')).toMatchObject({
      allowed: false,
      by: 'state',
      why: 'only a failed job can be retried; mark it failed first: its worker is gone',
    })
  })

  test('a retry in place says what happens to the budget [W19 D23 E20]', () => {
    const keeps = policy({ retry: { max: 3 }, manualRetry: { mode: 'in-place', budget: 'keep' } })
    expect(judge(record({ status: 'failed', policy: pdfXml }), 'retry')).toEqual({
      allowed: true,
      why: 'sends it back to the queue with a fresh budget',
    })
    expect(judge(record({ status: 'failed', policy: keeps }), 'retry').why).toContain('keeps its budget')
  })

  test('a retry as a new job leaves the failed job unchanged [P10]', () => {
    const job = record({ status: 'failed', policy: proxx, isForwardOnly: true })
    expect(judge(job, 'retry')).toEqual({ allowed: true, why: 'makes a new job; this one stays failed' })
  })

  test('it may be switched off', () => {
    const job = record({ status: 'failed', policy: policy({ manualRetry: 'off' }) })
    expect(judge(job, 'retry')).toEqual({ allowed: false, by: 'policy', why: `its policy has manualRetry 'off'` })
  })

  test('a forward-only job stays failed after its type is declared anew with a way back [P52]', () => {
    const job = record({ status: 'failed', policy: watermark, isForwardOnly: true })
    expect(judge(job, 'retry')).toMatchObject({ allowed: false, by: 'policy' })
  })
})

describe('mark failed', () => {
  test('an orphan can be marked failed under every policy [P56]', () => {
    fc.assert(
      fc.property(anyPolicy, (given) => {
        const job = record({ status: 'processing', attempt: 1, orphanedAtMs: 5, policy: given })
        expect(judge(job, 'mark-failed')).toEqual({ allowed: true, why: 'ends it as failed; its worker is gone' })
      }),
    )
  })

  test('of a job whose worker lives, it says what becomes of that worker', () => {
    expect(judge(record({ status: 'processing', attempt: 1 }), 'mark-failed').why).toContain('loses the lease')
  })
})

describe('cancel', () => {
  test('a policy may forbid it', () => {
    const job = record({ status: 'queued', policy: proxx })
    expect(judge(job, 'cancel')).toEqual({ allowed: false, by: 'policy', why: 'its policy has cancel: false' })
  })

  test('an orphan has no worker to stop, so it must be marked failed', () => {
    const why = 'its worker is gone and cannot be told; mark it failed instead'
    const job = record({ status: 'processing', attempt: 1, orphanedAtMs: 5 })
    expect(judge(job, 'cancel')).toEqual({ allowed: false, by: 'state', why })
  })

  test('it is asked for once', () => {
    const job = record({ status: 'processing', attempt: 1, cancelRequestedAtMs: 5 })
    expect(judge(job, 'cancel')).toMatchObject({ allowed: false, by: 'state' })
  })
})

describe('a job that waits', () => {
  const waiting = (dueAtMs: number | null, attempt = 0) => record({ status: 'queued', dueAtMs, attempt })

  test('can be promoted only while its time is not reached', () => {
    expect(judge(waiting(5), 'promote')).toMatchObject({ allowed: true })
    expect(judge(waiting(null), 'promote')).toEqual({ allowed: false, by: 'state', why: 'it is due already' })
  })

  test('keeps its input after its first attempt, and can still be rescheduled, promoted and reprioritised', () => {
    const inBackoff = waiting(5, 1)
    expect(judge(inBackoff, 'replace-input')).toMatchObject({ allowed: false, by: 'state' })
    for (const name of ['reschedule', 'promote', 'reprioritise'] as const) {
      expect(judge(inBackoff, name).allowed, name).toBe(true)
    }
  })

  test('can be changed under a policy that only goes forward', () => {
    const job = { ...waiting(5), policy: proxx, isForwardOnly: true }
    for (const name of ['reschedule', 'promote', 'reprioritise', 'replace-input'] as const) {
      expect(judge(job, name).allowed, name).toBe(true)
    }
  })
})

test('a failed job with an open dead letter is not deleted unless the person insists', () => {
  const lettered = policy({ deadLetter: 'queue' })
  const job = record({ status: 'failed', policy: lettered, isDeadLettered: true })
  expect(judge(job, 'delete')).toMatchObject({ allowed: false, by: 'letter' })
  expect(judge({ ...job, retriedAs: 'another' }, 'delete').allowed).toBe(true)
  expect(judge({ ...job, isDeadLettered: false }, 'delete').allowed).toBe(true)
})

test('what is allowed is an edge of the policy, whatever the policy', () => {
  const causes = { retry: 'manual-retry', 'mark-failed': 'mark-failed', cancel: 'cancel' } as const
  const anyJob = fc.record({
    status: fc.constantFrom(...STATUSES),
    policy: anyPolicy,
    isForwardOnly: fc.boolean(),
  })
  fc.assert(
    fc.property(anyJob, (given) => {
      const job = record(given)
      for (const name of allowed(job)) {
        // A new job needs no edge of the old one, and a running job is marked failed by the edge of its close.
        if (name === 'retry' && job.policy.manualRetry.mode === 'new-job') continue
        if (name === 'mark-failed' && job.status === 'processing') continue
        // The others keep the state of the job, or remove a job that has ended.
        if (!(name in causes)) continue
        expect(edgesOf(job.policy)).toContainEqual(
          expect.objectContaining({ from: job.status, by: causes[name as keyof typeof causes] }),
        )
      }
    }),
  )
})
