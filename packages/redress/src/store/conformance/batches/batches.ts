import assert from 'node:assert/strict'
import { policy } from '../../../core/policy/policy.ts'
import type { BatchRow, NewBatch } from '../../contract/batches.ts'
import type { NewJob } from '../../contract/store.ts'
import {
  checkBatches,
  counts,
  DAY_MS,
  type End,
  endAll,
  kinds,
  newBatch,
  ON_SETTLED,
  opened,
  outcomes,
  PLAIN,
  refused,
  row,
} from '../bench/batch-bench.ts'
import type { Bench } from '../bench/bench.ts'
import { complete, failed, markFailed, REQUEUE_CAUSES, requeued, retryInPlace, someFailure } from '../bench/changes.ts'
import { topic } from '../promise.ts'

export const batches = topic('batches', {
  async 'a batch is made with all its jobs or not at all, and made again it is the same'(bench) {
    const batch = newBatch(bench)
    const jobs = [bench.newJob(), bench.newJob({ type: 'other' })]
    const made = await bench.store.openBatch({ batch, jobs })
    assert.deepEqual(made, { isNew: true, jobs: jobs.map(({ id }) => ({ id, isNew: true, status: 'queued' })) })
    assert.deepEqual(await bench.store.openBatch({ batch, jobs: [bench.newJob()] }), { isNew: false, jobs: [] })
    assert.deepEqual(await counts(bench, batch.id), { total: 2, unfinished: 2 })
    for (const { id } of jobs) assert.equal((await bench.row(id)).batchId, batch.id)

    const other = newBatch(bench)
    const unknown = [bench.newJob(), bench.newJob({ type: 'nobody.declared.this' })]
    await refused('TYPE_UNKNOWN', bench.store.openBatch({ batch: other, jobs: unknown }))
    assert.equal(await bench.store.batch({ id: other.id }), null)
    assert.equal((await bench.store.jobs({ limit: 10 })).length, 2)
  },

  async 'a batch whose jobs would be too many for the backlog of their type is not made'(bench) {
    await bench.declare('bounded', policy({ backlog: { max: 2 } }))
    const batch = newBatch(bench, { onSettled: { type: 'bounded', input: '{}' } })
    const jobs = (count: number) => Array.from({ length: count }, () => bench.newJob({ type: 'bounded' }))
    await refused('BACKLOG_FULL', bench.store.openBatch({ batch, jobs: jobs(3) }))
    assert.deepEqual([await bench.store.batch({ id: batch.id }), await bench.store.jobs({ limit: 5 })], [null, []])
    await bench.store.openBatch({ batch, jobs: jobs(2) })
    const worker = await bench.worker()
    const { leases } = await worker.claim({ max: 2, lanes: [{ type: 'bounded', ttlMs: 30_000 }] })
    await bench.store.submit({ jobs: jobs(2) })
    // The job that follows is never refused: that would undo the close which settles the batch.
    for (const lease of leases) assert.equal(await worker.close(lease, complete()), 'closed')
    assert.equal((await row(bench, batch.id)).state, 'complete')
    assert.equal((await bench.store.jobs({ type: 'bounded', status: 'queued', limit: 9 })).length, 3)
  },

  async 'it is settled when its last job ends, and not before'(bench) {
    const id = await opened(bench, 3)
    const worker = await bench.worker()
    for (const left of [2, 1]) {
      await worker.close(await worker.claimOne(), complete())
      assert.deepEqual(await counts(bench, id), { total: 3, unfinished: left, complete: 3 - left })
      assert.equal((await row(bench, id)).settledAtMs, null)
    }
    await bench.clock.advance(1_000)
    await worker.close(await worker.claimOne(), complete())
    const { state, settledAtMs, settlements } = await row(bench, id)
    assert.deepEqual([state, settledAtMs, settlements], ['complete', bench.clock.nowMs(), 1])
    assert.deepEqual(await kinds(bench, id), ['settled'])
  },

  async 'a number in the results of its complete jobs can be added up'(bench) {
    const id = await opened(bench, 6)
    const other = await opened(bench, 1)
    const worker = await bench.worker()
    const results = ['{"bytes":5}', '{"bytes":2.5,"deep":{"bytes":100}}', '{"bytes":"7"}', '[1]', 'null']
    for (const result of results) await worker.close(await worker.claimOne(), complete(result))
    const last = await worker.claimOne()
    await worker.close(last, failed(last))
    await worker.close(await worker.claimOne(), complete('{"bytes":1000}'))
    assert.equal(await bench.store.batchSum({ id, field: 'bytes' }), 7.5)
    assert.equal(await bench.store.batchSum({ id: other, field: 'bytes' }), 1000)
    for (const field of ['none', 'a"b', '$.bytes', '0'])
      assert.equal(await bench.store.batchSum({ id, field }), 0, field)
    assert.equal(await bench.store.batchSum({ id: bench.makeId(), field: 'bytes' }), 0)
  },

  async 'every way in which a job ends is counted, and going back to the queue is none'(bench) {
    for (const [way, [end, ended]] of Object.entries(WAYS_TO_END)) {
      const id = await opened(bench, 1)
      const [job] = await bench.store.jobs({ batch: id, limit: 2 })
      await end(bench, String(job?.id))
      const { permanent, ...rest } = await counts(bench, id)
      assert.deepEqual(rest, { total: 1, [ended]: 1 }, way)
      assert.equal(permanent === 1, way.includes('for good'), way)
      assert.deepEqual(await kinds(bench, id), ['settled'], way)
    }
    for (const cause of REQUEUE_CAUSES) {
      const id = await opened(bench, 1)
      const worker = await bench.worker()
      const lease = await worker.claimOne()
      await worker.close(lease, requeued(cause, lease))
      assert.deepEqual(await counts(bench, id), { total: 1, unfinished: 1 }, cause)
      await worker.close(await worker.claimOne(), complete())
      assert.deepEqual(await counts(bench, id), { total: 1, complete: 1 }, cause)
    }
    await checkBatches(bench)
  },

  async 'it comes to what its roll-up makes of its jobs'(bench) {
    for (const [rollup, ends, outcome] of ROLLUP_TABLE) {
      const id = await opened(bench, ends.length, { rollup })
      await endAll(bench, ends)
      assert.equal((await row(bench, id)).state, outcome, `${rollup} of ${ends.join(', ')}`)
    }
  },

  async 'the first job brings the roll-up of its type, unless the batch has one'(bench) {
    const strict = policy({ rollup: 'all-or-nothing', notify: { settled: ['mail'] } })
    await bench.declare('strict', strict)
    const own = await opened(bench, 0, { isSealed: false, rollup: 'any-permanent', notify: ['ops'] })
    const none = await opened(bench, 0, { isSealed: false })
    for (const batch of [own, none]) {
      await bench.submit({ type: 'strict', batch })
      await bench.submit({ type: 'plain', batch })
    }
    const [{ rollup, notify }, inherited] = [await row(bench, own), await row(bench, none)]
    assert.deepEqual([rollup, notify], ['any-permanent', ['ops']])
    assert.deepEqual([inherited.rollup, inherited.notify], ['all-or-nothing', ['mail']])
  },

  async 'of two jobs that end at the same moment in two processes, one settles the batch, once'(bench) {
    const [one, other = one] = await bench.openMany(2)
    for (let round = 0; round < 20; round++) {
      const id = await opened(bench, 2, { onSettled: ON_SETTLED })
      const workers = [await bench.worker(one), await bench.worker(other)] as const
      const leases = [await workers[0].claimOne(PLAIN), await workers[1].claimOne(PLAIN)] as const
      const isFailing = round % 2 === 0
      await Promise.all([
        workers[0].close(leases[0], complete()),
        workers[1].close(leases[1], isFailing ? failed(leases[1]) : complete()),
      ])
      assert.deepEqual(await kinds(bench, id), ['settled'])
      const { state, settlements } = await row(bench, id)
      assert.deepEqual([state, settlements], [isFailing ? 'partial' : 'complete', 1])
      assert.equal((await outcomes(bench, id)).length, 1)
    }
    await checkBatches(bench)
  },

  async 'a close that comes too late, or twice, is not counted'(bench) {
    const id = await opened(bench, 1)
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    await bench.expireLeases()
    await bench.reclaim(lease, requeued('reclaimed', lease))
    assert.equal(await worker.close(lease, complete()), 'lost')
    assert.deepEqual(await counts(bench, id), { total: 1, unfinished: 1 })
    const again = await worker.claimOne()
    assert.equal(await worker.close(again, complete()), 'closed')
    assert.equal(await worker.close(again, complete()), 'lost')
    assert.equal(await worker.close(again, failed(again)), 'lost')
    assert.deepEqual(await counts(bench, id), { total: 1, complete: 1 })
    assert.deepEqual(await kinds(bench, id), ['settled'])
  },

  async 'an open batch takes jobs until it is sealed, and only then settles'(bench) {
    const id = await opened(bench, 0, { isSealed: false })
    await bench.finished('complete', { batch: id })
    assert.deepEqual([(await row(bench, id)).state, await kinds(bench, id)], ['open', []])
    await bench.finished('failed', { batch: id })
    assert.equal(await bench.store.sealBatch({ id }), 'sealed')
    assert.equal((await row(bench, id)).state, 'partial')
    assert.equal(await bench.store.sealBatch({ id }), 'was-sealed')
    assert.equal(await bench.store.sealBatch({ id: bench.makeId() }), 'not-found')
    await refused('BATCH_CLOSED', bench.submit({ batch: id }))
    await refused('BATCH_NOT_FOUND', bench.submit({ batch: bench.makeId() }))
    assert.deepEqual(await counts(bench, id), { total: 2, complete: 1, failed: 1 })
    assert.equal((await bench.store.jobs({ limit: 10 })).length, 2, 'a job that was refused is there')
  },

  async 'a job enters a batch before it is sealed, or is refused, whoever seals it at the same moment'(bench) {
    const [store, other = bench.store] = await bench.openMany(2)
    for (let i = 0; i < 20; i++) {
      const batch = newBatch(bench, { isSealed: false })
      await store.openBatch({ batch, jobs: [] })
      const job = bench.newJob({ batch: batch.id })
      const [entered, sealed] = await Promise.allSettled([
        other.submit({ jobs: [job] }),
        store.sealBatch({ id: batch.id }),
      ])
      assert.deepEqual(sealed, { status: 'fulfilled', value: 'sealed' })
      if (entered.status === 'rejected') assert.equal(entered.reason.code, 'BATCH_CLOSED')
      const isIn = entered.status === 'fulfilled'
      const { state, total } = await row(bench, batch.id)
      assert.deepEqual([state, total], isIn ? ['open', 1] : ['complete', 0])
      assert.deepEqual(await kinds(bench, batch.id), isIn ? [] : ['settled'])
    }
  },

  async 'an empty batch is complete when it is sealed'(bench) {
    assert.equal((await row(bench, await opened(bench, 0))).state, 'complete')
  },

  async 'a submission repeated after its batch was sealed finds its job'(bench) {
    const id = await opened(bench, 0, { isSealed: false })
    const job = bench.newJob({ batch: id })
    await bench.store.submit({ jobs: [job] })
    await bench.store.sealBatch({ id })
    const [again] = await bench.store.submit({ jobs: [job] })
    assert.deepEqual(again, { id: job.id, isNew: false, status: 'queued' })
    assert.deepEqual(await counts(bench, id), { total: 1, unfinished: 1 })
  },

  async 'a job that is there already stays in the batch it has, or in none'(bench) {
    const dedupe: NewJob['dedupe'] = { key: 'one', scope: 'live' }
    const alone = await bench.submit({ dedupe })
    const batch = newBatch(bench)
    const { jobs } = await bench.store.openBatch({ batch, jobs: [bench.newJob({ dedupe }), bench.newJob()] })
    assert.deepEqual([jobs[0]?.id, jobs[0]?.isNew, jobs[1]?.isNew], [alone, false, true])
    assert.equal((await bench.row(alone)).batchId, null)
    assert.deepEqual(await counts(bench, batch.id), { total: 1, unfinished: 1 })
  },

  async 'a refused submission that is recorded enters as failed'(bench) {
    const id = await opened(bench, 0, { isSealed: false, rollup: 'any-permanent' })
    await bench.submit({ batch: id, rejected: someFailure('INPUT_INVALID') })
    await bench.finished('complete', { batch: id })
    assert.deepEqual(await counts(bench, id), { total: 2, complete: 1, failed: 1, permanent: 1 })
    await bench.store.sealBatch({ id })
    assert.equal((await row(bench, id)).state, 'failed')
  },

  async 'a manual retry reopens a settled batch, and it is settled and told again'(bench) {
    const id = await opened(bench, 2, { onSettled: ON_SETTLED })
    const [, broken = ''] = await endAll(bench, ['complete', 'failed for good'])
    assert.equal((await row(bench, id)).state, 'partial')
    await bench.intervene(broken, retryInPlace(await bench.row(broken)))
    const reopened = await row(bench, id)
    assert.deepEqual([reopened.state, reopened.settledAtMs, reopened.settlements], ['open', null, 1])
    assert.deepEqual(await counts(bench, id), { total: 2, unfinished: 1, complete: 1 })
    await endAll(bench, ['complete'])
    assert.equal((await row(bench, id)).state, 'complete')
    assert.deepEqual(await kinds(bench, id), ['settled', 'reopened', 'settled'])
    assert.deepEqual(
      (await outcomes(bench, id)).map(({ state, settlement }) => [settlement, state]),
      [
        [1, 'partial'],
        [2, 'complete'],
      ],
    )
    await checkBatches(bench)
  },

  async 'a job made from a failed one takes its place, and the total stays'(bench) {
    const id = await opened(bench, 2)
    const [, broken = ''] = await endAll(bench, ['complete', 'failed for good'])
    const retriedFrom = { id: broken, actor: 'olga', reason: 'a test' }
    const successor = await bench.submit({ retriedFrom })
    assert.deepEqual(await counts(bench, id), { total: 2, unfinished: 1, complete: 1 })
    assert.equal((await row(bench, id)).state, 'open')
    const inBatch = await bench.store.jobs({ batch: id, limit: 10 })
    assert.equal(
      inBatch.some((job) => job.id === successor),
      true,
    )
    assert.equal(
      inBatch.some((job) => job.id === broken),
      false,
    )
    // A second one made from the same job finds the place taken.
    const outside = await bench.submit({ retriedFrom: { ...retriedFrom, retriedAsSeen: successor }, priority: -1 })
    assert.equal((await bench.row(outside)).batchId, null)
    await endAll(bench, ['complete', 'failed'])
    assert.deepEqual(await counts(bench, id), { total: 2, complete: 2 })
    assert.equal((await row(bench, id)).state, 'complete')
    await checkBatches(bench)
  },

  async 'one that gave up its place is not counted again, even when it is sent back itself'(bench) {
    const id = await opened(bench, 1)
    const [broken = ''] = await endAll(bench, ['failed'])
    await bench.submit({ retriedFrom: { id: broken, actor: 'olga', reason: 'a test' } })
    await endAll(bench, ['complete'])
    for (const end of ['failed', 'complete'] as const) {
      await bench.intervene(broken, retryInPlace(await bench.row(broken)))
      await endAll(bench, [end])
    }
    assert.deepEqual(await counts(bench, id), { total: 1, complete: 1 })
    assert.deepEqual(await kinds(bench, id), ['settled', 'reopened', 'settled'])
  },

  async 'a job that gave up its place adds nothing to what its batch shows, neither while it runs nor afterwards'(
    bench,
  ) {
    const id = await opened(bench, 1)
    const [broken = ''] = await endAll(bench, ['failed'])
    // The successor waits, so that the batch has an unfinished job.
    await bench.submit({ retriedFrom: { id: broken, actor: 'olga', reason: 'a test' }, delayMs: DAY_MS })
    await bench.intervene(broken, retryInPlace(await bench.row(broken)))
    const worker = await bench.worker()
    const lease = await worker.claimOne(PLAIN)
    assert.equal(lease.id, broken)
    assert.equal((await row(bench, id)).processing, 0)
    await worker.close(lease, complete('{"bytes":5}'))
    assert.equal(await bench.store.batchSum({ id, field: 'bytes' }), 0)
  },

  async 'a successor that is refused at once fails in that place, and the batch is settled again'(bench) {
    const id = await opened(bench, 1)
    const [broken = ''] = await endAll(bench, ['failed'])
    const retriedFrom = { id: broken, actor: 'olga', reason: 'a test' }
    await bench.submit({ retriedFrom, rejected: someFailure('INPUT_INVALID') })
    assert.deepEqual(await counts(bench, id), { total: 1, failed: 1, permanent: 1 })
    assert.deepEqual(await kinds(bench, id), ['settled', 'reopened', 'settled'])
  },

  async 'a second retry takes the batch place of the failed job that the first retry made'(bench) {
    const by = { actor: 'olga', reason: 'a test' }
    const id = await opened(bench, 2)
    const [broken = '', other = ''] = await endAll(bench, ['failed', 'failed'])
    await bench.submit({ retriedFrom: { id: broken, ...by }, rejected: someFailure('INPUT_INVALID') })
    await bench.submit({ retriedFrom: { id: broken, ...by } })
    const first = await bench.submit({ retriedFrom: { id: other, ...by } })
    await endAll(bench, ['complete', 'failed'])
    await bench.submit({ retriedFrom: { id: other, ...by, retriedAsSeen: first } })
    await endAll(bench, ['complete'])
    assert.deepEqual(await counts(bench, id), { total: 2, complete: 2 })
    await checkBatches(bench)
  },

  async 'the job of onSettled is there with the settlement, and finds the outcome in its input'(bench) {
    const id = await opened(bench, 2, { onSettled: ON_SETTLED, data: '{"campaign":7}', owner: 'ann' })
    assert.deepEqual(await outcomes(bench, id), [])
    await endAll(bench, ['complete', 'failed for good'])
    const [job] = await bench.store.jobs({ type: 'third', limit: 2 })
    assert.deepEqual([job?.owner, job?.batchId], ['ann', null])
    const { name } = await row(bench, id)
    const news = { state: 'partial', settlement: 1 }
    const sums = { total: 2, unfinished: 0, complete: 1, failed: 1, permanent: 1, cancelled: 0 }
    assert.deepEqual(JSON.parse(String(job?.payload)), {
      say: 'done',
      batch: { id, name, owner: 'ann', ...news, ...sums, data: { campaign: 7 } },
    })
    const wrong = newBatch(bench, { onSettled: { type: 'nobody.declared.this', input: '{}' } })
    await refused('TYPE_UNKNOWN', bench.store.openBatch({ batch: wrong, jobs: [] }))
  },

  async 'it says how many of the unfinished run, and which failure was the last'(bench) {
    const id = await opened(bench, 4)
    const worker = await bench.worker()
    const { leases } = await worker.claim({ max: 3 })
    const split = async () => {
      const { unfinished, processing } = await row(bench, id)
      return [unfinished - processing, processing]
    }
    assert.deepEqual(await split(), [1, 3])
    const [first, second] = leases
    assert(first && second)
    await worker.close(first, failed(first, { deadLetter: 'queue' }))
    const { lastFailure } = await row(bench, id)
    const [letter] = await bench.store.deadLetters({ afterOffset: 0, limit: 1 })
    assert.deepEqual(
      [lastFailure?.jobId, lastFailure?.code, lastFailure?.deadLetterOffset],
      [first.id, someFailure().code, letter?.offset],
    )
    await worker.close(second, failed(second))
    assert.deepEqual(await split(), [1, 1])
    const last = (await row(bench, id)).lastFailure
    assert.deepEqual([last?.jobId, last?.deadLetterOffset], [second.id, null])
    await bench.intervene(second.id, retryInPlace(await bench.row(second.id)))
    assert.equal((await row(bench, id)).lastFailure?.jobId, first.id)
  },

  async 'batches are listed by state, owner and name, the newest first, page by page'(bench) {
    const ids: string[] = []
    for (const [name, owner, isSealed] of [
      ['spring', 'ann', true],
      ['spring', 'bob', false],
      ['summer', 'ann', false],
    ] as const) {
      ids.push(await opened(bench, 0, { name, owner, isSealed }))
    }
    const list = async (filter: object) =>
      (await bench.store.batches({ limit: 10, ...filter })).map(({ id }) => ids.indexOf(id))
    assert.deepEqual(await list({}), [2, 1, 0])
    assert.deepEqual(await list({ owner: 'ann' }), [2, 0])
    assert.deepEqual(await list({ name: 'spring' }), [1, 0])
    assert.deepEqual(await list({ state: 'open' }), [2, 1])
    assert.deepEqual(await list({ state: 'complete', owner: 'ann', name: 'spring' }), [0])
    const [newest] = await bench.store.batches({ limit: 1 })
    assert.deepEqual(await list({ beforeKey: newest?.key, limit: 1 }), [1])
  },

  async 'who seals a batch, and why, is in the audit trail where a person did it'(bench) {
    const id = await opened(bench, 0, { isSealed: false })
    await bench.store.sealBatch({ id, by: { actor: 'olga', reason: 'a test', act: 'batches.cancel' } })
    const [act] = await bench.store.auditTrail({ filter: { target: 'batch' }, beforeSeq: null, limit: 5 })
    assert.deepEqual([act?.actor, act?.reason, act?.act, act?.ids], ['olga', 'a test', 'batches.cancel', [id]])
  },
})

