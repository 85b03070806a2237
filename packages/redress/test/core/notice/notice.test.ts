import { describe, expect, test } from 'vitest'
import {
  inBatch,
  type NotifiedJob,
  noticeOf,
  noticesOfFailure,
  noticesOfOrphan,
  noticesOfSettlement,
  refuseOwnType,
  sendOrCount,
} from '../../../src/core/notice/notice.ts'
import { renderNotice } from '../../../src/core/notice/text.ts'
import { policy } from '../../../src/core/policy/policy.ts'
import { someFailure } from '../../../src/store/conformance/bench/changes.ts'

const job: NotifiedJob = {
  id: 'job-1',
  type: 'pdf.convert',
  owner: 'ann',
  attempt: 3,
  spent: null,
  createdAtMs: Date.UTC(2026, 0, 1),
  retriedFrom: null,
  isForwardOnly: false,
}
const told = policy({ notify: { failed: ['ops', 'owner', 'ops'], orphaned: ['ops'], window: '10m' } })

describe('what is to be told', () => {
  test('nothing where the policy names nobody', () => {
    expect(noticesOfFailure(job, someFailure(), policy())).toEqual([])
    expect(noticesOfOrphan(job, 'w', policy())).toEqual([])
    expect(noticesOfSettlement({ id: 'b' } as never, [])).toEqual([])
  })

  test('never anything of the engine’s own jobs: a notice about a notice could go on for ever', () => {
    const own = { ...job, type: 'redress.notify.ops' }
    expect(noticesOfFailure(own, someFailure(), told)).toEqual([])
    expect(noticesOfOrphan(own, 'w', told)).toEqual([])
    expect(() => refuseOwnType('redress.notify.ops')).toThrow('kept for the engine')
    expect(() => refuseOwnType('redressing')).not.toThrow()
  })

  test('of a failure its public part, and of the job no input', () => {
    const [notice] = noticesOfFailure(job, someFailure(), told)
    expect(notice).toMatchObject({ channels: ['ops', 'owner'], subject: 'job:job-1', windowMs: 600_000 })
    expect(notice?.content).toEqual({
      kind: 'failed',
      job: {
        id: 'job-1',
        type: 'pdf.convert',
        owner: 'ann',
        batch: null,
        attempts: 3,
        maxAttempts: 1,
        createdAt: '2026-01-01T00:00:00.000Z',
        retriedFrom: null,
        actions: [{ name: 'retry', why: 'makes a new job; this one stays failed' }],
      },
      failure: {
        code: 'BROKEN',
        message: 'It broke.',
        fault: 'dependency',
        phase: 'execution',
        fingerprint: '1:0123456789abcdef',
      },
    })
  })

  test('one cause is one fingerprint of one type and one owner', () => {
    const causeOf = (parts: Partial<NotifiedJob>, fingerprint = 'f') =>
      noticesOfFailure({ ...job, ...parts }, { ...someFailure(), fingerprint }, told)[0]?.cause
    expect(causeOf({ id: 'job-2', attempt: 1 })).toBe(causeOf({}))
    expect(causeOf({ owner: 'bob' })).not.toBe(causeOf({}))
    expect(causeOf({ type: 'other' })).not.toBe(causeOf({}))
    expect(causeOf({}, 'g')).not.toBe(causeOf({}))
  })

  test('a policy without aggregates announces each failure alone [P60]', () => {
    const aggregated = () => policy({ aggregates: false, notify: { failed: ['ops'], window: '1h' } })
    expect(aggregated).toThrow('one notice per window is an aggregate')
    const single = policy({ aggregates: false, notify: { failed: ['ops'], window: 0 } })
    expect(noticesOfFailure(job, someFailure(), single)[0]?.windowMs).toBe(0)
  })

  test('an orphan: what a person may do with it, and whose loss it is', () => {
    const [notice] = noticesOfOrphan(job, 'host:1', told)
    const actions = [{ name: 'mark-failed', why: 'ends it as failed; its worker is gone' }]
    expect(notice?.content).toMatchObject({ kind: 'orphaned', worker: 'host:1', job: { actions } })
    expect(noticesOfOrphan({ ...job, id: 'job-2' }, 'host:1', told)[0]?.cause).toBe(notice?.cause)
    expect(noticesOfOrphan(job, 'host:2', told)[0]?.cause).not.toBe(notice?.cause)
  })

  test('the batch of a job is filled in by whoever knows it, and only there', () => {
    const [{ content } = { content: null as never }] = noticesOfFailure(job, someFailure(), told)
    expect(inBatch(content, { id: 'b', name: 'Spring' })).toMatchObject({ job: { batch: { id: 'b', name: 'Spring' } } })
    const test = { kind: 'test', actor: 'a', reason: 'r' } as const
    expect(inBatch(test, { id: 'b', name: 'Spring' })).toEqual(test)
  })
})

