import assert from 'node:assert/strict'
import { policy } from '../../../core/policy/policy.ts'
import type { JobFilter } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { complete, requeued } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const orphaned = { to: 'orphaned' } as const
/** The bench type whose orphans are left to a person. */
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

  async 'an orphan is listed as soon as its lease expires, before any worker reports it'(bench) {
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

  async 'reported and unreported orphans are listed together, by type and status, newest first'(bench) {
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

  async 'only a policy that reports orphans, or a forward-only one, makes an expired job an orphan'(bench) {
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

  async 'an attempt older than its type allows is found even while its worker renews the lease'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.start(lease)
    await bench.clock.advance(10_000)
    await worker.renew(lease)
    const stuck = async (type: string, startedForMs: number) => {
      const ages = [
        { type: 'another', startedForMs: 1 },
        { type, startedForMs },
      ]
      const listed = await bench.store.stalled({ unstartedForMs: 1_000_000_000, stuck: ages, limit: 100 })
      return listed.map((job) => [job.id, job.isExpired])
    }
    assert.deepEqual(await stuck(lease.type, 10_000), [[id, false]])
    assert.deepEqual(await stuck(lease.type, 10_001), [])
    assert.deepEqual(await stuck('unknown', 1), [])
  },

  async 'a live worker can neither renew nor close a stuck attempt that was taken back'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.start(lease)
    await worker.progress(lease, 0.5)
    const { key, attempt } = lease
    const reclaims = [{ key, attempt, expect: 'stuck' as const, change: requeued('reclaimed', lease) }]
    assert.deepEqual(await bench.store.reclaim({ reclaims }), ['closed'])
    const row = await bench.row(id)
    assert.deepEqual(
      [row.status, row.startedAtMs, row.progress, row.dueAtMs, row.lease],
      ['queued', null, 0, null, null],
    )
    assert.equal(await worker.renew(lease), 'lost')
    assert.equal(await worker.close(lease, complete()), 'lost')
    assert.equal((await bench.row(id)).status, 'queued')
  },

  async 'a job before its start or in its next attempt is not taken back as stuck'(bench) {
    const { id, lease } = await bench.processing()
    const { key } = lease
    const isRefused = async (attempt: number) => {
      const reclaims = [{ key, attempt, expect: 'stuck' as const, change: requeued('reclaimed', lease) }]
      assert.deepEqual(await bench.store.reclaim({ reclaims }), ['lost'])
    }
    await bench.changesNothing(id, 'a claim that has not started', () => isRefused(lease.attempt))
    await bench.changesNothing(id, 'another attempt', () => isRefused(lease.attempt + 1))
  },
})

const found = async (bench: Bench, filter: Partial<JobFilter> = {}): Promise<string[]> =>
  (await bench.store.jobs({ isOrphaned: true, limit: 10, ...filter })).map((row) => row.id)

async function stalled(bench: Bench): Promise<string[]> {
  const listed = await bench.store.stalled({ unstartedForMs: 1_000_000_000, limit: 100 })
  return listed.map(({ id }) => id)
}
