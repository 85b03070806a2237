import assert from 'node:assert/strict'
import type { Stalled } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { TTL_MS } from '../bench/bench-worker.ts'
import { complete, failed, REQUEUE_CAUSES, requeued } from '../bench/changes.ts'
import { topic } from '../promise.ts'

export const leases = topic('leases', {
  async 'renewing extends the lease from the time of the store'(bench) {
    const { id, lease, worker } = await bench.processing()
    await bench.clock.advance(20_000)
    assert.equal(await worker.renew(lease), 'held')
    assert.equal((await bench.row(id)).lease?.untilMs, bench.clock.nowMs() + TTL_MS)
  },

  async 'many leases are renewed in one call, and only the lost ones are named'(bench) {
    const worker = await bench.worker()
    await bench.store.submit({ jobs: Array.from({ length: 10 }, () => bench.newJob()) })
    const { leases: held } = await worker.claim({ max: 10 })
    const gone = held.filter((_, i) => i % 3 === 0)
    for (const lease of gone) await worker.close(lease, complete())
    await bench.clock.advance(1_000)
    const renewals = held.map(({ key, attempt }) => ({ key, attempt, ttlMs: TTL_MS }))
    const { nowMs, lost } = await bench.store.renew({ worker: worker.key, leases: renewals })
    assert.equal(nowMs, bench.clock.nowMs())
    assert.deepEqual(new Set(lost), new Set(gone.map(({ key }) => key)))
    for (const { id } of held.filter((lease) => !gone.includes(lease))) {
      assert.equal((await bench.row(id)).lease?.untilMs, nowMs + TTL_MS)
    }
  },

  async 'a job that goes back to the queue has made no progress and has not begun'(bench) {
    for (const cause of REQUEUE_CAUSES) {
      const { id, lease, worker } = await bench.processing()
      await worker.start(lease)
      await worker.progress(lease, 0.5)
      await worker.close(lease, requeued(cause, lease))
      const { progress, startedAtMs, claimedAtMs, lease: held } = await bench.row(id)
      assert.deepEqual([progress, startedAtMs, claimedAtMs, held], [0, null, null, null], `after it was ${cause}`)
      await bench.intervene(id, { kind: 'cancel' })
    }
  },

  async 'a close that comes after the lease ran out, but before anybody took the job, still counts'(bench) {
    const { id, lease, worker } = await bench.processing()
    await bench.expireLeases()
    assert.equal(await worker.close(lease, complete('"late"')), 'closed')
    const row = await bench.row(id)
    assert.deepEqual([row.status, row.result], ['complete', '"late"'])
  },

  async 'so do a start and a renewal'(bench) {
    const { id, lease, worker } = await bench.processing()
    await bench.expireLeases()
    assert.equal(await worker.start(lease), 'held')
    assert.equal(await worker.renew(lease), 'held')
    assert.deepEqual(await stalled(bench), [])
    assert.equal((await bench.row(id)).status, 'processing')
  },

  async 'a start that is told twice is recorded once'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.start(lease)
    await bench.clock.advance(1_000)
    await bench.changesNothing(id, 'the second start', async () => assert.equal(await worker.start(lease), 'held'))
  },

  async 'a lease that ran out is stalled from that moment, and not before'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.start(lease)
    await bench.clock.advance(TTL_MS - 1)
    assert.deepEqual(await stalled(bench), [])
    await bench.clock.advance(1)
    const { claimedAtMs, startedAtMs, queuedAtMs, createdAtMs } = await bench.row(id)
    const { key, attempt } = lease
    const nowMs = bench.clock.nowMs()
    assert.deepEqual(await stalled(bench), [
      {
        ...{ key, id, type: 'plain', attempt, worker: worker.id, leaseUntilMs: nowMs, claimedAtMs, startedAtMs },
        ...{ queuedAtMs, createdAtMs, owner: null, retriedFrom: null, spent: null, isExpired: true },
        ...{ isCancelRequested: false, isForwardOnly: false, nowMs },
      },
    ])
  },

  async 'a job that began after it was seen as not begun is not taken back as such'(bench) {
    const { id, lease, worker } = await bench.processing()
    await bench.clock.advance(TTL_MS)
    await worker.start(lease)
    assert.equal(await bench.reclaim(lease, requeued('reclaimed', lease), 'expired-unstarted'), 'lost')
    assert.equal((await bench.row(id)).status, 'processing')
    assert.equal(await bench.reclaim(lease, requeued('reclaimed', lease), 'expired'), 'closed')
  },

  async 'a claimed job that was not started for long is stalled, though its lease is renewed'(bench) {
    const { id, lease, worker } = await bench.processing()
    const begun = await bench.processing({ type: 'other' })
    await begun.worker.start(begun.lease)
    await bench.clock.advance(TTL_MS / 2)
    await worker.renew(lease)
    await begun.worker.renew(begun.lease)
    const [one, ...more] = await stalled(bench, TTL_MS / 2)
    assert.deepEqual([one?.id, one?.isExpired, one?.startedAtMs, more], [id, false, null, []])
    assert.deepEqual(await stalled(bench, TTL_MS / 2 + 1), [])
  },

  async 'no more stalled jobs are listed than were asked for, those that wait longest first'(bench) {
    const ids: string[] = []
    for (let i = 0; i < 5; i++) {
      ids.push((await bench.processing()).id)
      await bench.clock.advance(10)
    }
    await bench.expireLeases()
    const listed = await bench.store.stalled({ unstartedForMs: NEVER_MS, limit: 3 })
    assert.deepEqual(
      listed.map(({ id }) => id),
      ids.slice(0, 3),
    )
  },

  async 'a job whose lease ran out can be taken back, once'(bench) {
    const { id, lease } = await bench.processing()
    await bench.expireLeases()
    const change = requeued('reclaimed', lease)
    const all = await Promise.all((await bench.openMany(3)).map((store) => store.reclaim(reclaimOf(lease, change))))
    assert.deepEqual(all.flat().toSorted(), ['closed', 'lost', 'lost'])
    const row = await bench.row(id)
    assert.deepEqual([row.status, row.attempt, row.spent], ['queued', 1, change.spent])
    assert.deepEqual(await bench.kinds(id), ['queued', 'processing', 'reclaimed'])
  },

  async 'a job whose lease was renewed meanwhile is not taken back'(bench) {
    const { id, lease, worker } = await bench.processing()
    await bench.expireLeases()
    assert.equal((await stalled(bench)).length, 1)
    await worker.renew(lease)
    for (const change of [requeued('reclaimed', lease), failed(lease), { to: 'orphaned' } as const]) {
      await bench.changesNothing(id, `a reclaim to ${change.to}`, async () =>
        assert.equal(await bench.reclaim(lease, change), 'lost'),
      )
    }
    assert.equal(await worker.close(lease, complete()), 'closed')
  },

  async 'a job that was started meanwhile is not taken back as one that never began'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.start(lease)
    await bench.changesNothing(id, 'a reclaim as unstarted', async () =>
      assert.equal(await bench.reclaim(lease, requeued('reclaimed', lease), 'unstarted'), 'lost'),
    )
  },

  async 'a job that never began can be taken back while its lease still runs'(bench) {
    const { id, lease, worker } = await bench.processing()
    assert.equal(await bench.reclaim(lease, requeued('reclaimed', lease), 'unstarted'), 'closed')
    assert.equal((await bench.row(id)).status, 'queued')
    assert.equal(await worker.start(lease), 'lost')
  },

  async 'a job that was closed meanwhile is not taken back'(bench) {
    const { id, lease, worker } = await bench.processing()
    await bench.expireLeases()
    await worker.close(lease, complete())
    await bench.changesNothing(id, 'a reclaim', async () =>
      assert.equal(await bench.reclaim(lease, requeued('reclaimed', lease)), 'lost'),
    )
  },

  async 'one reclaim that comes too late does not harm the others'(bench) {
    const [one, two, three] = [await bench.processing(), await bench.processing(), await bench.processing()]
    await bench.expireLeases()
    await two.worker.renew(two.lease)
    const reclaims = [one, two, three].map(({ lease }) => reclaimOf(lease, requeued('reclaimed', lease)).reclaims[0])
    assert.deepEqual(await bench.store.reclaim({ reclaims }), ['closed', 'lost', 'closed'])
  },
})

const NEVER_MS = 1_000_000_000

function stalled(bench: Bench, unstartedForMs = NEVER_MS): Promise<Stalled[]> {
  return bench.store.stalled({ unstartedForMs, limit: 100 })
}

function reclaimOf<Change>({ key, attempt }: { key: number; attempt: number }, change: Change) {
  const expect: 'expired' = 'expired'
  return { reclaims: [{ key, attempt, expect, change }] as const }
}