describe('told, or counted', () => {
  const last = { atMs: 1_000, untilMs: 2_000, repeats: 3 }

  test('the first one is told, and opens a window', () => {
    expect(sendOrCount({ windowMs: 500 }, null, 10)).toEqual({
      count: false,
      untilMs: 510,
      earlier: 0,
      earlierAtMs: null,
    })
  })

  test('what comes within the window is counted; the end of the window is outside', () => {
    expect(sendOrCount({ windowMs: 500 }, last, 1_999)).toEqual({ count: true })
    expect(sendOrCount({ windowMs: 500 }, last, 2_000)).toEqual({
      count: false,
      untilMs: 2_500,
      earlier: 3,
      earlierAtMs: 1_000,
    })
  })

  test('without a window each is told, and none is counted', () => {
    expect(sendOrCount({ windowMs: 500 }, last, last.atMs - 1), 'the clock was set back').toMatchObject({
      count: false,
    })
    expect(sendOrCount({ windowMs: 0 }, { ...last, untilMs: 9_000 }, 1_999)).toMatchObject({ count: false, earlier: 0 })
  })
})

describe('in plain words', () => {
  const [failed] = noticesOfFailure(job, someFailure(), told)
  const notice = noticeOf({ content: failed?.content as never, atMs: 0, earlier: 0, earlierAtMs: null })

  test('what failed, whose fault it is, and what can be done', () => {
    expect(renderNotice(notice)).toEqual({
      subject: 'pdf.convert failed: BROKEN',
      text: [
        'A job of type pdf.convert has failed for good. Nothing more will happen by itself.',
        '',
        'What:   BROKEN: It broke.',
        'Fault:  something that the work depends on',
        'Job:    job-1 (tried 3 times, of at most 3)',
        'Since:  2026-01-01T00:00:00.000Z',
        'Owner:  ann',
        '',
        'What can be done:',
        '- retry: makes a new job; this one stays failed',
        '',
      ].join('\n'),
    })
  })

  test('how many more there were, and where to look', () => {
    const again = noticeOf({ content: failed?.content as never, atMs: 9, earlier: 4, earlierAtMs: 0 })
    const { subject, text } = renderNotice(again, { link: 'https://ops.example.org/' })
    expect(subject).toBe('pdf.convert failed: BROKEN (and 4 more)')
    expect(text).toContain('And 4 more of the same cause came since the last notice, at 1970-01-01T00:00:00.000Z.')
    expect(text).toContain('\nhttps://ops.example.org/jobs/job-1\n')
  })

  test('a batch: what became of it, in numbers', () => {
    const batch = { id: 'b1', name: 'Spring', owner: null, state: 'partial', total: 10, complete: 7, failed: 3 }
    const content = { kind: 'settled', batch: { ...batch, permanent: 1, cancelled: 0 } } as const
    const { subject, text } = renderNotice(noticeOf({ content, atMs: 0, earlier: 0, earlierAtMs: null }))
    expect(subject).toBe('Spring: done in part')
    expect(text).toContain('Jobs:   10: 7 complete, 3 failed (1 of them for good)')
  })

  test('text from outside cannot forge lines, reverse the writing, or be endless', () => {
    const evil = 'all is well\r\nBcc: x@example.org\n\u202etxet\u0007'
    const content = { kind: 'app', name: 'k', subject: evil, data: 'x'.repeat(1_000_000) } as const
    const { subject, text } = renderNotice(noticeOf({ content, atMs: 0, earlier: 0, earlierAtMs: null }))
    expect(subject).toBe('all is well Bcc: x@example.org �txet�')
    expect(text.length).toBeLessThan(25_000)
    const [first] = noticesOfFailure({ ...job, owner: 'ann\nFault: yours' }, someFailure(), told)
    const lines = renderNotice(noticeOf({ content: first?.content as never, atMs: 0, earlier: 0, earlierAtMs: null }))
    expect(lines.text.split('\n').filter((line) => line.startsWith('Fault:'))).toHaveLength(1)
  })

  test('a full disk is for whoever runs the machines, and nobody is told that somebody decided so', () => {
    const [first] = noticesOfFailure(job, { ...someFailure(), code: 'DISK_FULL', fault: 'operator' }, told)
    const { text } = renderNotice(
      noticeOf({ content: first?.content as never, atMs: 0, earlier: 0, earlierAtMs: null }),
    )
    expect(text).toContain('Fault:  whoever runs this installation: it is theirs to mend, or was their decision\n')
  })
})
