import assert from 'node:assert/strict'
import { type PolicyInput, policy } from '../../../core/policy/policy.ts'
import type { Lease, Store } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { type BenchWorker, TTL_MS } from '../bench/bench-worker.ts'
import { cancelled, complete, failed, markFailed, requeued } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const LIMITED = [{ type: 'limited', ttlMs: TTL_MS }]

export const limits = topic('limits', {
  async 'a type never runs more jobs than its concurrency limit, however many processes claim [E1]'(bench) {
    await declare(bench, { concurrency: 3 })
    await bench.store.submit({ jobs: Array.from({ length: 20 }, () => bench.newJob({ type: 'limited' })) })
    const workers = await Promise.all((await bench.openMany(5)).map((handle) => bench.worker(handle)))
    const claims = await Promise.all(workers.map((worker) => worker.claim({ max: 10, lanes: LIMITED })))
    assert.equal(claims.flatMap(({ leases }) => leases).length, 3)
    assert.equal(await underWay(bench.store), 3)
  },

  async 'what ends lets exactly as many begin, whatever became of it'(bench) {
    await declare(bench, { concurrency: 4 })
    await bench.store.submit({ jobs: Array.from({ length: 20 }, () => bench.newJob({ type: 'limited' })) })
    const worker = await bench.worker()
    const [first, second, third, fourth] = await claim(worker, 10)
    assert(first !== undefined && second !== undefined && third !== undefined && fourth !== undefined)
    await worker.close(first, complete())
    await worker.close(second, failed(second))
    await worker.close(third, cancelled())
    assert.equal((await claim(worker, 10)).length, 3)
    await worker.close(fourth, requeued('snoozed', fourth, { delayMs: 60_000 }))
    assert.equal((await claim(worker, 10)).length, 1)
    assert.equal((await claim(worker, 10)).length, 0)
  },

  async 'a job whose worker is gone is under way until it is taken back or ended'(bench) {
    await declare(bench, { concurrency: 2 })
    await bench.store.submit({ jobs: Array.from({ length: 9 }, () => bench.newJob({ type: 'limited' })) })
    const worker = await bench.worker()
    const [one, other] = await claim(worker, 9)
    assert(one !== undefined && other !== undefined)
    await bench.expireLeases()
    assert.equal((await claim(worker, 9)).length, 0)
    assert.equal(await bench.reclaim(one, requeued('reclaimed', one)), 'closed')
    assert.equal((await claim(worker, 9)).length, 1)
    // Reported as an orphan: what it was doing may still go on, and a person decides.
    assert.equal(await bench.reclaim(other, { to: 'orphaned' }), 'closed')
    assert.equal((await claim(worker, 9)).length, 0)
    assert.equal(await bench.intervene(other.id, markFailed(await bench.row(other.id))), 'done')
    assert.equal((await claim(worker, 9)).length, 1)
  },

  async 'jobs with one key share the limit of that key and the limit of their type [E24]'(bench) {
    await declare(bench, { concurrency: { max: 3, perKey: 1 } })
    for (const limitKey of ['a', 'a', 'b', 'a', 'c', 'd']) await bench.submit({ type: 'limited', limitKey })
    const worker = await bench.worker()
    const first = await claim(worker, 10)
    assert.deepEqual(await keysOf(bench, first), ['a', 'b', 'c'])
    await worker.close(first[1] as Lease, complete())
    assert.deepEqual(await keysOf(bench, await claim(worker, 10)), ['d'])
    await worker.close(first[0] as Lease, complete())
    assert.deepEqual(await keysOf(bench, await claim(worker, 10)), ['a'])
  },

  async 'a key that is used up blocks nobody behind it, and keeps its place'(bench) {
    await declare(bench, { concurrency: { perKey: 2 } })
    const hot = Array.from({ length: 1_500 }, () => bench.newJob({ type: 'limited', limitKey: 'hot' }))
    await bench.store.submit({ jobs: hot })
    await bench.clock.advance(1)
    for (const limitKey of ['z', 'm', 'z', 'z']) await bench.submit({ type: 'limited', limitKey })
    const worker = await bench.worker()
    const leases = await claim(worker, 10)
    assert.deepEqual(await keysOf(bench, leases), ['hot', 'hot', 'z', 'm', 'z'])
    assert.deepEqual(
      leases.slice(0, 2).map(({ id }) => id),
      hot.slice(0, 2).map(({ id }) => id),
    )
    await worker.close(leases[1] as Lease, complete())
    assert.deepEqual(
      (await claim(worker, 10)).map(({ id }) => id),
      hot.slice(2, 3).map(({ id }) => id),
    )
  },

  async 'behind a key that is used up, the order is still priority and then queue time'(bench) {
    await declare(bench, { concurrency: { perKey: 2 } })
    const worker = await bench.worker()
    await bench.store.submit({
      jobs: Array.from({ length: 500 }, () => bench.newJob({ type: 'limited', limitKey: 'hot', priority: 9 })),
    })
    await claim(worker, 2)
    const turns: [limitKey: string, priority: number][] = [
      ['k1', 0],
      ['k2', 5],
      ['k1', 5],
      ['k3', 0],
      ['k2', 5],
      ['k2', 7],
      ['k1', 0],
    ]
    const ids: string[] = []
    for (const [limitKey, priority] of turns) {
      ids.push(await bench.submit({ type: 'limited', limitKey, priority }))
      await bench.clock.advance(1)
    }
    const order = [5, 1, 2, 0, 3].map((i) => ids[i])
    assert.deepEqual(
      (await claim(worker, 10)).map(({ id }) => id),
      order,
    )
  },

  async 'a delayed job of a limited type waits for its time first and then for a free slot [W17 E4]'(bench) {
    await declare(bench, { concurrency: { perKey: 1 } })
    const delayed = await bench.submit({ type: 'limited', limitKey: 'a', delayMs: 1_000, priority: 3 })
    const now = await bench.submit({ type: 'limited', limitKey: 'a' })
    const worker = await bench.worker()
    const [lease] = await claim(worker, 10)
    assert.equal(lease?.id, now)
    await bench.clock.advance(1_000)
    assert.deepEqual(await claim(worker, 10), [])
    await worker.close(lease, complete())
    assert.deepEqual(
      (await claim(worker, 10)).map(({ id }) => id),
      [delayed],
    )
  },

  async 'a job without a key counts for its type alone'(bench) {
    await declare(bench, { concurrency: { max: 4, perKey: 1 } })
    for (const limitKey of [null, 'a', null, 'a', null, null]) await bench.submit({ type: 'limited', limitKey })
    const leases = await claim(await bench.worker(), 10)
    assert.deepEqual(await keysOf(bench, leases), [null, 'a', null, null])
  },

  async 'a limited type takes nothing from the others, and does not hold them up'(bench) {
    await declare(bench, { concurrency: 1 })
    for (let i = 0; i < 5; i++) await bench.submit({ type: 'limited', priority: 9 })
    for (let i = 0; i < 5; i++) await bench.submit()
    const { leases } = await (await bench.worker()).claim({ max: 4, lanes: [...LIMITED, PLAIN] })
    assert.deepEqual(
      leases.map(({ type }) => type),
      ['limited', 'plain', 'plain', 'plain'],
    )
  },

  async 'when a type gets a limit, the jobs that are there already count'(bench) {
    await bench.declare('limited', policy({ orphan: 'requeue' }))
    await bench.store.submit({ jobs: Array.from({ length: 9 }, () => bench.newJob({ type: 'limited' })) })
    await bench.submit({ type: 'limited', delayMs: 1_000 })
    const worker = await bench.worker()
    const [one, other] = await claim(worker, 2)
    assert(one !== undefined && other !== undefined)
    await declare(bench, { concurrency: 3 })
    assert.equal((await claim(worker, 9)).length, 1)
    await worker.close(one, complete())
    await worker.close(other, complete())
    await bench.clock.advance(1_000)
    assert.equal((await claim(worker, 9)).length, 2)
    assert.equal(await underWay(bench.store), 3)
  },

  async 'a limit binds every process from the moment one declares it, and so does its end'(bench) {
    const [, other] = await bench.openMany(2)
    assert(other !== undefined)
    await bench.declare('limited', policy({ orphan: 'requeue' }))
    const worker = await bench.worker(other)
    await bench.submit({ type: 'limited' }, other)
    assert.equal((await claim(worker, 9)).length, 1)
    await declare(bench, { concurrency: 2 })
    await other.submit({ jobs: Array.from({ length: 9 }, () => bench.newJob({ type: 'limited' })) })
    assert.equal((await claim(worker, 9)).length, 1)
    await declare(bench, {})
    assert.equal((await claim(worker, 9)).length, 8)
  },

  async 'a limit that was lowered lets nothing begin until enough has ended'(bench) {
    await declare(bench, { concurrency: 4 })
    await bench.store.submit({ jobs: Array.from({ length: 9 }, () => bench.newJob({ type: 'limited' })) })
    const worker = await bench.worker()
    const leases = await claim(worker, 9)
    await declare(bench, { concurrency: 2 })
    const opened: number[] = []
    for (const lease of leases.slice(0, 3)) {
      await worker.close(lease, complete())
      opened.push((await claim(worker, 9)).length)
    }
    assert.deepEqual(opened, [0, 0, 1])
  },

  async 'what is under way can be asked for'(bench) {
    await declare(bench, { concurrency: { max: 5, perKey: 2 } })
    for (const limitKey of ['a', 'a', 'b', null]) await bench.submit({ type: 'limited', limitKey })
    const [lease] = await claim(await bench.worker(), 10)
    assert(lease !== undefined)
    const load = await bench.store.load({ type: 'limited', limitKey: 'a' })
    assert.deepEqual(load, { underWay: 4, underWayOfKey: 2, orphaned: 0, rateOpensAtMs: null })
    await bench.expireLeases()
    await bench.reclaim(lease, { to: 'orphaned' })
    assert.equal((await bench.store.load({ type: 'limited', limitKey: null })).orphaned, 1)
  },
})

const PLAIN = { type: 'plain', ttlMs: TTL_MS }

const declare = (bench: Bench, parts: PolicyInput) => bench.declare('limited', policy({ orphan: 'requeue', ...parts }))

const claim = async (worker: BenchWorker, max: number): Promise<Lease[]> =>
  (await worker.claim({ max, lanes: LIMITED })).leases

const underWay = async (store: Store): Promise<number> =>
  (await store.load({ type: 'limited', limitKey: null })).underWay

const keysOf = (bench: Bench, leases: readonly Lease[]): Promise<(string | null)[]> =>
  Promise.all(leases.map(async ({ id }) => (await bench.row(id)).limitKey))
