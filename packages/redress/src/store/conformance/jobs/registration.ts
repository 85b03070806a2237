import assert from 'node:assert/strict'
import { policy } from '../../../core/policy/policy.ts'
import { TYPES } from '../bench/bench-types.ts'
import { complete, requeued } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const strict = policy({ forwardOnly: true, locked: true, cancel: false, reject: 'record' })

export const registration = topic('registration', {
  async 'a type declared by one process can be used by another that was there before'(bench) {
    const other = await bench.open()
    await assert.rejects(bench.submit({ type: 'new' }, other), { code: 'TYPE_UNKNOWN' })
    await bench.declare('new', policy({ retry: { max: 2 } }))
    const id = await bench.submit({ type: 'new' }, other)
    assert.equal((await bench.row(id, other)).policy.retry.max, 2)
    const worker = await bench.worker(other)
    assert.equal((await worker.claimOne([{ type: 'new', ttlMs: 1_000 }])).id, id)
  },

  async 'declaring a type again renews its policy and queue, and keeps its jobs'(bench) {
    const id = await bench.submit()
    await bench.clock.advance(1_000)
    const renewed = policy({ retry: { max: 9 } })
    await bench.store.register({ types: [{ name: 'plain', queue: 'fast', policy: renewed }] })
    const type = (await bench.store.types()).find(({ name }) => name === 'plain')
    const registeredAtMs = bench.clock.nowMs()
    assert.deepEqual(type, { name: 'plain', queue: 'fast', policy: renewed, registeredAtMs })
    const row = await bench.row(id)
    assert.deepEqual([row.queue, row.policy], ['fast', renewed])
  },

  async 'a stored policy equals its declaration, even if only orphan.stuckAfter changed'(bench) {
    for (const stuckAfter of ['30m', '10m', null] as const) {
      const declared = policy({ orphan: { action: 'requeue', stuckAfter } })
      await bench.declare('hanging', declared)
      const type = (await bench.store.types()).find(({ name }) => name === 'hanging')
      assert.deepEqual(type?.policy, declared)
    }
  },

  async 'declaring a type as it is changes nothing'(bench) {
    const before = await bench.store.types()
    await bench.clock.advance(1_000)
    await bench.store.register({ types: TYPES })
    assert.deepEqual(await bench.store.types(), before)
  },

  async 'a policy renewed by one process is what every process reads and submits under'(bench) {
    const other = await bench.open()
    const before = await bench.submit({}, other)
    await bench.declare('plain', strict)
    assert.deepEqual((await bench.row(before, other)).policy, strict)
    const after = await bench.submit({}, other)
    assert.equal((await bench.row(after)).isForwardOnly, true, 'the new job may go back, which its policy forbids')
  },

  async 'a job keeps the direction it was submitted with'(bench) {
    await bench.declare('turning', policy({ forwardOnly: true }))
    const { id, lease, worker } = await bench.processing({ type: 'turning' })
    await bench.declare('turning', policy({ retry: { max: 3 } }))
    await bench.changesNothingOrIsRefused(id, 'a retry', () => worker.close(lease, requeued('retry', lease)))
    assert.equal(await worker.close(lease, complete()), 'closed')
  },

  async 'a locked policy cannot be weakened, by any process'(bench) {
    await bench.declare('locked', strict)
    const other = await bench.open()
    const before = await bench.store.types()
    const weaker = [
      policy({ ...strict, locked: false }),
      policy({ ...strict, forwardOnly: false }),
      policy({ ...strict, cancel: true }),
      policy({ ...strict, retention: { ...strict.retention, completeMs: 1_000 } }),
    ]
    for (const store of [bench.store, other]) {
      for (const next of weaker) {
        await assert.rejects(bench.declare('locked', next, store), { code: 'POLICY_LOCKED' })
      }
    }
    assert.deepEqual(await bench.store.types(), before)
  },

  async 'a declaration that is refused declares nothing at all'(bench) {
    await bench.declare('locked', strict)
    const types = [
      { name: 'innocent', queue: 'default', policy: policy() },
      { name: 'locked', queue: 'default', policy: policy() },
    ]
    await assert.rejects(bench.store.register({ types }), { code: 'POLICY_LOCKED' })
    await assert.rejects(bench.submit({ type: 'innocent' }), { code: 'TYPE_UNKNOWN' })
  },

  async 'a locked policy may be made stricter'(bench) {
    await bench.declare('locked', policy({ ...strict, cancel: true }))
    await bench.declare('locked', strict)
    assert.deepEqual((await bench.store.types()).find(({ name }) => name === 'locked')?.policy, strict)
  },

  async 'a worker is listed, seen when it renews, and stopped when dismissed'(bench) {
    const enlistedAtMs = bench.clock.nowMs()
    const worker = await bench.worker()
    const [listed] = await bench.store.workers()
    const { id } = worker
    assert.deepEqual(listed, {
      ...{ id, host: 'bench', pid: 1, types: [], startedAtMs: enlistedAtMs, seenAtMs: enlistedAtMs },
      stoppedAtMs: null,
    })
    await bench.clock.advance(5_000)
    await bench.store.renew({ worker: worker.key, leases: [] })
    assert.equal((await bench.store.workers())[0]?.seenAtMs, enlistedAtMs + 5_000)
    await bench.clock.advance(5_000)
    await bench.store.dismiss({ worker: worker.key })
    assert.equal((await bench.store.workers())[0]?.stoppedAtMs, enlistedAtMs + 10_000)
  },

  async 'what a worker runs is known while it is enlisted, and is renewed when it comes back'(bench) {
    const enlist = (types: string[]) => bench.store.enlist({ id: 'steady', host: 'here', pid: 1, types })
    await enlist(['plain', 'other'])
    assert.deepEqual((await bench.store.workers())[0]?.types, ['plain', 'other'])
    await enlist(['third'])
    assert.deepEqual((await bench.store.workers())[0]?.types, ['third'])
  },

  async 'a worker that runs further types is listed with them and is the same worker'(bench) {
    const key = await bench.store.enlist({ id: 'steady', host: 'here', pid: 1, types: ['plain'] })
    const [before] = await bench.store.workers()
    await bench.clock.advance(1_000)
    await bench.store.serve({ worker: key, types: ['plain', 'other'] })
    assert.deepEqual(await bench.store.workers(), [{ ...before, types: ['plain', 'other'] }])
    await bench.store.dismiss({ worker: key })
    await bench.store.serve({ worker: key, types: ['plain'] })
    assert.deepEqual((await bench.store.workers())[0]?.stoppedAtMs, bench.clock.nowMs())
  },

  async 'a worker that comes back under its old name is enlisted again'(bench) {
    const key = await bench.store.enlist({ id: 'steady', host: 'here', pid: 1, types: [] })
    await bench.store.dismiss({ worker: key })
    await bench.clock.advance(1_000)
    const again = await (await bench.open()).enlist({ id: 'steady', host: 'there', pid: 2, types: [] })
    const id = await bench.submit()
    await bench.store.claim({ worker: again, lanes: [{ type: 'plain', ttlMs: 1_000 }], max: 1 })
    assert.equal((await bench.row(id)).lease?.worker, 'steady')
    const current = (await bench.store.workers()).filter((one) => one.id === 'steady' && one.stoppedAtMs === null)
    assert.deepEqual(
      current.map(({ host, pid, startedAtMs }) => ({ host, pid, startedAtMs })),
      [{ host: 'there', pid: 2, startedAtMs: bench.clock.nowMs() }],
    )
  },
})
