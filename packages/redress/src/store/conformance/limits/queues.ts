import assert from 'node:assert/strict'
import type { ActorAndReason } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { complete } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const OLGA: ActorAndReason = { actor: 'olga', reason: 'the disk is nearly full' }

export const queues = topic('queues', {
  async 'no process claims jobs of a paused queue, and other queues go on [D34]'(bench) {
    const [store, other] = await bench.openMany(2)
    const worker = await bench.worker(other)
    for (const type of ['plain', 'other', 'third']) await bench.submit({ type })
    await store.pauseQueue({ name: 'side', by: OLGA, forMs: null })
    const { leases } = await worker.claim({ max: 10 })
    assert.deepEqual(
      leases.map(({ type }) => type),
      ['plain'],
    )
    await bench.clock.advance(365 * 86_400_000)
    assert.equal((await worker.claim({ max: 10 })).leases.length, 0)
    assert.equal(await store.resumeQueue({ name: 'side', by: OLGA }), 'resumed')
    assert.equal((await worker.claim({ max: 10 })).leases.length, 2)
  },

  async 'what runs when its queue is paused goes on to its end'(bench) {
    const { id, lease, worker } = await bench.processing()
    await bench.store.pauseQueue({ name: 'default', by: OLGA, forMs: null })
    assert.equal(await worker.renew(lease), 'held')
    assert.equal(await worker.close(lease, complete()), 'closed')
    assert.equal((await bench.row(id)).status, 'complete')
  },

  async 'a pause for a time ends by itself, and a claim says when'(bench) {
    await bench.submit()
    await bench.store.pauseQueue({ name: 'default', by: OLGA, forMs: 60_000 })
    const worker = await bench.worker()
    const held = await worker.claim()
    assert.deepEqual([held.leases.length, held.nextDueAtMs], [0, bench.clock.nowMs() + 60_000])
    await bench.clock.advance(59_999)
    assert.equal((await worker.claim()).leases.length, 0)
    assert.deepEqual(await bench.store.endPauses(), [])
    await bench.clock.advance(1)
    assert.equal((await worker.claim()).leases.length, 1)
    assert.equal((await pauseOf(bench, 'default')) ?? null, null)
    assert.deepEqual(await bench.store.endPauses(), ['default'])
    assert.deepEqual(await bench.store.endPauses(), [])
  },

  async 'it is known who paused a queue, why, and until when; pausing it again replaces that'(bench) {
    const pausedAtMs = bench.clock.nowMs()
    await bench.store.pauseQueue({ name: 'side', by: OLGA, forMs: 60_000 })
    const paused = { atMs: pausedAtMs, by: 'olga', reason: OLGA.reason, untilMs: pausedAtMs + 60_000 }
    assert.deepEqual(await pauseOf(bench, 'side'), paused)
    assert.equal(await pauseOf(bench, 'default'), null)
    await bench.clock.advance(10)
    await bench.store.pauseQueue({ name: 'side', by: { actor: 'ann', reason: 'still full' }, forMs: null })
    const again = { atMs: bench.clock.nowMs(), by: 'ann', reason: 'still full', untilMs: null }
    assert.deepEqual(await pauseOf(bench, 'side'), again)
  },

  async 'pausing and resuming are in the audit trail'(bench) {
    await bench.store.pauseQueue({ name: 'side', by: OLGA, forMs: null })
    await bench.store.resumeQueue({ name: 'side', by: { actor: 'ann', reason: 'there is room again' } })
    const entries = await bench.store.auditTrail({ filter: { target: 'queue' }, beforeSeq: null, limit: 10 })
    assert.deepEqual(
      entries.map(({ act, actor, reason, ids }) => [act, actor, reason, ids]),
      [
        ['queues.resume', 'ann', 'there is room again', ['side']],
        ['queues.pause', 'olga', OLGA.reason, ['side']],
      ],
    )
  },

  async 'pausing, resuming and a pause that ended by itself are in the feed under the queue'(bench) {
    const afterSeq = await bench.store.lastSeq()
    await bench.store.pauseQueue({ name: 'side', by: OLGA, forMs: null })
    await bench.store.resumeQueue({ name: 'side', by: OLGA })
    await bench.store.pauseQueue({ name: 'side', by: OLGA, forMs: 1_000 })
    await bench.clock.advance(5_000)
    await bench.store.endPauses()
    const { events } = await bench.store.feed({ afterSeq, limit: 10 })
    const [untilMs, pausedAtMs] = [bench.clock.nowMs() - 4_000, bench.clock.nowMs() - 5_000]
    const ended = { actor: 'redress', reason: 'the pause by olga was to last until then' }
    assert.deepEqual(
      events.map(({ subject, kind, atMs, data }) => [subject, kind, atMs, data]),
      [
        ['queue:side', 'paused', pausedAtMs, { ...OLGA }],
        ['queue:side', 'resumed', pausedAtMs, { ...OLGA }],
        ['queue:side', 'paused', pausedAtMs, { ...OLGA, untilMs }],
        ['queue:side', 'resumed', bench.clock.nowMs(), { ...ended, untilMs }],
      ],
    )
  },

  async 'resuming what is not paused does nothing, and says so'(bench) {
    assert.equal(await bench.store.resumeQueue({ name: 'side', by: OLGA }), 'not-paused')
  },

  async 'a queue that no type has can be neither paused nor resumed'(bench) {
    const unknown = { code: 'QUEUE_UNKNOWN', message: /default, side/ }
    await assert.rejects(bench.store.pauseQueue({ name: 'sid', by: OLGA, forMs: null }), unknown)
    await assert.rejects(bench.store.resumeQueue({ name: 'sid', by: OLGA }), unknown)
  },

  async 'the queues are listed with their types, and since when the oldest ready job of each waits'(bench) {
    const beganMs = bench.clock.nowMs()
    await bench.submit({ type: 'third', delayMs: 3_000 })
    await bench.submit({ type: 'other', priority: 2 })
    await bench.clock.advance(500)
    await bench.submit({ type: 'other', priority: 3 })
    await bench.submit({ type: 'other', priority: 1 })
    await bench.submit({ type: 'plain' })
    const { lease } = await bench.processing()
    assert.equal(lease.type, 'plain')
    const listed = (await bench.store.queues()).map(({ name, types }) => ({ name, types }))
    assert.deepEqual(listed, [
      {
        name: 'default',
        types: [
          { type: 'forward', oldestReadyAtMs: null },
          { type: 'plain', oldestReadyAtMs: null },
        ],
      },
      {
        name: 'side',
        types: [
          { type: 'other', oldestReadyAtMs: beganMs },
          { type: 'third', oldestReadyAtMs: null },
        ],
      },
    ])
  },
})

const pauseOf = async (bench: Bench, name: string) =>
  (await bench.store.queues()).find((queue) => queue.name === name)?.paused
