import assert from 'node:assert/strict'
import type { Bench } from './bench.ts'
import { complete, requeued } from './changes.ts'
import { topic } from './promise.ts'

const orphaned = { to: 'orphaned' } as const

export const orphans = topic('orphans', {
  async 'an orphan is reported and not touched'(bench) {
    const { id, lease, worker } = await bench.processing()
    await bench.expireLeases()
    const before = await bench.row(id)
    assert.equal(await bench.reclaim(lease, orphaned), 'closed')
    assert.deepEqual(await bench.row(id), { ...before, orphanedAtMs: bench.clock.nowMs() })
    assert.deepEqual((await bench.store.events({ id })).at(-1)?.worker, worker.id)
    assert.deepEqual(await bench.kinds(id), ['queued', 'processing', 'orphaned'])
  },

  async 'an orphan is reported once per attempt'(bench) {
    const { id, lease } = await bench.processing()
    await bench.expireLeases()
    assert.equal(await bench.reclaim(lease, orphaned), 'closed')
    assert.deepEqual(await stalled(bench), [])
    await bench.clock.advance(1_000)
    await bench.changesNothing(id, 'a second report', async () =>
      assert.equal(await bench.reclaim(lease, orphaned), 'lost'),
    )
  },

  async 'an orphan whose worker comes back is none any more'(bench) {
    const { id, lease, worker } = await bench.processing()
    await bench.expireLeases()
    await bench.reclaim(lease, orphaned)
    assert.equal(await worker.renew(lease), 'held')
    assert.equal((await bench.row(id)).orphanedAtMs, null)
    assert.deepEqual(await bench.kinds(id), ['queued', 'processing', 'orphaned', 'recovered'])
    await bench.expireLeases()
    assert.deepEqual(await stalled(bench), [id])
    assert.equal(await bench.reclaim(lease, orphaned), 'closed')
  },

  async 'an orphan whose worker comes back may close it'(bench) {
    const { id, lease, worker } = await bench.processing()
    await bench.expireLeases()
    await bench.reclaim(lease, orphaned)
    assert.equal(await worker.close(lease, complete('"after all"')), 'closed')
    const row = await bench.row(id)
    assert.deepEqual([row.status, row.result, row.orphanedAtMs], ['complete', '"after all"', null])
  },

  async 'an orphan can be found and is counted, until it is none any more'(bench) {
    const { id, lease, worker } = await bench.processing()
    await bench.processing()
    await bench.expireLeases()
    await bench.reclaim(lease, orphaned)
    const found = async () => (await bench.store.jobs({ isOrphaned: true, limit: 10 })).map((row) => row.id)
    const counted = async () => (await bench.store.counts()).map((count) => count.orphaned)
    assert.deepEqual([await found(), await counted()], [[id], [1]])
    await worker.close(lease, complete())
    assert.deepEqual([await found(), await counted()], [[], [0]])
  },

  async 'an orphan can still be taken back, and its next attempt is none'(bench) {
    const { id, lease } = await bench.processing()
    await bench.expireLeases()
    await bench.reclaim(lease, orphaned)
    assert.equal(await bench.reclaim(lease, requeued('reclaimed', lease)), 'closed')
    const next = await bench.worker()
    const again = await next.claimOne()
    assert.equal((await bench.row(id)).orphanedAtMs, null)
    await bench.expireLeases()
    assert.deepEqual(await stalled(bench), [id])
    assert.equal(await bench.reclaim(again, orphaned), 'closed')
  },
})

async function stalled(bench: Bench): Promise<string[]> {
  const listed = await bench.store.stalled({ unstartedForMs: 1_000_000_000, limit: 100 })
  return listed.map(({ id }) => id)
}
