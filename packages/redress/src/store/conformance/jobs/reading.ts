import assert from 'node:assert/strict'
import type { JobFilter } from '../../contract/store.ts'
import { topic } from '../promise.ts'

export const reading = topic('reading', {
  async 'counts add up'(bench) {
    await bench.finished('complete')
    await bench.finished('complete', { type: 'other' })
    await bench.finished('failed')
    await bench.finished('cancelled')
    const { lease } = await bench.processing()
    await bench.processing()
    await bench.submit()
    await bench.submit({ delayMs: 1_000_000 })
    await bench.expireLeases()
    await bench.reclaim(lease, { to: 'orphaned' })
    const counts = (await bench.store.counts()).toSorted((a, b) => a.type.localeCompare(b.type))
    const none = { queued: 0, waiting: 0, processing: 0, orphaned: 0, complete: 0, failed: 0, cancelled: 0 }
    assert.deepEqual(counts, [
      { ...none, type: 'other', queue: 'side', complete: 1 },
      {
        ...{ type: 'plain', queue: 'default' },
        // `waiting` is a part of queued, `orphaned` a part of processing.
        ...{ queued: 2, waiting: 1, processing: 2, orphaned: 1, complete: 1, failed: 1, cancelled: 1 },
      },
    ])
    const total = counts.reduce((sum, c) => sum + c.queued + c.processing + c.complete + c.failed + c.cancelled, 0)
    assert.equal(total, (await bench.store.jobs({ limit: 100 })).length)
  },

  async 'jobs are listed newest first, page by page'(bench) {
    const ids: string[] = []
    for (let i = 0; i < 5; i++) ids.unshift(await bench.submit())
    const read: string[] = []
    let page = await bench.store.jobs({ limit: 2 })
    while (page.length > 0) {
      assert(page.length <= 2)
      read.push(...page.map(({ id }) => id))
      page = await bench.store.jobs({ limit: 2, beforeKey: page.at(-1)?.key ?? 0 })
    }
    assert.deepEqual(read, ids)
  },

  async 'jobs are found by state, type and owner, and by all of them together'(bench) {
    const complete = await bench.finished('complete', { owner: 'otto' })
    const failed = await bench.finished('failed')
    const cancelled = await bench.finished('cancelled', { type: 'other', owner: 'otto' })
    const { id: processing } = await bench.processing({ type: 'other' })
    const queued = await bench.submit({ owner: 'otto' })
    const find = async (filter: Omit<JobFilter, 'limit'>) =>
      (await bench.store.jobs({ ...filter, limit: 10 })).map(({ id }) => id)
    assert.deepEqual(await find({ status: 'complete' }), [complete])
    assert.deepEqual(await find({ status: 'failed' }), [failed])
    assert.deepEqual(await find({ status: 'cancelled' }), [cancelled])
    assert.deepEqual(await find({ status: 'processing' }), [processing])
    assert.deepEqual(await find({ status: 'queued' }), [queued])
    assert.deepEqual(await find({ type: 'other' }), [processing, cancelled])
    assert.deepEqual(await find({ owner: 'otto' }), [queued, cancelled, complete])
    assert.deepEqual(await find({ owner: 'otto', type: 'plain', status: 'queued' }), [queued])
    assert.deepEqual(await find({ owner: 'nobody' }), [])
    assert.deepEqual(await find({ type: 'nobody.declared.this' }), [])
  },

  async 'a listed job is the same as the job read alone'(bench) {
    const { id } = await bench.processing({ owner: 'otto' })
    assert.deepEqual(await bench.store.jobs({ limit: 1 }), [await bench.row(id)])
  },

  async 'a job that is not there has no row, no history and no failures'(bench) {
    const id = bench.makeId()
    assert.equal(await bench.store.job({ id }), null)
    assert.deepEqual(await bench.store.events({ id }), [])
    assert.deepEqual(await bench.store.failures({ id }), [])
  },
})
