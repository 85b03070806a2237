import assert from 'node:assert/strict'
import type { TypeDepth } from '../../contract/queues.ts'
import type { Bench } from '../bench/bench.ts'
import { complete, requeued } from '../bench/changes.ts'
import { topic } from '../promise.ts'

async function depthOf(bench: Bench, type = 'plain'): Promise<TypeDepth | undefined> {
  return (await bench.store.depths()).find((depth) => depth.type === type)
}

const NONE = { type: 'plain', queue: 'default', ready: 0, waiting: 0, active: 0, orphaned: 0 }

export const depths = topic('depths', {
  async 'every declared type has a line, also one without jobs'(bench) {
    assert.deepEqual(await depthOf(bench), NONE)
    assert.deepEqual(await depthOf(bench, 'other'), { ...NONE, type: 'other', queue: 'side' })
  },

  async 'what is ready, what waits and what is under way are told apart'(bench) {
    await bench.submit()
    await bench.submit()
    await bench.submit({ delayMs: 1_000 })
    await bench.submit({ type: 'other' })
    assert.deepEqual(await depthOf(bench), { ...NONE, ready: 2, waiting: 1 })
    const worker = await bench.worker()
    await worker.claimOne([{ type: 'plain', ttlMs: 1_000 }])
    assert.deepEqual(await depthOf(bench), { ...NONE, ready: 1, waiting: 1, active: 1 })
    assert.equal((await depthOf(bench, 'other'))?.ready, 1)
  },

  async 'what has become due is ready, whether or not anybody has looked for work since'(bench) {
    await bench.submit({ delayMs: 1_000 })
    await bench.clock.advance(1_000)
    assert.deepEqual(await depthOf(bench), { ...NONE, ready: 1 })
  },

  async 'what has ended is not counted, and what goes back is counted again'(bench) {
    await bench.finished('complete')
    await bench.finished('failed')
    await bench.finished('cancelled')
    assert.deepEqual(await depthOf(bench), NONE)
    const { lease, worker } = await bench.processing()
    await worker.close(lease, requeued('retry', lease, { delayMs: 50 }))
    assert.deepEqual(await depthOf(bench), { ...NONE, waiting: 1 })
  },

  async 'an orphan that was reported is under way and counted as one; its end ends both'(bench) {
    const { lease, worker } = await bench.processing()
    await bench.expireLeases()
    await bench.reclaim(lease, { to: 'orphaned' })
    assert.deepEqual(await depthOf(bench), { ...NONE, active: 1, orphaned: 1 })
    await worker.close(lease, complete())
    assert.deepEqual(await depthOf(bench), NONE)
  },
})
