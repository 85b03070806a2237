import assert from 'node:assert/strict'
import type { RetryBudgetPolicy } from '../../../core/policy/flow.ts'
import { policy } from '../../../core/policy/policy.ts'
import type { Lease } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { type BenchWorker, TTL_MS } from '../bench/bench-worker.ts'
import { requeued } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const STORMY = [{ type: 'stormy', ttlMs: TTL_MS }]
/** Six at once, and then one in ten seconds. */
const SPARSE = { ratio: 0, perMinute: 6 }

export const retryBudget = topic('retry budget', {
  async 'a retry over the budget waits longer, and its event says why and until when'(bench) {
    const { worker, leases } = await claimed(bench, SPARSE, 9)
    for (const lease of leases) await retry(worker, lease, SPARSE)
    const addedMs: number[] = []
    for (const { id } of leases) {
      const { dueAtMs } = await bench.row(id)
      const { kind, data } = await bench.lastEvent(id)
      assert.deepEqual([kind, data.dueAtMs], ['retry', dueAtMs])
      addedMs.push(Number(dueAtMs) - bench.clock.nowMs() - 1_000)
      assert.equal(data.reason !== undefined, addedMs.at(-1) !== 0)
    }
    assert.deepEqual(addedMs, [0, 0, 0, 0, 0, 0, 10_000, 20_000, 30_000])
    const { data } = await bench.lastEvent(leases[8]?.id ?? '')
    assert.equal(data.reason, 'the retry budget of stormy is used up: 30 s added')
    await bench.checkAll()
  },

  async 'the budget is one for all processes, and fills with time'(bench) {
    const { leases, worker } = await claimed(bench, SPARSE, 9)
    const [, otherStore] = await bench.openMany(2)
    for (const lease of leases.slice(0, 6)) await retry(worker, lease, SPARSE)
    await bench.clock.advance(10_000)
    const [seventh, eighth] = leases.slice(6)
    assert(seventh !== undefined && eighth !== undefined)
    const change = { ...requeued('retry', seventh), budget: { type: 'stormy', ...SPARSE } }
    await otherStore?.close({ worker: worker.key, closes: [{ ...seventh, change, ranMs: null }] })
    assert.equal((await bench.row(seventh.id)).dueAtMs, null)
    await retry(worker, eighth, SPARSE)
    assert.equal((await bench.row(eighth.id)).dueAtMs, bench.clock.nowMs() + 1_000 + 10_000)
  },

  async 'first dispatches pay for retries, and later ones do not'(bench) {
    const budget = { ratio: 0.5, perMinute: 2 }
    const { leases, worker } = await claimed(bench, budget, 4)
    for (const lease of leases) await retry(worker, lease, budget)
    // Two were covered, two are owed. Two first dispatches repay one of them; dispatches of retries none.
    await bench.store.submit({ jobs: Array.from({ length: 3 }, () => bench.newJob({ type: 'stormy' })) })
    const { leases: firsts } = await worker.claim({ max: 2, lanes: STORMY })
    assert.equal(firsts.length, 2)
    const [next] = firsts
    assert(next !== undefined)
    await retry(worker, next, budget)
    assert.equal((await bench.row(next.id)).dueAtMs, bench.clock.nowMs() + 1_000 + 60_000)
  },

  async 'the dispatch of a retry pays nothing into the budget'(bench) {
    const budget = { ratio: 0.5, perMinute: 2 }
    const { leases, worker } = await claimed(bench, budget, 4)
    for (const lease of leases) await retry(worker, lease, budget)
    await bench.clock.advance(1_000)
    const { leases: again } = await worker.claim({ max: 4, lanes: STORMY })
    assert.deepEqual(
      again.map(({ attempt }) => attempt),
      [2, 2],
    )
    const [next] = again
    assert(next !== undefined)
    await retry(worker, next, budget)
    // Two were owed before, and one second has passed.
    assert.equal((await bench.row(next.id)).dueAtMs, bench.clock.nowMs() + 1_000 + 89_000)
  },

  async 'retries that are recorded in one call pay one after the other'(bench) {
    const { worker, leases } = await claimed(bench, SPARSE, 9)
    const change = (lease: Lease) => ({
      ...requeued('retry', lease, { delayMs: 1_000 }),
      budget: { type: 'stormy', ...SPARSE },
    })
    const closes = leases.map((lease) => ({ ...lease, change: change(lease), ranMs: null }))
    await bench.store.close({ worker: worker.key, closes })
    assert.deepEqual(await addedOf(bench, leases), [0, 0, 0, 0, 0, 0, 10_000, 20_000, 30_000])
  },

  async 'processes that record retries at the same moment pay from one budget'(bench) {
    const { worker, leases } = await claimed(bench, SPARSE, 9)
    const handles = await bench.openMany(3)
    const close = (lease: Lease, i: number) => {
      const change = { ...requeued('retry', lease, { delayMs: 1_000 }), budget: { type: 'stormy', ...SPARSE } }
      return handles[i % 3]?.close({ worker: worker.key, closes: [{ ...lease, change, ranMs: null }] })
    }
    await Promise.all(leases.map(close))
    assert.deepEqual(await addedOf(bench, leases), [0, 0, 0, 0, 0, 0, 10_000, 20_000, 30_000])
  },

  async 'a write that came too late costs the budget nothing'(bench) {
    const { leases, worker } = await claimed(bench, { ratio: 0, perMinute: 1 }, 2)
    const [late, good] = leases
    assert(late !== undefined && good !== undefined)
    await worker.close(late, requeued('released', late))
    assert.equal(await retry(worker, late, { ratio: 0, perMinute: 1 }), 'lost')
    await retry(worker, good, { ratio: 0, perMinute: 1 })
    assert.equal((await bench.row(good.id)).dueAtMs, bench.clock.nowMs() + 1_000)
  },
})

async function claimed(bench: Bench, budget: RetryBudgetPolicy, count: number) {
  await bench.declare('stormy', policy({ retry: { max: 9, unknown: 'transient', budget }, orphan: 'requeue' }))
  await bench.store.submit({ jobs: Array.from({ length: count }, () => bench.newJob({ type: 'stormy' })) })
  const worker = await bench.worker()
  const { leases } = await worker.claim({ max: count, lanes: STORMY })
  assert.equal(leases.length, count)
  return { worker, leases }
}

const retry = (worker: BenchWorker, lease: Lease, budget: RetryBudgetPolicy) =>
  worker.close(lease, { ...requeued('retry', lease, { delayMs: 1_000 }), budget: { type: 'stormy', ...budget } })

/** How much longer each of these jobs waits than it would within the budget, the shortest first. */
async function addedOf(bench: Bench, leases: readonly Lease[]): Promise<number[]> {
  const rows = await Promise.all(leases.map(({ id }) => bench.row(id)))
  return rows.map(({ dueAtMs }) => Number(dueAtMs) - bench.clock.nowMs() - 1_000).toSorted((a, b) => a - b)
}
