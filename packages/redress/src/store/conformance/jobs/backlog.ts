import assert from 'node:assert/strict'
import { policy } from '../../../core/policy/policy.ts'
import type { NewJob } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { TTL_MS } from '../bench/bench-worker.ts'
import { complete, failed, requeued, retryInPlace } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const BOUNDED = [{ type: 'bounded', ttlMs: TTL_MS }]
const FULL = { code: 'BACKLOG_FULL' }

export const backlog = topic('backlog', {
  async 'a submission that would make too many wait is refused as a whole, whoever submits'(bench) {
    const [store, other] = await bench.openMany(2)
    await declare(bench, 10)
    await store.submit({ jobs: some(bench, 6) })
    await other?.submit({ jobs: some(bench, 1, { delayMs: 60_000 }) })
    await assert.rejects(store.submit({ jobs: some(bench, 4) }), FULL)
    assert.equal(await waiting(bench), 7)
    await store.submit({ jobs: some(bench, 3) })
    for (const handle of [store, other])
      await assert.rejects(async () => handle?.submit({ jobs: some(bench, 1) }), FULL)
    // Jobs of other types are none of its business.
    await store.submit({ jobs: [bench.newJob()] })
    assert.equal(await waiting(bench), 10)
  },

  async 'submissions made at once never go over it together, and one that is refused harms no other'(bench) {
    const handles = await bench.openMany(4)
    await declare(bench, 25)
    const answers = await Promise.allSettled(
      Array.from({ length: 40 }, (_, i) => handles[i % 4]?.submit({ jobs: some(bench, 1) })),
    )
    assert.equal(answers.filter(({ status }) => status === 'fulfilled').length, 25)
    for (const answer of answers) {
      if (answer.status === 'rejected') assert.equal(answer.reason.code, 'BACKLOG_FULL')
    }
    assert.equal(await waiting(bench), 25)
  },

  async 'what was refused for the sake of one type leaves no room to another'(bench) {
    await declare(bench, 4)
    await bench.declare('narrow', policy({ backlog: { max: 1 } }))
    const narrow = Array.from({ length: 6 }, () => bench.newJob({ type: 'narrow' }))
    await assert.rejects(bench.store.submit({ jobs: [...some(bench, 1), ...narrow] }), FULL)
    for (let i = 0; i < 4; i++) await bench.store.submit({ jobs: some(bench, 1) })
    await assert.rejects(bench.store.submit({ jobs: some(bench, 1) }), FULL)
    assert.equal(await waiting(bench), 4)
  },

  async 'what runs and what has ended leaves room'(bench) {
    await declare(bench, 3)
    await bench.store.submit({ jobs: some(bench, 3) })
    const worker = await bench.worker()
    const { leases } = await worker.claim({ max: 2, lanes: BOUNDED })
    await bench.store.submit({ jobs: some(bench, 2) })
    for (const lease of leases) await worker.close(lease, complete())
    await assert.rejects(bench.store.submit({ jobs: some(bench, 1) }), FULL)
  },

  async 'a job that is there already is found, however full it is'(bench) {
    await declare(bench, 1)
    const [job] = some(bench, 1)
    await bench.store.submit({ jobs: [job as NewJob] })
    const [again] = await bench.store.submit({ jobs: [job as NewJob] })
    assert.deepEqual([again?.id, again?.isNew], [job?.id, false])
  },

  async 'a retry, a job taken back and a person’s retry are never refused'(bench) {
    await declare(bench, 2)
    await bench.store.submit({ jobs: some(bench, 2) })
    const worker = await bench.worker()
    const [retried, lost] = (await worker.claim({ max: 2, lanes: BOUNDED })).leases
    assert(retried !== undefined && lost !== undefined)
    await bench.store.submit({ jobs: some(bench, 2) })
    assert.equal(await worker.close(retried, requeued('retry', retried)), 'closed')
    await bench.expireLeases()
    assert.equal(await bench.reclaim(lost, requeued('reclaimed', lost)), 'closed')
    assert.equal(await waiting(bench), 4)
    const [ended] = (await worker.claim({ max: 1, lanes: BOUNDED })).leases
    assert(ended !== undefined)
    await worker.close(ended, failed(ended))
    const retriedFrom = { id: ended.id, actor: 'olga', reason: 'again' }
    await bench.store.submit({ jobs: some(bench, 1, { retriedFrom }) })
    assert.equal(await bench.intervene(ended.id, retryInPlace(await bench.row(ended.id))), 'done')
    assert.equal(await waiting(bench), 5)
    await assert.rejects(bench.store.submit({ jobs: some(bench, 1) }), FULL)
  },

  async 'jobs that waited before the bound was declared count'(bench) {
    await bench.declare('bounded', policy())
    await bench.store.submit({ jobs: [...some(bench, 3), ...some(bench, 2, { delayMs: 1_000 })] })
    await declare(bench, 6)
    await bench.store.submit({ jobs: some(bench, 1) })
    await assert.rejects(bench.store.submit({ jobs: some(bench, 1) }), FULL)
  },
})

const declare = (bench: Bench, max: number) =>
  bench.declare('bounded', policy({ retry: { max: 3 }, orphan: 'requeue', manualRetry: 'in-place', backlog: { max } }))

const some = (bench: Bench, count: number, parts: Partial<NewJob> = {}): NewJob[] =>
  Array.from({ length: count }, () => bench.newJob({ type: 'bounded', ...parts }))

const waiting = async (bench: Bench): Promise<number> =>
  (await bench.store.counts()).find(({ type }) => type === 'bounded')?.queued ?? 0
