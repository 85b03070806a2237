import assert from 'node:assert/strict'
import type { JobEvent } from '../../../core/job/events.ts'
import type { Bench } from '../bench/bench.ts'
import { complete, failed, markFailed, requeued, retryInPlace, someFailure } from '../bench/changes.ts'
import { topic } from '../promise.ts'

type Attempted = Awaited<ReturnType<Bench['processing']>>

const numbered = ({ seq, kind, atMs, attempt }: Pick<JobEvent, 'seq' | 'atMs' | 'attempt'> & { kind: string }) => ({
  ...{ seq, kind, atMs, attempt },
})

export const history = topic('history', {
  async 'after every operation the history of each job leads to its row'(bench) {
    const worker = await bench.worker()
    const step = async <T>(act: Promise<T>): Promise<T> => {
      const answer = await act
      await bench.checkAll()
      return answer
    }
    const id = await step(bench.submit({ delayMs: 100, dedupe: { key: 'k', scope: 'live' } }))
    await step(bench.clock.advance(100))
    let lease = await step(worker.claimOne())
    await step(worker.start(lease, 1))
    await step(worker.progress(lease, 0.5))
    await step(worker.close(lease, requeued('retry', lease, { delayMs: 50 }), 3))
    await step(bench.clock.advance(50))
    lease = await step(worker.claimOne())
    await step(worker.close(lease, requeued('snoozed', lease, { delayMs: 10 })))
    await step(bench.clock.advance(10))
    lease = await step(worker.claimOne())
    await step(worker.close(lease, requeued('released', lease)))
    lease = await step(worker.claimOne())
    await step(bench.expireLeases())
    await step(bench.reclaim(lease, { to: 'orphaned' }))
    await step(worker.renew(lease))
    await step(bench.expireLeases())
    await step(bench.reclaim(lease, requeued('reclaimed', lease)))
    await step(worker.close(lease, complete()))
    lease = await step(worker.claimOne())
    await step(worker.close(lease, failed(lease, { deadLetter: 'flag' }), 1))
    await step(bench.intervene(id, retryInPlace(await bench.row(id))))
    await step(bench.intervene(id, markFailed(await bench.row(id))))
    await step(bench.intervene(id, retryInPlace(await bench.row(id))))
    lease = await step(worker.claimOne())
    await step(bench.intervene(id, { kind: 'request-cancel' }))
    await step(worker.close(lease, requeued('released', lease)))
    assert.equal((await bench.row(id)).status, 'cancelled')
    assert.deepEqual(await bench.kinds(id), [
      ...['queued', 'processing', 'started', 'retry', 'processing', 'snoozed', 'processing', 'released'],
      ...['processing', 'orphaned', 'recovered', 'reclaimed', 'lost', 'processing', 'failed', 'manual-retry'],
      ...['failed', 'manual-retry', 'processing', 'cancel-requested', 'cancelled'],
    ])
  },

  async 'the event that ends an attempt says what was tried within it, and the HTTP status of its failure'(bench) {
    const stages = [
      { name: 'download', runs: 1, tries: 3, max: 3, succeeded: 0, failed: 1, codes: { BROKEN: 3 } },
      { name: 'upload', runs: 2, tries: 3, max: 3, succeeded: 2, failed: 0, codes: { BROKEN: 1 } },
    ]
    const { id, lease, worker } = await bench.processing()
    await worker.close(lease, { ...requeued('retry', lease), stages }, 1)
    const retried = await bench.lastEvent(id)
    assert.deepEqual([retried.kind, retried.data.httpStatus, retried.data.stages], ['retry', 502, stages])
    const again = await worker.claimOne()
    await worker.close(again, { ...failed(again), stages }, 1)
    const ended = await bench.lastEvent(id)
    assert.deepEqual([ended.kind, ended.data.httpStatus, ended.data.stages], ['failed', 502, stages])
    const other = await bench.processing()
    await other.worker.close(other.lease, { to: 'complete', result: null, stages }, 1)
    const done = await bench.lastEvent(other.id)
    assert.deepEqual([done.kind, done.data], ['complete', { stages }])
  },

  async 'an attempt leaves who had it, when, and how long its handler ran'(bench) {
    const { id, lease, worker } = await bench.processing()
    const claimedAtMs = bench.clock.nowMs()
    await bench.clock.advance(500)
    await worker.close(lease, complete(), 450.4)
    const [, claimed, closed] = await bench.store.events({ id })
    assert.deepEqual(
      [claimed?.kind, claimed?.worker, claimed?.attempt, claimed?.atMs],
      ['processing', worker.id, 1, claimedAtMs],
    )
    assert.deepEqual(
      [closed?.kind, closed?.worker, closed?.attempt, closed?.atMs, closed?.durationMs],
      ['complete', worker.id, 1, claimedAtMs + 500, 450],
    )
  },

  async 'the claim of an attempt is told once, before everything else of it, whatever comes next'(bench) {
    const ends = {
      complete: ({ worker, lease }: Attempted) => worker.close(lease, complete(), 1),
      failed: ({ worker, lease }: Attempted) => worker.close(lease, failed(lease), 1),
      retry: ({ worker, lease }: Attempted) => worker.close(lease, requeued('retry', lease), 1),
      released: ({ worker, lease }: Attempted) => worker.close(lease, requeued('released', lease)),
      cancelled: ({ worker, lease }: Attempted) => worker.close(lease, { to: 'cancelled', note: null }, 1),
      'a mark as failed': async ({ id }: Attempted) => bench.intervene(id, markFailed(await bench.row(id))),
      'a reclaim': async ({ lease }: Attempted) => {
        await bench.expireLeases()
        return bench.reclaim(lease, requeued('reclaimed', lease))
      },
    }
    const before = {
      nothing: async () => undefined,
      'its start': ({ worker, lease }: Attempted) => worker.start(lease),
      'a report': ({ worker, lease }: Attempted) => worker.progress(lease, 0.5),
      'a request to cancel': ({ id }: Attempted) => bench.intervene(id, { kind: 'request-cancel' }),
      'a report as orphan': async ({ lease }: Attempted) => {
        await bench.expireLeases()
        return bench.reclaim(lease, { to: 'orphaned' })
      },
    }
    for (const [first, prepare] of Object.entries(before)) {
      for (const [last, end] of Object.entries(ends)) {
        const what = `${first}, then ${last}`
        const fromSeq = await bench.store.lastSeq()
        const attempted = await bench.processing()
        const claimedAtMs = bench.clock.nowMs()
        assert.deepEqual(await bench.kinds(attempted.id), ['queued', 'processing'], what)
        await prepare(attempted)
        await end(attempted)
        const events = await bench.store.events({ id: attempted.id })
        const claims = events.filter(({ kind }) => kind === 'processing')
        assert.deepEqual(
          claims.map(({ atMs, attempt, worker }) => ({ atMs, attempt, worker })),
          [{ atMs: claimedAtMs, attempt: 1, worker: attempted.worker.id }],
          what,
        )
        assert.equal(events[1], claims[0], what)
        const { events: feed } = await bench.store.feed({ afterSeq: fromSeq, limit: 100 })
        const told = feed.flatMap((event) => (event.subject === null && event.jobId === attempted.id ? [event] : []))
        const isHistory = ({ kind }: { kind: string }) => kind !== 'progress'
        assert.deepEqual(told.filter(isHistory).map(numbered), events.map(numbered), what)
        // A reader that stops after any event gets exactly the rest.
        for (const { seq } of told) {
          const rest = await bench.store.feed({ afterSeq: seq, limit: 1 })
          const next = told[told.findIndex((event) => event.seq === seq) + 1]
          if (next !== undefined) assert.equal(rest.events[0]?.seq, next.seq, what)
        }
        // So that the next claim finds no other job.
        const { status } = await bench.row(attempted.id)
        if (status === 'queued') await bench.intervene(attempted.id, { kind: 'cancel' })
      }
    }
    await bench.checkAll()
  },

  async 'a person’s act leaves who did it and why'(bench) {
    const { id, lease, worker } = await bench.processing()
    await bench.intervene(id, { kind: 'request-cancel' })
    await worker.close(lease, failed(lease))
    await bench.intervene(id, retryInPlace(await bench.row(id)))
    await bench.intervene(id, markFailed(await bench.row(id)))
    await bench.intervene(id, retryInPlace(await bench.row(id)))
    await bench.intervene(id, { kind: 'cancel' })
    const events = await bench.store.events({ id })
    const acts = events.filter(({ data }) => data.actor !== undefined)
    assert.deepEqual(
      acts.map(({ kind }) => kind),
      ['cancel-requested', 'manual-retry', 'failed', 'manual-retry', 'cancelled'],
    )
    for (const { data } of acts) assert.deepEqual([data.actor, data.reason], ['olga', 'a test'])
  },

  async 'a failure is kept whole, with the decision that was made about it'(bench) {
    const { id, lease, worker } = await bench.processing()
    const atMs = bench.clock.nowMs()
    await worker.close(lease, requeued('retry', lease))
    const again = await worker.claimOne()
    await worker.close(again, failed(again))
    const [first, second, ...more] = await bench.store.failures({ id })
    assert(first !== undefined && second !== undefined && more.length === 0)
    assert(second.seq > first.seq)
    const stored = { ...someFailure(), jobId: id, atMs, worker: worker.id, from: 'processing' as const }
    assert.deepEqual(first, { ...stored, seq: first.seq, attempt: 1, to: 'queued' })
    assert.deepEqual(second, { ...stored, seq: second.seq, attempt: 2, to: 'failed' })
    const events = await bench.store.events({ id })
    assert.deepEqual(
      events.filter(({ data }) => data.failure !== undefined).map(({ kind, data }) => [kind, data.failure, data.code]),
      [
        ['retry', first.seq, 'BROKEN'],
        ['failed', second.seq, 'BROKEN'],
      ],
    )
  },

  async 'the newest failure is shown with the job, which points to it only when it failed for good'(bench) {
    const { id, lease, worker } = await bench.processing()
    assert.equal((await bench.row(id)).latestFailure, null)
    await worker.close(lease, requeued('retry', lease))
    const queued = await bench.row(id)
    assert.deepEqual([queued.failure, queued.latestFailure?.attempt], [null, 1])
    const again = await worker.claimOne()
    await worker.close(again, failed(again))
    const row = await bench.row(id)
    assert.equal(row.latestFailure?.attempt, 2)
    assert.equal(row.failure, row.latestFailure?.seq)
  },

  async 'events are numbered through the whole store, and a number is never given again'(bench) {
    const seqs: number[] = []
    const remember = async (id: string) => {
      for (const { seq } of await bench.store.events({ id })) if (!seqs.includes(seq)) seqs.push(seq)
    }
    const prune = { rules: [{ type: 'plain', completeMs: 0, failedMs: 0, cancelledMs: 0 }], after: 0, limit: 100 }
    for (let i = 0; i < 3; i++) {
      await remember(await bench.finished('complete'))
      await bench.clock.advance(1)
      assert.equal((await bench.store.prune(prune)).removed, 1)
    }
    assert.deepEqual(
      seqs,
      [...new Set(seqs)].toSorted((a, b) => a - b),
    )
    assert.equal(seqs.length, 9)
  },
})
