import assert from 'node:assert/strict'
import { DAY_MS } from '../../../core/text/duration.ts'
import { FEED_SCAN_MAX, type FeedEvent, type FeedFilter, type JobFeedEvent } from '../../contract/feed.ts'
import type { PruneRule } from '../../contract/store.ts'
import { newBatch } from '../bench/batch-bench.ts'
import type { Bench } from '../bench/bench.ts'
import { complete, failed, requeued } from '../bench/changes.ts'
import { topic } from '../promise.ts'

export const feed = topic('feed', {
  async 'the feed is the whole history in order, page by page, and each event once'(bench) {
    const ids = [await bench.finished('complete'), await bench.finished('failed'), await bench.finished('cancelled')]
    const own = await Promise.all(ids.map((id) => bench.store.events({ id })))
    const expected = own.flat().map(({ seq }) => seq)
    for (const limit of [1, 2, 3, 100]) {
      const read = await readAll(bench, 0, limit)
      assert.deepEqual(
        read.map(({ seq }) => seq),
        expected.toSorted((a, b) => a - b),
      )
    }
    assert.equal(await bench.store.lastSeq(), Math.max(...expected))
  },

  async 'what is read from a number on is what comes after it'(bench) {
    assert.equal(await bench.store.lastSeq(), 0)
    await bench.finished('complete')
    const after = await bench.store.lastSeq()
    assert.deepEqual(await bench.store.feed({ afterSeq: after, limit: 10 }), {
      events: [],
      nextSeq: after,
      hasMore: false,
      removedToSeq: null,
    })
    const id = await bench.submit()
    const { events, nextSeq } = await bench.store.feed({ afterSeq: after, limit: 10 })
    assert.deepEqual(
      events.map((event) => [event.seq, (event as JobFeedEvent).jobId]),
      [[nextSeq, id]],
    )
  },

  async 'an event says whose it is and where the job stood after it'(bench) {
    const { lease, worker, id } = await bench.processing({ owner: 'ann', type: 'other' })
    await worker.close(lease, complete())
    const events = (await readAll(bench)) as JobFeedEvent[]
    assert.deepEqual(
      events.map(({ kind, status, attempt }) => [kind, status, attempt]),
      [
        ['queued', 'queued', 0],
        ['processing', 'processing', 1],
        ['complete', 'complete', 1],
      ],
    )
    for (const event of events) {
      assert.deepEqual(
        [event.jobId, event.type, event.queue, event.owner, event.batchId],
        [id, 'other', 'side', 'ann', null],
      )
      assert.deepEqual([event.subject, event.failure], [null, null])
    }
  },

  async 'an event of a job that was made from another one names that one'(bench) {
    const failedId = await bench.finished('failed')
    const afterSeq = await bench.store.lastSeq()
    await bench.submit({ retriedFrom: { id: failedId, actor: 'olga', reason: 'a test' } })
    const { events } = await bench.store.feed({ afterSeq, limit: 10 })
    assert.deepEqual(
      [...(await readAll(bench)), ...events].map((event) => (event as JobFeedEvent).retriedFrom),
      [null, null, null, failedId, failedId],
    )
  },

  async 'a failure comes with its code, and with the message for its owner'(bench) {
    const { lease, worker } = await bench.processing()
    await worker.close(lease, requeued('retry', lease))
    await worker.close(await worker.claimOne(), failed(lease), 2)
    const events = (await readAll(bench)) as JobFeedEvent[]
    const [retry, final] = await bench.store.failures({ id: lease.id })
    const told = events.filter(({ failure }) => failure !== null).map(({ kind, failure }) => ({ kind, ...failure }))
    assert.deepEqual(told, [
      { kind: 'retry', code: retry?.code, message: retry?.waiting, isPublic: false },
      { kind: 'failed', code: final?.code, message: final?.message, isPublic: true },
    ])
  },

  async 'what happens to anything but a job is in the feed under its subject'(bench) {
    const schedule = { name: 'nightly', type: 'plain', payload: '{}', cron: '* * * * *', timezone: 'UTC' }
    const timing = { everyMs: null, fromMs: null, untilMs: null, jitterMs: 0, count: null, timedAtMs: 0 }
    const rest = { missed: 'once', owner: null, priority: 0, nextAtMs: 60_000 } as const
    await bench.store.declareSchedules({ schedules: [{ ...schedule, ...timing, ...rest }] })
    const act = { kind: 'pause' } as const
    await bench.store.actOnSchedule({ name: 'nightly', actor: 'olga', reason: 'a test', act })
    const event = (await readAll(bench)).at(-1)
    assert.deepEqual(event, {
      seq: event?.seq,
      atMs: bench.clock.nowMs(),
      subject: 'schedule:nightly',
      kind: 'paused',
      data: { actor: 'olga', reason: 'a test' },
    })
  },

  async 'whoever reads from before a removed event is told so, and nobody else is'(bench) {
    const old = await bench.finished('complete')
    const kept = await bench.submit()
    const [oldSeqs, keptSeqs] = [await seqs(bench, old), await seqs(bench, kept)]
    const lastOld = Math.max(...oldSeqs)
    await bench.clock.advance(2 * DAY_MS)
    assert.equal(await prune(bench), 1)
    for (const afterSeq of [0, ...oldSeqs.slice(0, -1)]) {
      const { events, removedToSeq } = await bench.store.feed({ afterSeq, limit: 100 })
      assert.equal(removedToSeq, lastOld, `after ${afterSeq}`)
      assert.deepEqual(
        events.map(({ seq }) => seq),
        keptSeqs,
      )
    }
    assert.equal((await bench.store.feed({ afterSeq: lastOld, limit: 100 })).removedToSeq, null)
  },

  async 'numbers go on after everything was removed, and the removal of the newest is told, too'(bench) {
    const old = await bench.finished('complete')
    const last = await bench.store.lastSeq()
    await bench.clock.advance(2 * DAY_MS)
    assert.equal(await prune(bench), 1)
    const before = (await seqs(bench, old)).length
    assert.equal(before, 0)
    const page = await bench.store.feed({ afterSeq: last - 1, limit: 100 })
    assert.deepEqual([page.events, page.removedToSeq], [[], last])
    assert.equal(await bench.store.lastSeq(), last)
    const id = await bench.submit()
    assert((await seqs(bench, id)).every((seq) => seq > last))
  },

  async 'a filtered feed returns only the events of the named subjects, in order'(bench) {
    const anns = await bench.finished('complete', { owner: 'ann', type: 'other' })
    await bench.submit({ owner: 'bob' })
    const { id: member, ...rest } = bench.newJob()
    await bench.store.openBatch({ batch: newBatch(bench, { id: 'b-1' }), jobs: [{ id: member, ...rest }] })
    await bench.store.pauseQueue({ name: 'side', by: { actor: 'olga', reason: 'a test' }, forMs: null })
    const everything = await readAll(bench)
    const jobOf = (event: FeedEvent) => (event.subject === null ? event.jobId : null)
    const of = (id: string) => everything.filter((event) => jobOf(event) === id)
    const paused = everything.filter(({ subject }) => subject === 'queue:side')
    assert.equal(paused.length, 1)
    const cases: [Partial<FeedFilter>, FeedEvent[]][] = [
      [{ owners: ['ann'] }, of(anns)],
      [{ owners: ['nobody'], jobs: ['nothing'], types: ['none'], queues: ['none'], batches: ['none'] }, []],
      [{ jobs: [anns, member] }, [...of(anns), ...of(member)]],
      [{ types: ['other'] }, of(anns)],
      [{ queues: ['side'], subjects: ['queue:side'] }, [...of(anns), ...paused]],
      [{ batches: ['b-1'] }, of(member)],
      [{ subjects: ['queue:side'], owners: ['ann'] }, [...of(anns), ...paused]],
    ]
    for (const [given, expected] of cases) {
      for (const limit of [1, 2, 100]) assert.deepEqual(await readAll(bench, 0, limit, only(given)), expected)
    }
  },

  async 'a filtered page scans a bounded number of events and returns its position'(bench) {
    const jobs = Array.from({ length: FEED_SCAN_MAX + 100 }, () => bench.newJob({ owner: 'bob' }))
    await bench.store.submit({ jobs })
    const mine = await bench.submit({ owner: 'ann' })
    const first = await bench.store.feed({ afterSeq: 0, limit: 10, only: only({ owners: ['ann'] }) })
    assert.deepEqual([first.events, first.hasMore], [[], true])
    const { events } = await bench.store.feed({ afterSeq: 0, limit: FEED_SCAN_MAX })
    assert.equal(first.nextSeq, events.at(-1)?.seq)
    const second = await bench.store.feed({ afterSeq: first.nextSeq, limit: 10, only: only({ owners: ['ann'] }) })
    assert.deepEqual(
      [second.events.map((event) => (event as JobFeedEvent).jobId), second.hasMore, second.nextSeq],
      [[mine], false, await bench.store.lastSeq()],
    )
  },

  async 'reading page after page does not block timers'(bench) {
    await bench.submit()
    let hasRung = false
    setTimeout(() => {
      hasRung = true
    }, 1)
    const PAGES_MAX = 20_000
    let pages = 0
    while (!hasRung && pages < PAGES_MAX) {
      await bench.store.feed({ afterSeq: 0, limit: 1 })
      pages++
    }
    assert(hasRung, `no timer rang while ${pages} pages were read`)
  },

  async 'what another process commits is in the feed'(bench) {
    const [store, other] = await bench.openMany(2)
    const after = await store.lastSeq()
    const id = await bench.submit({}, other)
    const { events } = await store.feed({ afterSeq: after, limit: 10 })
    assert.deepEqual(
      events.map((event) => (event as JobFeedEvent).jobId),
      [id],
    )
  },

  async 'whoever listens is told when this process has committed, until they stop listening'(bench) {
    let told = 0
    const forget = bench.store.onCommit(() => void told++)
    await bench.submit()
    assert(told > 0)
    forget()
    const before = told
    await bench.submit()
    assert.equal(told, before)
  },
})

const only = (given: Partial<FeedFilter>): FeedFilter => ({
  jobs: [],
  types: [],
  queues: [],
  owners: [],
  batches: [],
  subjects: [],
  hasSchedules: false,
  ...given,
})

async function readAll(bench: Bench, afterSeq = 0, limit = 100, filter?: FeedFilter): Promise<FeedEvent[]> {
  const read: FeedEvent[] = []
  for (let after = afterSeq; ; ) {
    const { events, nextSeq, hasMore } = await bench.store.feed({
      afterSeq: after,
      limit,
      ...(filter && { only: filter }),
    })
    assert(events.length <= limit)
    assert(events.every(({ seq }) => seq > after && seq <= nextSeq))
    read.push(...events)
    after = nextSeq
    if (!hasMore) return read
  }
}

const seqs = async (bench: Bench, id: string): Promise<number[]> =>
  (await bench.store.events({ id })).map(({ seq }) => seq)

async function prune(bench: Bench): Promise<number> {
  const rule = { type: 'plain', completeMs: DAY_MS, failedMs: DAY_MS, cancelledMs: DAY_MS, deadLettersMs: DAY_MS }
  return (await bench.store.prune({ rules: [rule as PruneRule], after: 0, limit: 100 })).removed
}
