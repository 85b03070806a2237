import assert from 'node:assert/strict'
import { singletonLimitKey } from '../../../core/limits/singleton.ts'
import { policy } from '../../../core/policy/policy.ts'
import type { Bench } from '../bench/bench.ts'
import { TTL_MS } from '../bench/bench-worker.ts'
import { complete, requeued } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const alone = (key: string | null = null) => ({ limitKey: singletonLimitKey(key) })

export const singletons = topic('singletons', {
  async 'one job of a singleton runs at a time, however many processes claim'(bench) {
    const handles = await bench.openMany(4)
    const workers = await Promise.all(handles.map((handle) => bench.worker(handle)))
    // Every process has claimed before, and knows the type as one without limits.
    await bench.submit()
    for (const worker of workers)
      for (const lease of (await worker.claim()).leases) await worker.close(lease, complete())
    await bench.store.enforceSingletons({ type: 'plain' })
    for (let i = 0; i < 10; i++) await bench.submit(alone())
    let ended = 0
    for (let round = 0; round < 10; round++) {
      const claims = await Promise.all(workers.map((worker) => worker.claim({ max: 5 })))
      const leases = claims.flatMap(({ leases: own }, i) => own.map((lease) => ({ lease, worker: workers[i] })))
      assert.equal(leases.length, 1)
      const [first] = leases
      assert(first?.worker !== undefined)
      const again = await Promise.all(workers.map((worker) => worker.claim({ max: 5 })))
      assert.deepEqual(
        again.flatMap(({ leases: own }) => own),
        [],
      )
      await first.worker.close(first.lease, complete())
      ended++
    }
    assert.equal(ended, 10)
    await bench.checkAll()
  },

  async 'one claim of many jobs takes one of each singleton key, and all jobs without one'(bench) {
    await bench.store.enforceSingletons({ type: 'plain' })
    const ids: string[] = []
    for (const key of ['a', 'a', 'b', 'b', null, null]) ids.push(await bench.submit(alone(key)))
    ids.push(await bench.submit(), await bench.submit())
    const worker = await bench.worker()
    const { leases } = await worker.claim({ max: 20 })
    const taken = leases.map(({ id }) => ids.indexOf(id)).toSorted((a, b) => a - b)
    assert.deepEqual(taken, [0, 2, 4, 6, 7])
  },

  async 'singletons of one type do not hold up those of another'(bench) {
    for (const type of ['plain', 'other']) {
      await bench.store.enforceSingletons({ type })
      await bench.submit({ type, ...alone() })
    }
    const worker = await bench.worker()
    const lanes = ['plain', 'other'].map((type) => ({ type, ttlMs: TTL_MS }))
    assert.equal((await worker.claim({ max: 10, lanes })).leases.length, 2)
  },

  async 'a singleton that waits for its retry lets the next one run'(bench) {
    await bench.store.enforceSingletons({ type: 'plain' })
    await bench.submit(alone())
    const second = await bench.submit(alone())
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    await worker.close(lease, requeued('retry', lease, { delayMs: 1_000 }))
    assert.equal((await worker.claimOne()).id, second)
    await bench.clock.advance(1_000)
    assert.deepEqual((await worker.claim({ max: 10 })).leases, [])
  },

  async 'many blocked singletons in front do not starve other jobs'(bench) {
    // Submitted before the type had singletons: it has no limit key yet.
    const low = await bench.submit({ priority: -1 })
    await bench.store.enforceSingletons({ type: 'plain' })
    const jobs = Array.from({ length: 500 }, () => bench.newJob(alone()))
    await bench.store.submit({ jobs })
    const last = await bench.submit({ priority: -2 })
    const worker = await bench.worker()
    const { leases } = await worker.claim({ max: 10 })
    assert.equal(leases.length, 3)
    const ids = leases.map(({ id }) => id)
    assert.ok(ids.includes(low) && ids.includes(last))
  },

  async 'the limits of the policy hold for singletons, too'(bench) {
    await bench.declare('bounded', policy({ concurrency: { max: 2, perKey: 2 } }))
    await bench.store.enforceSingletons({ type: 'bounded' })
    for (const key of ['a', 'b', 'c']) await submitTwice(bench, key)
    const worker = await bench.worker()
    const lanes = [{ type: 'bounded', ttlMs: TTL_MS }]
    assert.equal((await worker.claim({ max: 10, lanes })).leases.length, 2)
  },

  async 'enforcing singletons is idempotent and does nothing for an undeclared type'(bench) {
    assert.equal(await bench.store.enforceSingletons({ type: 'nothing of that name' }), false)
    const enforce = (await bench.openMany(3)).map((handle) => handle.enforceSingletons({ type: 'plain' }))
    assert.deepEqual(await Promise.all(enforce), [true, true, true])
    await bench.declare('plain', policy({ retry: { max: 2 } }))
    await bench.submit(alone())
    await bench.submit(alone())
    const worker = await bench.worker()
    assert.equal((await worker.claim({ max: 10 })).leases.length, 1)
  },
})

async function submitTwice(bench: Bench, key: string): Promise<void> {
  for (let i = 0; i < 2; i++) await bench.submit({ type: 'bounded', ...alone(key) })
}
