import assert from 'node:assert/strict'
import type { JobFeedEvent } from '../../contract/feed.ts'
import type { Deletion, Store } from '../../contract/store.ts'
import { counts, newBatch, row } from '../bench/batch-bench.ts'
import type { Bench } from '../bench/bench.ts'
import { complete, failed, retryInPlace } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const DAY_MS = 24 * 60 * 60_000

export const deleting = topic('deleting', {
  async 'a finished job is deleted with its history, and the audit trail keeps who did it and what it was'(bench) {
    for (const status of ['complete', 'failed', 'cancelled'] as const) {
      const id = await bench.finished(status, { owner: 'ann' })
      assert.equal(await deleteJob(bench, id), 'done', status)
      assert.equal(await bench.store.job({ id }), null)
      assert.deepEqual(await bench.store.events({ id }), [])
      assert.deepEqual(await bench.store.failures({ id }), [])
      const [act] = await bench.store.auditTrail({ filter: { id, act: 'jobs.delete' }, beforeSeq: null, limit: 1 })
      assert.deepEqual(
        [act?.actor, act?.reason, act?.data],
        ['olga', 'a test', { type: 'plain', status, owner: 'ann' }],
      )
    }
    assert.deepEqual(await bench.store.jobs({ limit: 10 }), [])
  },

  async 'a job that is queued or under way cannot be deleted'(bench) {
    for (const id of [await bench.submit({ delayMs: 1_000 }), (await bench.processing()).id]) {
      await bench.changesNothing(id, 'deleting it', () =>
        assert.rejects(deleteJob(bench, id), { code: 'JOB_WRONG_STATE' }),
      )
    }
  },

  async 'a job that moved on is not deleted'(bench) {
    const id = await bench.finished('failed')
    const seen = await bench.row(id)
    await bench.intervene(id, retryInPlace(seen))
    await bench.changesNothing(id, 'deleting it', async () =>
      assert.equal(await deleteJob(bench, id, { expect: seen }), 'moved-on'),
    )
    assert.equal(await deleteJob(bench, bench.makeId(), { expect: seen }), 'moved-on')
  },

  async 'of a retry and a deletion at the same time, one is too late'(bench) {
    for (let round = 0; round < 5; round++) {
      const id = await bench.finished('failed')
      const seen = await bench.row(id)
      const [one, other = one] = await bench.openMany(2)
      const [retried, deleted] = await Promise.all([
        bench.intervene(id, retryInPlace(seen), seen, one),
        deleteJob(bench, id, { expect: seen }, other),
      ])
      assert.deepEqual([retried, deleted].toSorted(), ['done', 'moved-on'])
      assert.equal(
        await bench.store.job({ id }).then((job) => job?.status ?? null),
        retried === 'done' ? 'queued' : null,
      )
    }
  },

  async 'a job with an open dead letter is deleted only if the person insists'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.close(lease, failed(lease, { deadLetter: 'queue' }))
    await bench.changesNothing(id, 'deleting it', async () => assert.equal(await deleteJob(bench, id), 'letter-open'))
    assert.equal((await bench.store.deadLetters(LETTERS)).length, 1)
    assert.equal(await deleteJob(bench, id, { isForced: true }), 'done')
    assert.deepEqual(await bench.store.deadLetters(LETTERS), [])
    const [act] = await bench.store.auditTrail({ filter: { id, act: 'jobs.delete' }, beforeSeq: null, limit: 1 })
    assert.deepEqual(act?.data?.deadLetters, [1])
  },

  async 'a dead letter that was replayed does not keep its job, and the new job keeps its origin'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.close(lease, failed(lease, { deadLetter: 'queue' }))
    const made = await bench.submit({ retriedFrom: { id, actor: 'olga', reason: 'a test' } })
    assert.equal(await deleteJob(bench, id), 'done')
    assert.deepEqual(await bench.store.deadLetters(LETTERS), [])
    assert.equal((await bench.row(made)).retriedFrom, id)
    const remade = await bench.finished('failed')
    const next = await bench.submit({ retriedFrom: { id: remade, actor: 'olga', reason: 'a test' } })
    await bench.finish(next, 'complete')
    assert.equal(await deleteJob(bench, next), 'done')
    const origin = await bench.row(remade)
    assert.deepEqual([origin.retriedAs, origin.retriedAsStatus], [next, null])
  },

  async 'the failures of a deleted job stay counted in their group'(bench) {
    const id = await bench.finished('failed')
    const { fingerprint } = (await bench.store.failures({ id }))[0] as { fingerprint: string }
    assert.equal(await deleteJob(bench, id), 'done')
    const again = await bench.finished('failed')
    assert.equal(await deleteJob(bench, again), 'done')
    const group = await bench.store.failureGroup({ fingerprint })
    assert.equal(group?.group.count, 2)
  },

  async 'the dedupe key of a deleted job is free'(bench) {
    const dedupe = { key: 'once', scope: 'always' } as const
    const id = await bench.finished('complete', { dedupe })
    assert.equal(await bench.submit({ dedupe }), id)
    await deleteJob(bench, id)
    assert.notEqual(await bench.submit({ dedupe }), id)
  },

  async 'a batch keeps its counts and its outcome when a job of it is deleted'(bench) {
    const batch = newBatch(bench)
    const jobs = [bench.newJob(), bench.newJob()] as const
    await bench.store.openBatch({ batch, jobs })
    const worker = await bench.worker()
    const one = await worker.claimOne()
    await worker.close(one, complete())
    assert.equal(await deleteJob(bench, one.id), 'done', 'while the batch is open')
    assert.deepEqual(await counts(bench, batch.id), { total: 2, unfinished: 1, complete: 1 })
    const other = await worker.claimOne()
    await worker.close(other, failed(other))
    const settled = await row(bench, batch.id)
    assert.equal(settled.state, 'partial')
    assert.equal(await deleteJob(bench, other.id), 'done')
    assert.deepEqual(await row(bench, batch.id), { ...settled, lastFailure: null })
    assert.deepEqual(await bench.store.jobs({ batch: batch.id, limit: 9 }), [])
  },

  async 'retention removes a batch whose jobs were deleted'(bench) {
    const batch = newBatch(bench)
    const job = bench.newJob()
    await bench.store.openBatch({ batch, jobs: [job] })
    await bench.finish(job.id, 'complete')
    await deleteJob(bench, job.id)
    const prune = () => bench.store.prune({ rules: [], after: 0, limit: 10 })
    await bench.clock.advance(30 * DAY_MS - 1)
    await prune()
    assert.equal((await row(bench, batch.id)).state, 'complete')
    await bench.clock.advance(1)
    await prune()
    assert.equal(await bench.store.batch({ id: batch.id }), null)
  },

  async 'readers of the feed hear of the deletion by job, type, queue, owner and batch'(bench) {
    const batch = newBatch(bench)
    const job = bench.newJob({ type: 'other', owner: 'ann' })
    await bench.store.openBatch({ batch, jobs: [job] })
    await bench.finish(job.id, 'complete')
    const lastOfJob = (await bench.lastEvent(job.id)).seq
    const afterSeq = await bench.store.lastSeq()
    await deleteJob(bench, job.id)
    const none = { jobs: [], types: [], queues: [], owners: [], batches: [], subjects: [], hasSchedules: false }
    const filters = [
      undefined,
      { ...none, jobs: [job.id] },
      { ...none, types: ['other'] },
      { ...none, queues: ['side'] },
      { ...none, owners: ['ann'] },
      { ...none, batches: [batch.id] },
    ]
    for (const only of filters) {
      const { events, nextSeq } = await bench.store.feed({ afterSeq, limit: 9, ...(only && { only }) })
      const [event] = events as JobFeedEvent[]
      assert.equal(events.length, 1)
      assert.deepEqual(
        [event?.kind, event?.jobId, event?.type, event?.queue, event?.owner, event?.batchId, event?.status],
        ['deleted', job.id, 'other', 'side', 'ann', batch.id, 'complete'],
      )
      assert.deepEqual([event?.attempt, event?.data], [1, { actor: 'olga', reason: 'a test', status: 'complete' }])
      assert.equal(nextSeq, event?.seq)
    }
    const others = { ...none, jobs: [bench.makeId()], types: ['plain'], owners: ['bob'], subjects: ['queue:default'] }
    const { events, nextSeq } = await bench.store.feed({ afterSeq, limit: 9, only: others })
    assert.deepEqual([events, nextSeq], [[], await bench.store.lastSeq()])
    const { removedToSeq } = await bench.store.feed({ afterSeq: 0, limit: 9 })
    assert.equal(removedToSeq, lastOfJob, 'a reader further behind learns that events are missing')
  },

  async 'a deletion can submit the job that removes the files, in the same transaction'(bench) {
    const id = await bench.finished('complete')
    const cleanup = bench.newJob({ type: 'other', payload: '{"of":1}' })
    assert.equal(await deleteJob(bench, id, { cleanup }), 'done')
    assert.equal((await bench.row(cleanup.id)).status, 'queued')
    const [act] = await bench.store.auditTrail({ filter: { id, act: 'jobs.delete' }, beforeSeq: null, limit: 1 })
    assert.equal(act?.data?.filesRemovedBy, cleanup.id)
    const kept = await bench.finished('complete')
    const unknown = bench.newJob({ type: 'nobody.declared.this' })
    await bench.changesNothing(kept, 'a deletion whose cleanup is refused', () =>
      assert.rejects(deleteJob(bench, kept, { cleanup: unknown }), { code: 'TYPE_UNKNOWN' }),
    )
    const stale = bench.newJob({ type: 'other' })
    const seen = { status: 'failed', attempt: 1 } as const
    assert.equal(await deleteJob(bench, kept, { cleanup: stale, expect: seen }), 'moved-on')
    assert.equal(await bench.store.job({ id: stale.id }), null)
  },

  async 'numbers of events and failures of a deleted job are not given again'(bench) {
    const id = await bench.finished('failed')
    const [failure] = await bench.store.failures({ id })
    const lastSeq = await bench.store.lastSeq()
    await deleteJob(bench, id)
    const next = await bench.finished('failed')
    const [later] = await bench.store.failures({ id: next })
    assert((later?.seq ?? 0) > (failure?.seq ?? 0))
    assert((await bench.store.events({ id: next })).every(({ seq }) => seq > lastSeq))
  },
})

const LETTERS = { afterOffset: 0, limit: 10 }

async function deleteJob(
  bench: Bench,
  id: string,
  { expect, isForced = false, cleanup = null }: Partial<Deletion> = {},
  store: Store = bench.store,
) {
  const { status, attempt } = expect ?? (await bench.row(id))
  return store.deleteJob({ id, actor: 'olga', reason: 'a test', expect: { status, attempt }, isForced, cleanup })
}
