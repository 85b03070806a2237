import assert from 'node:assert/strict'
import { policy } from '../../../core/policy/policy.ts'
import type { Lease } from '../../contract/store.ts'
import type { BenchWorker } from '../bench/bench-worker.ts'
import { TTL_MS } from '../bench/bench-worker.ts'
import { complete, failed, REQUEUE_CAUSES, requeued, retryInPlace } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const ofType = (type: string) => [{ type, ttlMs: TTL_MS }]
const PLAIN = ofType('plain')

export const claiming = topic('claiming', {
  async 'claims made at once by many processes never hand out one job twice'(bench) {
    const handles = await bench.openMany(6)
    const workers = await Promise.all(handles.map((handle) => bench.worker(handle)))
    const jobs = Array.from({ length: 200 }, (_, i) => bench.newJob({ type: i % 3 === 0 ? 'other' : 'plain' }))
    await bench.store.submit({ jobs })
    const handedOut: string[] = []
    for (let found = true; found; ) {
      const claims = await Promise.all(workers.map((worker) => worker.claim({ max: 7 })))
      const ids = claims.flatMap(({ leases }) => leases.map(({ id }) => id))
      handedOut.push(...ids)
      found = ids.length > 0
    }
    assert.equal(handedOut.length, jobs.length)
    assert.deepEqual(new Set(handedOut), new Set(jobs.map(({ id }) => id)))
  },

  async 'a lease says what the worker needs to know'(bench) {
    const origin = await bench.finished('failed')
    const retriedFrom = { id: origin, actor: 'olga', reason: 'again' }
    const createdAtMs = bench.clock.nowMs()
    const id = await bench.submit({ payload: '{"n":1}', owner: 'otto', priority: 4, retriedFrom })
    await bench.clock.advance(10)
    const worker = await bench.worker()
    const { nowMs, leases } = await worker.claim()
    const { key } = await bench.row(id)
    assert.equal(nowMs, bench.clock.nowMs())
    assert.deepEqual(leases, [
      {
        ...{ key, id, type: 'plain', attempt: 1, payload: '{"n":1}', spent: null, owner: 'otto', priority: 4 },
        ...{
          createdAtMs,
          queuedAtMs: createdAtMs,
          expiresAtMs: null,
          dueSinceMs: createdAtMs,
          retriedFrom: origin,
          isForwardOnly: false,
          batch: null,
          trace: null,
        },
      },
    ])
    const row = await bench.row(id)
    assert.deepEqual(row.lease, { worker: worker.id, untilMs: bench.clock.nowMs() + TTL_MS })
    assert.deepEqual([row.status, row.attempt, row.claimedAtMs], ['processing', 1, bench.clock.nowMs()])
  },

  async 'a lease says since when its job was due: since it came, since its delay ended, since it came back'(bench) {
    const worker = await bench.worker()
    const startMs = bench.clock.nowMs()
    const claimAfter = async (ms: number): Promise<Lease> => {
      await bench.clock.advance(ms)
      return worker.claimOne()
    }
    const id = await bench.submit({ delayMs: 100 })
    const first = await claimAfter(150)
    assert.equal(first.dueSinceMs, startMs + 100)
    await worker.close(first, requeued('retry', first, { delayMs: 50 }))
    const second = await claimAfter(80)
    assert.equal(second.dueSinceMs, startMs + 200)
    for (const [i, cause] of REQUEUE_CAUSES.entries()) {
      const lease = i === 0 ? second : await claimAfter(0)
      await worker.close(lease, requeued(cause, lease))
      const [backMs, again] = [bench.clock.nowMs(), await claimAfter(10)]
      assert.equal(again.dueSinceMs, backMs, cause)
      await worker.close(again, requeued(cause, again))
    }
    const last = await claimAfter(5)
    await bench.expireLeases()
    await bench.reclaim(last, requeued('reclaimed', last))
    const reclaimedMs = bench.clock.nowMs()
    const taken = await claimAfter(20)
    assert.equal(taken.dueSinceMs, reclaimedMs)
    await worker.close(taken, failed(taken))
    await bench.clock.advance(1_000)
    await bench.intervene(id, retryInPlace(await bench.row(id)))
    const retriedMs = bench.clock.nowMs()
    assert.equal((await claimAfter(30)).dueSinceMs, retriedMs)
  },

  async 'higher priority goes first, then who waits longer, then who was submitted first, across all lanes'(bench) {
    const submit = (type: string, priority: number) => bench.submit({ type, priority })
    const early = [await submit('plain', 0), await submit('third', 0), await submit('other', 0)]
    await bench.clock.advance(5)
    const urgent = [await submit('third', 9), await submit('plain', 9)]
    const late = [await submit('other', 0), await submit('plain', 0)]
    const leastUrgent = [await submit('plain', -1)]
    assert.deepEqual(await claimAll(await bench.worker(), 3), [...urgent, ...early, ...late, ...leastUrgent])
  },

  async 'a delayed job is claimed only when it is due, and then in order of creation [W17 E15]'(bench) {
    const earliest = await bench.submit()
    await bench.clock.advance(1)
    const delayed = await bench.submit({ delayMs: 1_000 })
    const worker = await bench.worker()
    await bench.clock.advance(999)
    const later = await bench.submit()
    // A job that is not due yet does not hold up the jobs behind it.
    const { leases } = await worker.claim({ max: 10 })
    assert.deepEqual(
      leases.map(({ id }) => id),
      [earliest, later],
    )
    for (const lease of leases) await worker.close(lease, requeued('released', lease))
    await bench.clock.advance(1)
    const latest = await bench.submit()
    assert.deepEqual(await claimAll(worker), [earliest, delayed, later, latest])
  },

  async 'a retried job keeps its place by creation time [W17 E15]'(bench) {
    await bench.declare('limited', policy({ manualRetry: 'in-place', concurrency: { perKey: 5 } }))
    for (const [type, limitKey] of [
      ['plain', null],
      ['limited', 'ann'],
    ] as const) {
      const submit = (parts = {}) => bench.submit({ type, limitKey, ...parts })
      const first = await submit()
      const worker = await bench.worker()
      const lease = await worker.claimOne(ofType(type))
      await worker.close(lease, failed(lease))
      await bench.clock.advance(10)
      const backlog = [await submit(), await submit()]
      const urgent = await submit({ priority: 1 })
      await bench.clock.advance(10)
      await bench.intervene(first, retryInPlace(await bench.row(first)))
      const [nowMs, row] = [bench.clock.nowMs(), await bench.row(first)]
      assert.deepEqual([row.queuedAtMs, row.createdAtMs], [nowMs, nowMs - 20])
      await bench.clock.advance(10)
      const { leases } = await worker.claim({ max: 10, lanes: ofType(type) })
      assert.deepEqual(
        leases.map(({ id }) => id),
        [urgent, first, ...backlog],
      )
      // Its total time counts from the retry.
      assert.equal(leases.find(({ id }) => id === first)?.queuedAtMs, nowMs)
      for (const one of leases) await worker.close(one, complete())
    }
  },

  async 'a delayed job of high priority passes those in front of it when it is due'(bench) {
    const waiting = await bench.submit({ priority: 5, delayMs: 100 })
    const ordinary = await bench.submit()
    await bench.clock.advance(100)
    assert.deepEqual(await claimAll(await bench.worker()), [waiting, ordinary])
  },

  async 'a claim says when the next waiting job of its lanes is due'(bench) {
    const worker = await bench.worker()
    assert.equal((await worker.claim({ lanes: PLAIN })).nextDueAtMs, null)
    await bench.submit({ delayMs: 5_000 })
    await bench.submit({ delayMs: 2_000 })
    assert.equal((await worker.claim({ lanes: PLAIN })).nextDueAtMs, bench.clock.nowMs() + 2_000)
    await bench.submit()
    const { leases, nextDueAtMs } = await worker.claim({ lanes: PLAIN })
    assert.deepEqual([leases.length, nextDueAtMs], [1, bench.clock.nowMs() + 2_000])
  },

  async 'a job that goes back to the queue keeps its place'(bench) {
    for (const cause of REQUEUE_CAUSES) {
      const first = await bench.submit()
      await bench.clock.advance(10)
      const second = await bench.submit()
      const worker = await bench.worker()
      const lease = await worker.claimOne()
      await bench.clock.advance(10)
      await worker.close(lease, requeued(cause, lease))
      assert.deepEqual(await claimAll(worker), [first, second], `after it was ${cause}`)
    }
  },

  async 'a delayed retry waits, and then has its old place'(bench) {
    const first = await bench.submit()
    await bench.clock.advance(10)
    const second = await bench.submit()
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    await worker.close(lease, requeued('retry', lease, { delayMs: 50 }))
    assert.equal((await bench.row(first)).dueAtMs, bench.clock.nowMs() + 50)
    await bench.clock.advance(49)
    const early = await worker.claimOne()
    assert.equal(early.id, second)
    await worker.close(early, requeued('released', early))
    await bench.clock.advance(1)
    assert.deepEqual(await claimAll(worker), [first, second])
  },

  async 'no more is claimed than was asked for'(bench) {
    await bench.store.submit({ jobs: Array.from({ length: 10 }, () => bench.newJob()) })
    const worker = await bench.worker()
    for (const max of [0, 1, 4]) assert.equal((await worker.claim({ max })).leases.length, max)
    assert.equal((await worker.claim({ max: 100 })).leases.length, 5)
  },

  async 'only the lanes asked for are served, and one the store never heard of is empty'(bench) {
    const plain = await bench.submit()
    const other = await bench.submit({ type: 'other' })
    const worker = await bench.worker()
    const unheard = { type: 'nobody.declared.this', ttlMs: TTL_MS }
    assert.deepEqual((await worker.claim({ lanes: [] })).leases, [])
    assert.deepEqual((await worker.claim({ lanes: [unheard] })).leases, [])
    assert.equal((await worker.claimOne([unheard, { type: 'other', ttlMs: TTL_MS }])).id, other)
    assert.equal((await worker.claimOne([unheard, ...PLAIN])).id, plain)
  },

  async 'every lane has its own length of lease'(bench) {
    const [plain, other] = [await bench.submit(), await bench.submit({ type: 'other' })]
    const worker = await bench.worker()
    const lanes = [
      { type: 'plain', ttlMs: 1_000 },
      { type: 'other', ttlMs: 90_000 },
    ]
    assert.equal((await worker.claim({ max: 2, lanes })).leases.length, 2)
    const untilMs = async (id: string) => ((await bench.row(id)).lease?.untilMs ?? 0) - bench.clock.nowMs()
    assert.deepEqual([await untilMs(plain), await untilMs(other)], [1_000, 90_000])
  },

  async 'finished, cancelled and held jobs are never handed out'(bench) {
    await bench.finished('complete')
    await bench.finished('failed')
    await bench.finished('cancelled')
    await bench.processing()
    assert.deepEqual(await claimAll(await bench.worker()), [])
  },

  async 'the attempt number grows with every claim, whatever became of the one before'(bench) {
    await bench.submit()
    const worker = await bench.worker()
    for (const [i, cause] of REQUEUE_CAUSES.entries()) {
      const lease = await worker.claimOne()
      assert.equal(lease.attempt, i + 1)
      await worker.close(lease, requeued(cause, lease))
    }
    const last = await worker.claimOne()
    assert.equal(last.attempt, REQUEUE_CAUSES.length + 1)
    assert.equal(await worker.close(last, complete()), 'closed')
  },

  async 'what a job has spent comes back with its next lease'(bench) {
    await bench.submit()
    const worker = await bench.worker()
    const first = await worker.claimOne()
    const change = requeued('retry', first)
    await worker.close(first, change)
    assert.notEqual(change.spent, null)
    assert.equal((await worker.claimOne()).spent, change.spent)
  },
})

/** Ids in the order in which they are handed out. */
async function claimAll(worker: BenchWorker, max = 2): Promise<string[]> {
  const ids: string[] = []
  for (;;) {
    const { leases } = await worker.claim({ max })
    if (leases.length === 0) return ids
    ids.push(...leases.map(({ id }) => id))
  }
}
