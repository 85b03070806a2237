import assert from 'node:assert/strict'
import { TTL_MS } from '../bench/bench-worker.ts'
import { complete, failed, requeued } from '../bench/changes.ts'
import { topic } from '../promise.ts'

export const time = topic('time', {
  async 'every instant is by the clock of the store'(bench) {
    const at = () => bench.clock.nowMs()
    assert.equal(await bench.store.nowMs(), at())
    const id = await bench.submit()
    const submittedAtMs = at()
    await bench.clock.advance(10)
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    const claimedAtMs = at()
    await bench.clock.advance(100)
    await worker.start(lease, 40)
    const startedAtMs = at() - 40
    await bench.clock.advance(100)
    await worker.close(lease, complete(), 140)
    const row = await bench.row(id)
    assert.deepEqual(
      [row.createdAtMs, row.queuedAtMs, row.claimedAtMs, row.startedAtMs, row.finishedAtMs],
      [submittedAtMs, submittedAtMs, claimedAtMs, startedAtMs, at()],
    )
    const events = await bench.store.events({ id })
    assert.deepEqual(
      events.map(({ kind, atMs }) => [kind, atMs]),
      [
        ['queued', submittedAtMs],
        ['processing', claimedAtMs],
        ['started', startedAtMs],
        ['complete', at()],
      ],
    )
  },

  async 'a delay counts from when the store took the job'(bench) {
    const id = await bench.submit({ delayMs: 1_500 })
    const dueAtMs = bench.clock.nowMs() + 1_500
    const { dueAtMs: due, queuedAtMs, createdAtMs } = await bench.row(id)
    assert.deepEqual([due, queuedAtMs, createdAtMs], [dueAtMs, dueAtMs, bench.clock.nowMs()])
    assert.equal((await bench.lastEvent(id)).data.dueAtMs, dueAtMs)
  },

  async 'a retry counts its delay from when the store took the failure'(bench) {
    const { id, lease, worker } = await bench.processing()
    await bench.clock.advance(700)
    await worker.close(lease, requeued('retry', lease, { delayMs: 5_000 }), 700)
    const dueAtMs = bench.clock.nowMs() + 5_000
    assert.equal((await bench.row(id)).dueAtMs, dueAtMs)
    assert.equal((await bench.lastEvent(id)).data.dueAtMs, dueAtMs)
  },

  async 'a worker whose clock runs fast cannot have started before its claim'(bench) {
    const told = await bench.processing()
    const { claimedAtMs } = await bench.row(told.id)
    await told.worker.start(told.lease, 3_600_000)
    assert.equal((await bench.row(told.id)).startedAtMs, claimedAtMs)
    for (const change of [complete, () => failed({ spent: null })]) {
      const closed = await bench.processing()
      await closed.worker.close(closed.lease, change(), 3_600_000)
      const { startedAtMs } = await bench.row(closed.id)
      assert.equal(startedAtMs, claimedAtMs)
    }
  },

  async 'an attempt that never began has no time of starting'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.close(lease, failed(lease), null)
    assert.equal((await bench.row(id)).startedAtMs, null)
    assert.equal((await bench.lastEvent(id)).durationMs, null)
  },

  async 'a clock that is set forward ends leases, and the fence keeps what that breaks'(bench) {
    const { id, lease, worker } = await bench.processing()
    bench.clock.jump(3_600_000)
    assert.equal((await bench.store.stalled({ unstartedForMs: 1_000_000_000, limit: 9 })).length, 1)
    await bench.reclaim(lease, requeued('reclaimed', lease))
    const heir = await bench.worker()
    const fresh = await heir.claimOne()
    assert.equal(await worker.close(lease, complete('"stale"')), 'lost')
    assert.equal(await heir.close(fresh, complete('"fresh"')), 'closed')
    assert.equal((await bench.row(id)).result, '"fresh"')
  },

  async 'a clock that is set back loses nothing'(bench) {
    const { id, lease, worker } = await bench.processing()
    const queued = await bench.submit()
    const delayed = await bench.submit({ delayMs: 1_000 })
    bench.clock.jump(-3_600_000)
    assert.equal(await worker.start(lease), 'held')
    assert.equal(await worker.renew(lease), 'held')
    assert.equal(await worker.close(lease, complete(), 5), 'closed')
    assert.equal((await bench.row(id)).status, 'complete')
    assert.equal((await worker.claimOne()).id, queued)
    await bench.clock.advance(3_600_000 + 1_000)
    assert.equal((await worker.claimOne()).id, delayed)
    await bench.checkAll()
  },

  async 'a lease is judged by the clock of the store at the moment it is judged'(bench) {
    const { lease, worker } = await bench.processing()
    await bench.clock.advance(TTL_MS)
    bench.clock.jump(-1)
    assert.equal(await bench.reclaim(lease, requeued('reclaimed', lease)), 'lost')
    bench.clock.jump(1)
    assert.equal(await bench.reclaim(lease, requeued('reclaimed', lease)), 'closed')
    assert.equal(await worker.renew(lease), 'lost')
  },
})
