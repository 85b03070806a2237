import assert from 'node:assert/strict'
import { counts, DAY_MS, endAll, kinds, ON_SETTLED, opened, outcomes, refused, row } from '../bench/batch-bench.ts'
import type { Bench } from '../bench/bench.ts'
import { retryInPlace } from '../bench/changes.ts'
import { topic } from '../promise.ts'

export const batchEndings = topic('batches', {
  async 'a settled batch expires at its time, and is read so before anybody wrote it down'(bench) {
    const id = await opened(bench, 1, { expiresInMs: DAY_MS })
    await endAll(bench, ['complete'])
    await bench.clock.advance(DAY_MS - 1)
    assert.equal(await bench.store.expireBatches({ limit: 10 }), 0)
    assert.equal((await row(bench, id)).state, 'complete')
    assert.equal(await bench.store.nextBatchExpiryMs(), bench.clock.nowMs() + 1)
    await bench.clock.advance(1)
    const ids = async (state: 'expired' | 'complete') =>
      (await bench.store.batches({ state, limit: 10 })).map((batch) => batch.id)
    for (const [when, written] of [
      ['unwritten', 1],
      ['written', 0],
    ] as const) {
      assert.deepEqual(
        [(await row(bench, id)).state, await ids('expired'), await ids('complete')],
        ['expired', [id], []],
        when,
      )
      assert.equal(await bench.store.expireBatches({ limit: 10 }), written)
    }
    assert.deepEqual(await kinds(bench, id), ['settled', 'expired'])
    assert.equal(await bench.store.nextBatchExpiryMs(), null)
  },

  async 'a retry in an expired batch runs, is counted, and does not bring the batch back'(bench) {
    for (const isWritten of [true, false]) {
      const id = await opened(bench, 1, { expiresInMs: DAY_MS, onSettled: ON_SETTLED })
      const [broken = ''] = await endAll(bench, ['failed'])
      await bench.clock.advance(DAY_MS)
      if (isWritten) await bench.store.expireBatches({ limit: 10 })
      await bench.intervene(broken, retryInPlace(await bench.row(broken)))
      assert.equal((await row(bench, id)).state, 'expired')
      assert.deepEqual(await counts(bench, id), { total: 1, unfinished: 1 })
      await endAll(bench, ['complete'])
      assert.deepEqual(await counts(bench, id), { total: 1, complete: 1 })
      assert.equal((await row(bench, id)).state, 'expired')
      assert.deepEqual(await kinds(bench, id), ['settled', 'expired'], `written down: ${isWritten}`)
      assert.equal((await outcomes(bench, id)).length, 1)
    }
  },

  async 'a batch that is still open at its expiry settles first, and then expires'(bench) {
    const sealed = await opened(bench, 1, { expiresInMs: DAY_MS, onSettled: ON_SETTLED })
    const open = await opened(bench, 0, { expiresInMs: DAY_MS, isSealed: false })
    await bench.clock.advance(DAY_MS)
    await refused('BATCH_CLOSED', bench.submit({ batch: open }))
    assert.equal(await bench.store.expireBatches({ limit: 10 }), 1)
    assert.deepEqual(await kinds(bench, open), ['settled', 'expired'])
    assert.deepEqual([(await row(bench, sealed)).state, await kinds(bench, sealed)], ['open', []])
    await endAll(bench, ['failed'])
    assert.equal((await row(bench, sealed)).state, 'expired')
    const [settled, expired] = await bench.store.batchEvents({ id: sealed })
    assert.deepEqual(
      [settled?.kind, settled?.data.state, expired?.kind, expired?.data.state],
      ['settled', 'failed', 'expired', 'expired'],
    )
    assert.equal((await outcomes(bench, sealed)).at(0)?.state, 'failed')
  },

  async 'several processes that expire batches at once expire each of them once'(bench) {
    const ids: string[] = []
    for (let i = 0; i < 10; i++) ids.push(await opened(bench, 0, { expiresInMs: DAY_MS }))
    await bench.clock.advance(DAY_MS)
    const handles = await bench.openMany(3)
    const done = await Promise.all(handles.map((handle) => handle.expireBatches({ limit: 100 })))
    assert.equal(
      done.reduce((sum, number) => sum + number),
      ids.length,
    )
    for (const id of ids) assert.deepEqual(await kinds(bench, id), ['settled', 'expired'])
  },

  async 'finished jobs are kept until their batch is settled; the batch goes with the last of them'(bench) {
    const id = await opened(bench, 2)
    const empty = await opened(bench, 0)
    await endAll(bench, ['complete'])
    await bench.clock.advance(DAY_MS)
    assert.equal(await prune(bench), 0, 'a job of a batch that is not settled was removed')
    await endAll(bench, ['failed'])
    assert.equal(await prune(bench, { failedMs: DAY_MS }), 1)
    assert.deepEqual(await counts(bench, id), { total: 2, complete: 1, failed: 1 })
    // The one that is left may be retried, and the counts still hold.
    const [left] = await bench.store.jobs({ batch: id, limit: 2 })
    assert(left !== undefined)
    await bench.intervene(left.id, retryInPlace(left))
    await endAll(bench, ['complete'])
    assert.deepEqual(await counts(bench, id), { total: 2, complete: 2 })
    await bench.clock.advance(1)
    assert.equal(await prune(bench), 1)
    assert.equal(await bench.store.batch({ id }), null)
    assert.notEqual(await bench.store.batch({ id: empty }), null)
    await bench.clock.advance(30 * DAY_MS)
    await prune(bench)
    assert.equal(await bench.store.batch({ id: empty }), null, 'an empty batch is kept for ever')
  },
})

async function prune(bench: Bench, { failedMs = 0 }: { failedMs?: number } = {}): Promise<number> {
  const rule = { type: 'plain', completeMs: 0, failedMs, cancelledMs: 0, deadLettersMs: null }
  return (await bench.store.prune({ rules: [rule], after: 0, limit: 100 })).removed
}
