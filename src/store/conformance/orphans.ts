import assert from 'node:assert/strict'
import { policy } from '../../core/policy.ts'
import type { JobFilter } from '../store.ts'
import type { Bench } from './bench.ts'
import { complete, requeued } from './changes.ts'
import { topic } from './promise.ts'

const orphaned = { to: 'orphaned' } as const
/** Of the types of a bench, the one whose orphans are left to a person. */
const reporting = { type: 'forward' }

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
    await bench.expireLeases()
    await bench.reclaim(lease, orphaned)
    const counted = async () => (await bench.store.counts()).map((count) => count.orphaned)
    assert.deepEqual([await found(bench), await counted()], [[id], [1]])
    await worker.close(lease, complete())
    assert.deepEqual([await found(bench), await counted()], [[], [0]])
  },

  async 'an orphan is found from the moment its lease is over, though nobody has reported it'(bench) {
    const { id, lease, worker } = await bench.processing(reporting)
    const untilMs = (await bench.row(id)).lease?.untilMs ?? 0
    await bench.clock.advance(untilMs - 1 - bench.clock.nowMs())
    assert.deepEqual(await found(bench), [])
    await bench.clock.advance(1)
    assert.deepEqual(await found(bench), [id])
    assert.deepEqual(await bench.store.countJobs({ isOrphaned: true, max: 10 }), { count: 1, isMore: false })
    assert.deepEqual((await bench.row(id)).orphanedAtMs, null)
    assert.equal(await worker.renew(lease), 'held')
    assert.deepEqual(await found(bench), [])
  },

  async 'reported and silent orphans are found together, by type and by status, the newest first'(bench) {
    const reported = await bench.processing(reporting)
    const silent = await bench.processing(reporting)
    await bench.expireLeases()
    await bench.reclaim(reported.lease, orphaned)
    await bench.processing(reporting)
    const ids = [silent.id, reported.id]
    assert.deepEqual(await found(bench), ids)
    assert.deepEqual(await found(bench, { status: 'processing' }), ids)
    assert.deepEqual(await found(bench, reporting), ids)
    assert.deepEqual(await found(bench, { status: 'queued' }), [])
    assert.deepEqual(await found(bench, { type: 'no-such-type' }), [])
  },

  async 'a job that is requeued or failed when its worker is lost is no orphan, unless it may only go forward'(bench) {
    await bench.declare('fails', policy({ orphan: 'fail' }))
    await bench.declare('changes', policy({ forwardOnly: true }))
    await bench.processing()
    await bench.processing({ type: 'fails' })
    const { id } = await bench.processing({ type: 'changes' })
    await bench.declare('changes', policy({ orphan: 'requeue' }))
    await bench.processing({ type: 'changes' })
    await bench.expireLeases()
    assert.deepEqual(await found(bench), [id])
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

const found = async (bench: Bench, filter: Partial<JobFilter> = {}): Promise<string[]> =>
  (await bench.store.jobs({ isOrphaned: true, limit: 10, ...filter })).map((row) => row.id)

async function stalled(bench: Bench): Promise<string[]> {
  const listed = await bench.store.stalled({ unstartedForMs: 1_000_000_000, limit: 100 })
  return listed.map(({ id }) => id)
}
