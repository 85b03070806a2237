import fc from 'fast-check'
import { expect, test } from 'vitest'
import { NOTHING_SPENT, type Spent } from '../../../src/core/policy/budget.ts'
import { decideOrphan, type OrphanSoFar } from '../../../src/core/policy/decide.ts'
import { policy } from '../../../src/core/policy/policy.ts'
import { anyPolicy } from './arbitrary-policy.ts'
import { fetchbox, pdfXml, proxx, watermark } from './policies.ts'

const orphan = (over: Partial<OrphanSoFar> = {}): OrphanSoFar => ({
  spent: NOTHING_SPENT,
  attempt: 1,
  started: true,
  cancelRequested: false,
  createdAtMs: 0,
  ...over,
})

test('a job that was claimed and never started fails with a dispatch error, even when orphans are only reported [P14]', () => {
  expect(decideOrphan(orphan({ started: false }), proxx, 0)).toEqual({
    kind: 'fail',
    code: 'NEVER_STARTED',
    phase: 'dispatch',
    deadLetter: 'none',
    spent: NOTHING_SPENT,
    reasons: {
      because: 'it was claimed and never started',
      rule: 'orphan.action = report',
      budget: { name: 'orphan.maxReclaims', before: 0, after: 0, max: 5 },
    },
  })
})

test('a running job whose worker is gone is reported and neither reassigned nor failed [P55]', () => {
  expect(decideOrphan(orphan(), proxx, 0)).toMatchObject({
    kind: 'report',
    reasons: { because: 'its worker is lost; under this policy a person decides' },
  })
})

test('a stuck job goes back to the queue without counting a failure [W39 W40]', () => {
  expect(decideOrphan(orphan(), watermark, 0)).toEqual({
    kind: 'requeue',
    spent: { ...NOTHING_SPENT, reclaims: 1 },
    reasons: {
      because: 'its worker is lost; taken back 1 of 5 times; next attempt at once',
      rule: 'orphan.action = requeue',
      budget: { name: 'orphan.maxReclaims', before: 0, after: 1, max: 5 },
    },
  })
})

test('a job that is claimed and never started is requeued for free, and never quarantined for it', () => {
  const spent = { ...NOTHING_SPENT, reclaims: 5 }
  expect(decideOrphan(orphan({ started: false, spent }), watermark, 0)).toMatchObject({
    kind: 'requeue',
    spent: { ...spent, releases: 1 },
  })
})

test('a job that has lost too many workers is quarantined: it may be what kills them', () => {
  const spent = { ...NOTHING_SPENT, reclaims: 5 }
  expect(decideOrphan(orphan({ spent }), watermark, 0)).toMatchObject({
    kind: 'fail',
    code: 'QUARANTINED',
    phase: 'execution',
    spent,
    reasons: { rule: 'orphan.maxReclaims', budget: { before: 5, after: 5, max: 5 } },
  })
})

test('a crash that consumes the budget counts as a failure, and the last one is final [D18]', () => {
  const first = decideOrphan(orphan(), pdfXml, 0)
  expect(first).toMatchObject({
    kind: 'requeue',
    spent: { failures: 1, byCode: { WORKER_LOST: 1 }, reclaims: 1 },
    reasons: {
      because: 'its worker is lost, which counts as failure 1 of 3; taken back 1 of 5 times; next attempt at once',
    },
  })
  const spent = { ...NOTHING_SPENT, failures: 2, byCode: { GW_5XX: 2 } }
  expect(decideOrphan(orphan({ spent, attempt: 3 }), pdfXml, 0)).toMatchObject({
    kind: 'fail',
    code: 'WORKER_LOST',
    deadLetter: 'flag',
    spent: { failures: 3, reclaims: 0 },
    reasons: { rule: 'retry.max', budget: { before: 2, after: 3, max: 3 } },
  })
})

test('a policy can fail the job of a lost worker at once [P19]', () => {
  expect(decideOrphan(orphan(), policy({ orphan: 'fail', deadLetter: 'flag' }), 0)).toMatchObject({
    kind: 'fail',
    code: 'WORKER_LOST',
    phase: 'execution',
    deadLetter: 'flag',
    spent: NOTHING_SPENT,
  })
})

test('an orphan that was to be cancelled is cancelled, unless the policy knows no cancelling', () => {
  const wanted = orphan({ cancelRequested: true })
  expect(decideOrphan(wanted, watermark, 0).kind).toBe('cancel')
  expect(decideOrphan({ ...wanted, started: false }, fetchbox, 0).kind).toBe('cancel')
  expect(decideOrphan(wanted, proxx, 0).kind).toBe('report')
})

test.each([true, false])('an orphan whose total time is over is failed, not requeued (started: %j)', (started) => {
  const made = policy({ orphan: 'requeue', timeout: { total: '1h' } })
  expect(decideOrphan(orphan({ started }), made, 3_599_999).kind).toBe('requeue')
  expect(decideOrphan(orphan({ started }), made, 3_600_000)).toMatchObject({
    kind: 'fail',
    code: started ? 'WORKER_LOST' : 'NEVER_STARTED',
    reasons: { rule: 'timeout.total' },
  })
})

test('however often its worker is lost, a running job is requeued at most maxReclaims times', () => {
  fc.assert(
    fc.property(anyPolicy, (made) => {
      let spent: Spent = NOTHING_SPENT
      let requeues = 0
      for (;;) {
        const decision = decideOrphan(orphan({ spent, attempt: requeues + 1 }), made, 0)
        if (decision.kind !== 'requeue') break
        spent = decision.spent
        requeues += 1
      }
      expect(requeues).toBeLessThanOrEqual(made.orphan.action === 'requeue' ? made.orphan.maxReclaims : 0)
      expect(spent).toMatchObject({ reclaims: requeues, failures: made.orphan.budget === 'consume' ? requeues : 0 })
    }),
  )
})