const ROLLUP_TABLE: readonly [NonNullable<NewBatch['rollup']>, readonly End[], BatchRow['state']][] = [
  ['partial', ['complete', 'complete'], 'complete'],
  ['partial', ['complete', 'failed for good'], 'partial'],
  ['partial', ['complete', 'cancelled'], 'partial'],
  ['partial', ['failed', 'cancelled'], 'failed'],
  ['partial', ['cancelled', 'cancelled'], 'cancelled'],
  ['all-or-nothing', ['complete', 'complete'], 'complete'],
  ['all-or-nothing', ['complete', 'failed'], 'failed'],
  ['all-or-nothing', ['cancelled'], 'cancelled'],
  ['any-permanent', ['complete', 'failed'], 'partial'],
  ['any-permanent', ['complete', 'failed', 'failed for good'], 'failed'],
  ['any-permanent', ['failed'], 'failed'],
]

const claimed = async (bench: Bench) => {
  const worker = await bench.worker()
  return { worker, lease: await worker.claimOne(PLAIN) }
}

type Ended = 'complete' | 'failed' | 'cancelled'

const WAYS_TO_END: Record<string, readonly [(bench: Bench, id: string) => Promise<unknown>, Ended]> = {
  'its attempt succeeded': [(bench) => endAll(bench, ['complete']), 'complete'],
  'its attempt failed': [(bench) => endAll(bench, ['failed']), 'failed'],
  'its attempt failed for good': [(bench) => endAll(bench, ['failed for good']), 'failed'],
  'its attempt was cancelled': [(bench) => endAll(bench, ['cancelled']), 'cancelled'],
  'its worker was lost': [
    async (bench) => {
      const { lease } = await claimed(bench)
      await bench.expireLeases()
      return bench.reclaim(lease, failed(lease))
    },
    'failed',
  ],
  'a person cancelled it in the queue': [(bench, id) => bench.intervene(id, { kind: 'cancel' }), 'cancelled'],
  'a person marked it failed for good in the queue': [
    async (bench, id) => bench.intervene(id, markFailed(await bench.row(id))),
    'failed',
  ],
  'a person marked it failed for good while it ran': [
    async (bench, id) => {
      await claimed(bench)
      return bench.intervene(id, markFailed(await bench.row(id)))
    },
    'failed',
  ],
  'it was to be requeued, and a cancellation had been asked for': [
    async (bench, id) => {
      const { worker, lease } = await claimed(bench)
      await bench.intervene(id, { kind: 'request-cancel' })
      return worker.close(lease, requeued('released', lease))
    },
    'cancelled',
  ],
}
