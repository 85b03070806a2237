import assert from 'node:assert/strict'
import type { Lease } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import type { BenchWorker } from '../bench/bench-worker.ts'
import { complete, failed, markFailed, requeued } from '../bench/changes.ts'
import { topic } from '../promise.ts'

export const fencing = topic('fencing', {
  async 'a worker whose job was given to another can neither start, renew, report nor close it'(bench) {
    const { id, zombie, stale, heir, fresh } = await takenOver(bench)
    for (const [write, attempt] of Object.entries(staleWrites(zombie, stale))) {
      await bench.changesNothing(id, `a stale ${write}`, async () => assert.equal(await attempt(), 'lost'))
    }
    assert.equal(await heir.close(fresh, complete('"mine"')), 'closed')
    assert.equal((await bench.row(id)).result, '"mine"')
  },

  async 'each refused write leaves evidence: which one, by whom, and how the job stood'(bench) {
    const { id, zombie, stale } = await takenOver(bench)
    const writes = ['start', 'renew', 'report', 'close'] as const
    for (const write of writes) await staleWrites(zombie, stale)[write]?.()
    const evidence = (await bench.store.events({ id })).filter((event) => event.kind === 'lost')
    assert.deepEqual(
      evidence.map(({ worker, attempt, data }) => ({ worker, attempt, data })),
      writes.map((write) => ({
        worker: zombie.id,
        attempt: stale.attempt,
        data: { write, status: 'processing', currentAttempt: stale.attempt + 1 },
      })),
    )
  },

  async 'a worker whose job was taken back and waits in the queue cannot close it'(bench) {
    const { id, lease, worker } = await bench.processing()
    await bench.expireLeases()
    await bench.reclaim(lease, requeued('reclaimed', lease))
    for (const [write, attempt] of Object.entries(staleWrites(worker, lease))) {
      await bench.changesNothing(id, `a stale ${write}`, async () => assert.equal(await attempt(), 'lost'))
    }
    assert.deepEqual((await bench.lastEvent(id)).data.status, 'queued')
  },

  async 'a close that is sent twice counts once'(bench) {
    const { id, lease, worker } = await bench.processing()
    assert.equal(await worker.close(lease, complete('"first"')), 'closed')
    await bench.changesNothing(id, 'the second close', async () =>
      assert.equal(await worker.close(lease, complete('"second"')), 'lost'),
    )
    const twice = await bench.processing()
    const change = requeued('retry', twice.lease)
    assert.equal(await twice.worker.close(twice.lease, change), 'closed')
    assert.equal(await twice.worker.close(twice.lease, change), 'lost')
    assert.equal((await bench.store.failures({ id: twice.id })).length, 1)
  },

  async 'closes of one attempt sent at the same moment by several processes count once'(bench) {
    const { id, lease, worker } = await bench.processing()
    const handles = await bench.openMany(5)
    const { key, attempt } = lease
    const closes = handles.map((store, i) =>
      store.close({ worker: worker.key, closes: [{ key, attempt, change: complete(`${i}`), ranMs: null }] }),
    )
    const answers = (await Promise.all(closes)).flat()
    assert.equal(answers.filter((answer) => answer === 'closed').length, 1)
    assert.equal((await bench.row(id)).result, String(answers.indexOf('closed')))
    assert.equal((await bench.kinds(id)).filter((kind) => kind === 'complete').length, 1)
  },

  async 'an attempt that nobody was given cannot be closed'(bench) {
    const { id, lease, worker } = await bench.processing()
    for (const attempt of [0, lease.attempt + 1, -1]) {
      await bench.changesNothing(id, `a close of attempt ${attempt}`, async () =>
        assert.equal(await worker.close({ ...lease, attempt }, complete()), 'lost'),
      )
    }
  },

  async 'of many closes in one call each is answered for itself, in their order'(bench) {
    const worker = await bench.worker()
    await bench.store.submit({ jobs: Array.from({ length: 4 }, () => bench.newJob()) })
    const { leases } = await worker.claim({ max: 4 })
    const [a, b, c, d] = leases as [Lease, Lease, Lease, Lease]
    const close = ({ key, attempt }: Lease, change: ReturnType<typeof complete>) => ({
      ...{ key, attempt, change, ranMs: 1 },
    })
    const answers = await bench.store.close({
      worker: worker.key,
      closes: [
        close(a, complete()),
        close({ ...b, attempt: 9 }, complete()),
        close(c, requeued('retry', c)),
        close(a, failed(a)),
        close(d, failed(d)),
      ],
    })
    assert.deepEqual(answers, ['closed', 'lost', 'closed', 'lost', 'closed'])
    const statuses = await Promise.all(leases.map(async ({ id }) => (await bench.row(id)).status))
    assert.deepEqual(statuses, ['complete', 'processing', 'queued', 'failed'])
  },

  async 'a worker whose job a person marked as failed cannot complete it'(bench) {
    const { id, lease, worker } = await bench.processing()
    assert.equal(await bench.intervene(id, markFailed(await bench.row(id))), 'done')
    await bench.changesNothing(id, 'a close', async () => assert.equal(await worker.close(lease, complete()), 'lost'))
    assert.equal((await bench.lastEvent(id)).kind, 'lost')
  },

  async 'a worker whose job was removed is answered with lost, and harms nobody'(bench) {
    const { lease, worker } = await bench.processing()
    await worker.close(lease, complete())
    await bench.clock.advance(1)
    const rule = { type: 'plain', completeMs: 0, failedMs: 0, cancelledMs: 0 }
    assert.equal((await bench.store.prune({ rules: [rule], after: 0, limit: 10 })).removed, 1)
    // A key that was given again would let the old attempt 1 close the new job's attempt 1.
    const next = await bench.processing()
    assert.notEqual(next.lease.key, lease.key)
    for (const [write, attempt] of Object.entries(staleWrites(worker, lease))) {
      await bench.changesNothing(next.id, `a stale ${write}`, async () => assert.equal(await attempt(), 'lost'))
    }
  },

  async 'the close at the last moment of a process stands at the same fence'(bench) {
    const { store } = bench
    if (store.closeNow === undefined) return
    const { id, zombie, stale, heir, fresh } = await takenOver(bench)
    const closeNow = (worker: BenchWorker, { key, attempt }: Lease) =>
      store.closeNow?.({ worker: worker.key, closes: [{ key, attempt, change: complete(), ranMs: 1 }] })
    await bench.changesNothing(id, 'a stale close', async () => assert.deepEqual(closeNow(zombie, stale), ['lost']))
    assert.deepEqual(closeNow(heir, fresh), ['closed'])
    assert.equal((await bench.row(id)).status, 'complete')
  },
})

/** A worker that fell silent, and the one that has its job now. */
async function takenOver(bench: Bench) {
  const { id, lease: stale, worker: zombie } = await bench.processing()
  await bench.expireLeases()
  assert.equal(await bench.reclaim(stale, requeued('reclaimed', stale)), 'closed')
  const heir = await bench.worker(await bench.open())
  const fresh = await heir.claimOne()
  assert.equal(fresh.id, id)
  return { id, zombie, stale, heir, fresh }
}

function staleWrites(zombie: BenchWorker, stale: Lease): Record<string, () => Promise<'held' | 'lost' | 'closed'>> {
  return {
    start: () => zombie.start(stale),
    renew: () => zombie.renew(stale),
    report: () => zombie.progress(stale, 0.9),
    close: () => zombie.close(stale, complete('"stale"'), 1),
    retry: () => zombie.close(stale, requeued('retry', stale), 1),
    failure: () => zombie.close(stale, failed(stale, { deadLetter: 'queue' }), 1),
  }
}
