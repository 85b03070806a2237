import assert from 'node:assert/strict'
import { engineFailure } from '../../../core/failure/capture.ts'
import { NOTHING_SPENT } from '../../../core/policy/budget.ts'
import { decideExpired } from '../../../core/policy/decide.ts'
import { policy } from '../../../core/policy/policy.ts'
import type { ExpiredFailure, ExpiredJob } from '../../contract/waiting.ts'
import type { Bench } from '../bench/bench.ts'
import { failed, requeued, retryInPlace } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const TTL_MS = 60_000

export const expiring = topic('expiring jobs', {
  async 'a job that nothing claims within its time to live is found and fails'(bench) {
    const id = await bench.submit({ ttlMs: TTL_MS })
    await bench.submit()
    assert.equal(await bench.store.nextExpiryAtMs(), bench.clock.nowMs() + TTL_MS)
    await bench.clock.advance(TTL_MS - 1)
    assert.deepEqual(await bench.store.expiredJobs({ limit: 10 }), [])
    await bench.clock.advance(1)
    const [found, ...others] = await bench.store.expiredJobs({ limit: 10 })
    assert.deepEqual([found?.id, found?.type, others], [id, 'plain', []])
    assert.deepEqual(await failAll(bench), ['failed'])
    const row = await bench.row(id)
    assert.deepEqual([row.status, row.attempt, row.latestFailure?.code], ['failed', 0, 'TTL_EXPIRED'])
    assert.equal(row.spent, null)
    assert.deepEqual(await bench.kinds(id), ['queued', 'failed'])
    assert.equal(await bench.store.nextExpiryAtMs(), null)
    assert.deepEqual(await failAll(bench), [])
    await bench.checkAll()
  },

  async 'an expired job becomes a dead letter as its policy says, and frees its live dedupe key'(bench) {
    const dedupe = { key: 'a', scope: 'live' } as const
    const id = await bench.submit({ ttlMs: TTL_MS, dedupe })
    await bench.clock.advance(TTL_MS)
    assert.deepEqual(await failAll(bench), ['failed'])
    const [letter] = await bench.store.deadLetters({ afterOffset: 0, limit: 10 })
    assert.equal(letter?.jobId, id)
    assert.notEqual(await bench.submit({ dedupe }), id)
  },

  async 'the time to live counts from when the job is due, and moves with that time'(bench) {
    const id = await bench.submit({ ttlMs: TTL_MS, delayMs: 2 * TTL_MS })
    const submittedAtMs = bench.clock.nowMs()
    assert.equal(await bench.store.nextExpiryAtMs(), submittedAtMs + 3 * TTL_MS)
    assert.equal(await bench.intervene(id, { kind: 'reschedule', to: { delayMs: 5 * TTL_MS } }), 'done')
    assert.equal(await bench.store.nextExpiryAtMs(), submittedAtMs + 6 * TTL_MS)
    assert.equal(await bench.intervene(id, { kind: 'promote' }), 'done')
    assert.equal(await bench.store.nextExpiryAtMs(), submittedAtMs + TTL_MS)
  },

  async 'a job that was made due and is then postponed lives as long after its new time as its time to live says'(
    bench,
  ) {
    const id = await bench.submit({ ttlMs: TTL_MS, delayMs: 10 * TTL_MS })
    await bench.clock.advance(5 * TTL_MS)
    assert.equal(await bench.intervene(id, { kind: 'promote' }), 'done')
    await bench.clock.advance(TTL_MS / 2)
    assert.equal(await bench.intervene(id, { kind: 'reschedule', to: { delayMs: 2 * TTL_MS } }), 'done')
    assert.equal(await bench.store.nextExpiryAtMs(), bench.clock.nowMs() + 3 * TTL_MS)
  },

  async 'a lease says when its job expires'(bench) {
    await bench.submit({ ttlMs: TTL_MS })
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    assert.equal(lease.expiresAtMs, bench.clock.nowMs() + TTL_MS)
  },

  async 'once an attempt has begun, the job does not expire'(bench) {
    const id = await bench.submit({ ttlMs: TTL_MS })
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    const { key, attempt } = lease
    const attempts = [{ key, attempt, agoMs: 0, hasTtl: true }]
    assert.deepEqual(await bench.store.start({ worker: worker.key, attempts }), { lost: [] })
    await worker.close(lease, requeued('retry', lease, { delayMs: 2 * TTL_MS }))
    await bench.clock.advance(3 * TTL_MS)
    assert.deepEqual(await bench.store.expiredJobs({ limit: 10 }), [])
    assert.equal((await worker.claimOne()).expiresAtMs, null)
    assert.equal((await bench.row(id)).status, 'processing')
  },

  async 'a job that was given back before it began still expires'(bench) {
    await bench.submit({ ttlMs: TTL_MS })
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    await worker.close(lease, requeued('released', lease))
    await bench.clock.advance(TTL_MS)
    assert.deepEqual(await failAll(bench), ['failed'])
    await bench.checkAll()
  },

  async 'a lost start does not end the time to live'(bench) {
    await bench.submit({ ttlMs: TTL_MS })
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    await worker.close(lease, requeued('released', lease))
    const { key, attempt } = lease
    const { lost } = await bench.store.start({
      worker: worker.key,
      attempts: [{ key, attempt, agoMs: 0, hasTtl: true }],
    })
    assert.deepEqual(lost, [key])
    assert.notEqual(await bench.store.nextExpiryAtMs(), null)
  },

  async 'a job that a worker or a person has changed since is not failed as expired'(bench) {
    const id = await bench.submit({ ttlMs: TTL_MS })
    await bench.clock.advance(TTL_MS)
    const found = await bench.store.expiredJobs({ limit: 10 })
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    await bench.changesNothing(id, 'a late expiry', async () => {
      assert.deepEqual(await bench.store.failExpired({ jobs: found.map(failureOf) }), ['moved-on'])
    })
    // Held by its worker, which decides about it.
    assert.deepEqual(await bench.store.expiredJobs({ limit: 10 }), [])
    await worker.close(lease, requeued('released', lease))
    assert.deepEqual(await bench.store.failExpired({ jobs: found.map(failureOf) }), ['moved-on'])
    assert.deepEqual(await failAll(bench), ['failed'])
  },

  async 'jobs that ended another way are no longer looked at'(bench) {
    for (let i = 0; i < 3; i++) await bench.finished('cancelled', { ttlMs: TTL_MS })
    const late = await bench.submit({ ttlMs: TTL_MS })
    await bench.clock.advance(TTL_MS)
    await bench.store.expiredJobs({ limit: 3 })
    const [found] = await bench.store.expiredJobs({ limit: 3 })
    assert.equal(found?.id, late)
  },

  async 'two processes that expire the same jobs fail each once'(bench) {
    for (let i = 0; i < 20; i++) await bench.submit({ ttlMs: TTL_MS })
    await bench.clock.advance(TTL_MS)
    const [one, other] = await bench.openMany(2)
    const found = (await one.expiredJobs({ limit: 50 })).map(failureOf)
    const answers = await Promise.all([
      one.failExpired({ jobs: found }),
      other?.failExpired({ jobs: found.toReversed() }) ?? [],
    ])
    assert.equal(answers.flat().filter((answer) => answer === 'failed').length, 20)
    await bench.checkAll()
  },

  async 'a manual retry of an expired job has no time to live'(bench) {
    const id = await bench.submit({ ttlMs: TTL_MS })
    await bench.clock.advance(TTL_MS)
    await failAll(bench)
    assert.equal(await bench.intervene(id, retryInPlace(await bench.row(id))), 'done')
    await bench.clock.advance(10 * TTL_MS)
    assert.deepEqual(await bench.store.expiredJobs({ limit: 10 }), [])
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    assert.equal(lease.expiresAtMs, null)
    await worker.close(lease, failed(lease))
  },
})

function failureOf({ key, type, attempt, spent }: ExpiredJob): ExpiredFailure {
  const failure = engineFailure({ code: 'TTL_EXPIRED', phase: 'dispatch', type, detail: 'a test' })
  const { reasons } = decideExpired(NOTHING_SPENT, policy())
  return { key, attempt, failure: { ...failure, decision: reasons }, spent, deadLetter: 'queue' }
}

const failAll = async (bench: Bench) =>
  bench.store.failExpired({ jobs: (await bench.store.expiredJobs({ limit: 10 })).map(failureOf) })
