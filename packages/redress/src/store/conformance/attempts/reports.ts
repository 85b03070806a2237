import assert from 'node:assert/strict'
import type { FeedEvent } from '../../contract/feed.ts'
import type { ReportedLine, StoredLogLine } from '../../contract/reports.ts'
import type { Bench } from '../bench/bench.ts'
import { progressAt } from '../bench/bench-worker.ts'
import { complete, failed, requeued } from '../bench/changes.ts'
import { topic } from '../promise.ts'

export const reports = topic('reports', {
  async 'progress is in the row of the job, and a renewal leaves it as it was'(bench) {
    const { id, lease, worker } = await bench.processing()
    assert.equal((await bench.row(id)).progress, 0)
    assert.equal(await worker.progress(lease, 0.25), 'held')
    await worker.renew(lease)
    assert.equal((await bench.row(id)).progress, 0.25)
    assert.equal((await bench.row(id)).progressDetail, null)
  },

  async 'done, total and note of the progress are those of the last report'(bench) {
    const { id, lease, worker } = await bench.processing()
    const report = { fraction: 0.3, done: 30, total: 100, note: 'page 30' }
    await worker.report(lease, { progress: { ...report, isEvent: false } })
    assert.deepEqual((await bench.row(id)).progressDetail, { done: 30, total: 100, note: 'page 30' })
    // A report of lines says nothing about the progress.
    await worker.report(lease, { lines: [line(1)] })
    assert.deepEqual((await bench.row(id)).progressDetail, { done: 30, total: 100, note: 'page 30' })
    await worker.progress(lease, 0.5)
    const row = await bench.row(id)
    assert.deepEqual([row.progress, row.progressDetail], [0.5, null])
  },

  async 'an attempt begins without the progress of the one before'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.report(lease, { progress: { ...progressAt(0.5), done: 1, total: 2, note: 'half' } })
    await worker.close(lease, requeued('released', lease))
    assert.deepEqual((await bench.row(id)).progressDetail, null)
    const next = await worker.claimOne()
    assert.equal(next.id, id)
    const row = await bench.row(id)
    assert.deepEqual([row.progress, row.progressDetail], [0, null])
  },

  async 'lines are kept in order, each with its time, its attempt and its number'(bench) {
    const { id, lease, worker } = await bench.processing()
    await bench.clock.advance(5_000)
    await worker.report(lease, {
      lines: [
        { ...line(1), agoMs: 2_000 },
        { ...line(2), agoMs: 500 },
      ],
    })
    const nowMs = await bench.store.nowMs()
    const kept = await logOf(bench, id)
    assert.deepEqual(
      kept.map(({ atMs, attempt, number, message, fields }) => ({ atMs, attempt, number, message, fields })),
      [
        { atMs: nowMs - 2_000, attempt: 1, number: 1, message: 'line 1', fields: { n: 1 } },
        { atMs: nowMs - 500, attempt: 1, number: 2, message: 'line 2', fields: { n: 2 } },
      ],
    )
  },

  async 'a line is never older than the claim of its attempt'(bench) {
    const { id, lease, worker } = await bench.processing()
    const claimedAtMs = (await bench.row(id)).claimedAtMs
    await worker.report(lease, { lines: [{ ...line(1), agoMs: 3_600_000 }] })
    assert.equal((await logOf(bench, id))[0]?.atMs, claimedAtMs)
  },

  async 'a line that is sent again, alone, with others or with the close, is kept once'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.report(lease, { lines: [line(1), line(2)] })
    await worker.report(lease, { lines: [line(1), line(2)] })
    await worker.report(lease, { lines: [line(2), line(3)] })
    const report = { lines: [line(3), line(4)], dropped: 0, progress: null }
    assert.equal(await worker.close(lease, complete(), 1, report), 'closed')
    assert.deepEqual(
      (await logOf(bench, id)).map(({ number }) => number),
      [1, 2, 3, 4],
    )
  },

  async 'each attempt numbers its own lines, and the lines of all attempts are kept'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.close(lease, requeued('retry', lease), 1, { lines: [line(1), line(2)], dropped: 0, progress: null })
    await bench.clock.advance(3_600_000)
    const again = await worker.claimOne()
    await worker.report(again, { lines: [line(1)], dropped: 7 })
    assert.deepEqual(
      (await logOf(bench, id)).map(({ attempt, number }) => [attempt, number]),
      [
        [1, 1],
        [1, 2],
        [2, 1],
      ],
    )
    assert.deepEqual(
      (await bench.store.logs({ id, attempt: 2, limit: 10 })).map(({ attempt }) => attempt),
      [2],
    )
    assert.deepEqual(await bench.store.logCounts({ id }), [
      { attempt: 1, lines: 2, dropped: 0 },
      { attempt: 2, lines: 1, dropped: 7 },
    ])
  },

  async 'a reader gets the newest lines, or pages of lines after a number'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.report(lease, { lines: Array.from({ length: 7 }, (_, i) => line(i + 1)) })
    const numbers = (lines: readonly StoredLogLine[]) => lines.map(({ number }) => number)
    assert.deepEqual(numbers(await bench.store.logs({ id, limit: 3 })), [5, 6, 7])
    const first = await bench.store.logs({ id, afterSeq: 0, limit: 4 })
    assert.deepEqual(numbers(first), [1, 2, 3, 4])
    const afterSeq = first.at(-1)?.seq ?? 0
    assert.deepEqual(numbers(await bench.store.logs({ id, afterSeq, limit: 4 })), [5, 6, 7])
  },

  async 'a line keeps every character that a text can have'(bench) {
    const { id, lease, worker } = await bench.processing()
    const message = 'tab\t, quote \', "double", back\\slash, NULL, {a,b}, \u{1f980}, \u2028'
    await worker.report(lease, {
      lines: [{ number: 1, agoMs: 0, message, fields: { [message]: [message, null, 1.5] } }],
    })
    const [kept] = await logOf(bench, id)
    assert.deepEqual([kept?.message, kept?.fields], [message, { [message]: [message, null, 1.5] }])
  },

  async 'a worker whose lease was lost adds no line and no progress, also not with its close'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.report(lease, { lines: [line(1)] })
    await bench.expireLeases()
    assert.equal(await bench.reclaim(lease, requeued('reclaimed', lease)), 'closed')
    const heir = await bench.worker(await bench.open())
    const fresh = await heir.claimOne()
    const late = { lines: [line(2)], dropped: 0, progress: progressAt(0.9) }
    assert.equal(await worker.report(lease, late), 'lost')
    assert.equal(await worker.close(lease, complete(), 1, late), 'lost')
    assert.equal(await worker.close(lease, failed(lease), 1, late), 'lost')
    assert.deepEqual(
      (await logOf(bench, id)).map(({ attempt, number }) => [attempt, number]),
      [[1, 1]],
    )
    assert.equal((await bench.row(id)).progress, 0)
    assert.equal(await heir.report(fresh, { lines: [line(1)] }), 'held')
  },

  async 'of many reports in one call each is kept or refused for itself'(bench) {
    const worker = await bench.worker()
    await bench.store.submit({ jobs: Array.from({ length: 3 }, () => bench.newJob()) })
    const { leases } = await worker.claim({ max: 3 })
    const reported = leases.map(({ key, attempt }, i) => ({
      ...{ key, attempt: i === 1 ? attempt + 1 : attempt },
      ...{ lines: [line(1)], dropped: 0, progress: progressAt(0.5) },
    }))
    const { lost } = await bench.store.report({ worker: worker.key, reports: reported.toReversed() })
    assert.deepEqual(lost, [leases[1]?.key])
    const rows = await Promise.all(leases.map(({ id }) => bench.row(id)))
    assert.deepEqual(
      rows.map(({ progress }) => progress),
      [0.5, 0, 0.5],
    )
    const counts = await Promise.all(leases.map(async ({ id }) => (await logOf(bench, id)).length))
    assert.deepEqual(counts, [1, 0, 1])
  },

  async 'the last report comes with the close, before its event, whatever the outcome'(bench) {
    for (const to of ['complete', 'failed', 'retry', 'cancelled'] as const) {
      const { id, lease, worker } = await bench.processing()
      const { store } = bench
      const fromSeq = await store.lastSeq()
      const change =
        to === 'complete'
          ? complete()
          : to === 'failed'
            ? failed(lease)
            : to === 'retry'
              ? requeued('retry', lease)
              : { to, note: null }
      const report = { lines: [line(1)], dropped: 2, progress: progressAt(0.75) }
      assert.equal(await worker.close(lease, change, 1, report), 'closed')
      const { events } = await store.feed({ afterSeq: fromSeq, limit: 100 })
      const ofJob = events.filter((event) => event.subject === null && event.jobId === id)
      assert.deepEqual(
        ofJob.map(({ kind }) => kind),
        ['processing', 'log', 'progress', to],
        `after it was ${to}`,
      )
      assert.deepEqual(await store.logCounts({ id }), [{ attempt: 1, lines: 1, dropped: 2 }])
    }
  },

  async 'lines and progress are on the feed and not in the history'(bench) {
    const { id, lease, worker } = await bench.processing({ owner: 'ann' })
    await worker.start(lease)
    const before = await bench.store.events({ id })
    const fromSeq = await bench.store.lastSeq()
    await worker.report(lease, { lines: [line(1)] })
    const progress = { fraction: 0.3, done: 3, total: 10, note: 'page 3' }
    await worker.report(lease, { progress: { ...progress, isEvent: true } })
    await worker.report(lease, { progress: { ...progress, fraction: 0.4, isEvent: false } })
    assert.deepEqual(await bench.store.events({ id }), before)
    const said = ({ kind, data, ...event }: FeedEvent) => ({ kind, data, status: 'status' in event && event.status })
    const only = { jobs: [id], types: [], queues: [], owners: [], batches: [], subjects: [], hasSchedules: false }
    for (const filter of [{}, { only }]) {
      const { events } = await bench.store.feed({ afterSeq: fromSeq, limit: 100, ...filter })
      assert.deepEqual(events.map(said), [
        { kind: 'log', status: 'processing', data: { line: 1, message: 'line 1', fields: { n: 1 } } },
        { kind: 'progress', status: 'processing', data: { progress: 0.3, done: 3, total: 10, note: 'page 3' } },
      ])
    }
    await bench.checkAll()
  },

  async 'reports go with their job when it is removed'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.close(lease, complete(), 1, { lines: [line(1)], dropped: 1, progress: null })
    await bench.processing()
    await bench.clock.advance(1)
    const rule = { type: 'plain', completeMs: 0, failedMs: 0, cancelledMs: 0 }
    assert.equal((await bench.store.prune({ rules: [rule], after: 0, limit: 10 })).removed, 1)
    assert.deepEqual(await logOf(bench, id), [])
    assert.deepEqual(await bench.store.logCounts({ id }), [])
  },
})

const line = (number: number): ReportedLine => ({
  ...{ number, agoMs: 0, message: `line ${number}`, fields: { n: number } },
})

const logOf = ({ store }: Bench, id: string): Promise<StoredLogLine[]> => store.logs({ id, limit: 100 })
