import assert from 'node:assert/strict'
import { type PolicyInput, policy } from '../../../core/policy/policy.ts'
import type { Lease } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { TTL_MS } from '../bench/bench-worker.ts'
import { complete, requeued } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const METERED = [{ type: 'metered', ttlMs: TTL_MS }]

export const rates = topic('rates', {
  async 'a claim takes no more than the rate allows, however many processes claim at once'(bench) {
    await declare(bench, { max: 10, per: '1s', burst: 4 }, 50)
    const workers = await Promise.all((await bench.openMany(5)).map((handle) => bench.worker(handle)))
    const all = async () =>
      (await Promise.all(workers.map((worker) => worker.claim({ max: 10, lanes: METERED })))).flatMap(
        ({ leases }) => leases,
      )
    assert.equal((await all()).length, 4)
    assert.equal((await all()).length, 0)
    await bench.clock.advance(250)
    assert.equal((await all()).length, 2)
    await bench.clock.advance(50)
    assert.equal((await all()).length, 1)
    // Time without dispatches is saved up to the burst, and no further.
    await bench.clock.advance(60_000)
    assert.equal((await all()).length, 4)
  },

  async 'a claim that the rate holds up says when to ask again, to the millisecond'(bench) {
    await declare(bench, { max: 3, per: '1s', burst: 1 }, 20)
    const worker = await bench.worker()
    const beganMs = bench.clock.nowMs()
    const dispatchedMs: number[] = []
    for (let i = 0; i < 10; i++) {
      const { leases, nextDueAtMs } = await worker.claim({ max: 10, lanes: METERED })
      assert.equal(leases.length, 1)
      dispatchedMs.push(bench.clock.nowMs() - beganMs)
      assert(nextDueAtMs !== null)
      await bench.clock.advance(nextDueAtMs - bench.clock.nowMs() - 1)
      const early = await worker.claim({ max: 10, lanes: METERED })
      assert.deepEqual([early.leases.length, early.nextDueAtMs], [0, nextDueAtMs])
      await bench.clock.advance(1)
    }
    // Thirds of a second, each at the first whole millisecond after it: nothing drifts.
    assert.deepEqual(dispatchedMs, [0, 334, 667, 1000, 1334, 1667, 2000, 2334, 2667, 3000])
  },

  async 'a rate per key meters each key by itself'(bench) {
    await declare(bench, { max: 1, per: '10s', scope: 'key' }, 0)
    for (const limitKey of ['a', 'a', 'b', 'a', null, null]) await bench.submit({ type: 'metered', limitKey })
    const worker = await bench.worker()
    const first = await worker.claim({ max: 10, lanes: METERED })
    assert.deepEqual(await keysOf(bench, first.leases), ['a', 'b', null, null])
    assert.equal(first.nextDueAtMs, bench.clock.nowMs() + 10_000)
    await bench.clock.advance(10_000)
    const second = await worker.claim({ max: 10, lanes: METERED })
    assert.deepEqual(await keysOf(bench, second.leases), ['a'])
  },

  async 'keys that come and go leave nothing behind, and get nothing for it'(bench) {
    await declare(bench, { max: 1, per: '10s', burst: 2, scope: 'key' }, 0)
    const worker = await bench.worker()
    const claimed = async (limitKey: string): Promise<number> => {
      for (let i = 0; i < 3; i++) await bench.submit({ type: 'metered', limitKey })
      return (await worker.claim({ max: 10, lanes: METERED })).leases.length
    }
    const prune = () => bench.store.prune({ rules: [], after: 0, limit: 100 })
    assert.equal(await claimed('a'), 2)
    await prune()
    await bench.clock.advance(10_000)
    await prune()
    assert.equal(await claimed('a'), 1)
    await bench.clock.advance(20_000)
    await prune()
    assert.equal((await worker.claim({ max: 10, lanes: METERED })).leases.length, 2)
  },

  async 'every dispatch counts, a retry too, and what was given back unharmed is not given a second time for free'(
    bench,
  ) {
    await declare(bench, { max: 1, per: '1s', burst: 2 }, 2)
    const worker = await bench.worker()
    const { leases } = await worker.claim({ max: 2, lanes: METERED })
    for (const lease of leases) await worker.close(lease, requeued('retry', lease))
    assert.equal((await worker.claim({ max: 2, lanes: METERED })).leases.length, 0)
    await bench.clock.advance(1_000)
    assert.equal((await worker.claim({ max: 2, lanes: METERED })).leases.length, 1)
  },

  async 'with a limit on how many run at once, both hold'(bench) {
    await bench.declare('metered', policy({ orphan: 'requeue', concurrency: 2, rate: { max: 3, per: '1s' } }))
    await bench.store.submit({ jobs: Array.from({ length: 9 }, () => bench.newJob({ type: 'metered' })) })
    const worker = await bench.worker()
    const first = await worker.claim({ max: 9, lanes: METERED })
    // That a slot becomes free, no time can tell.
    assert.deepEqual([first.leases.length, first.nextDueAtMs], [2, null])
    for (const lease of first.leases) await worker.close(lease, complete())
    const second = await worker.claim({ max: 9, lanes: METERED })
    assert.deepEqual([second.leases.length, second.nextDueAtMs], [1, bench.clock.nowMs() + 334])
  },

  async 'a clock that is set back stops nothing for longer than the rate does'(bench) {
    await declare(bench, { max: 1, per: '1s' }, 9)
    const worker = await bench.worker()
    assert.equal((await worker.claim({ max: 9, lanes: METERED })).leases.length, 1)
    bench.clock.jump(-3_600_000)
    const { leases, nextDueAtMs } = await worker.claim({ max: 9, lanes: METERED })
    assert.equal(leases.length, 0)
    assert(nextDueAtMs !== null && nextDueAtMs - bench.clock.nowMs() <= 1_000)
    await bench.clock.advance(1_000)
    assert.equal((await worker.claim({ max: 9, lanes: METERED })).leases.length, 1)
  },

  async 'when the rate lets the next one go can be asked for'(bench) {
    await declare(bench, { max: 1, per: '1s' }, 2)
    const opens = async () => (await bench.store.load({ type: 'metered', limitKey: null })).rateOpensAtMs
    assert.equal(await opens(), null)
    await (await bench.worker()).claim({ max: 9, lanes: METERED })
    assert.equal(await opens(), bench.clock.nowMs() + 1_000)
  },
})

async function declare(bench: Bench, rate: NonNullable<PolicyInput['rate']>, jobs: number): Promise<void> {
  await bench.declare('metered', policy({ orphan: 'requeue', retry: { max: 3 }, rate }))
  await bench.store.submit({ jobs: Array.from({ length: jobs }, () => bench.newJob({ type: 'metered' })) })
}

const keysOf = (bench: Bench, leases: readonly Lease[]): Promise<(string | null)[]> =>
  Promise.all(leases.map(async ({ id }) => (await bench.row(id)).limitKey))
