import assert from 'node:assert/strict'
import { policy } from '../../../core/policy/policy.ts'
import type { NewJob } from '../../contract/store.ts'
import { newBatch, ON_SETTLED } from '../bench/batch-bench.ts'
import { requeued, retryInPlace, someFailure } from '../bench/changes.ts'
import { topic } from '../promise.ts'

export const submitting = topic('submitting', {
  async 'a job is kept as it was handed in'(bench) {
    const origin = await bench.finished('failed')
    const payload = JSON.stringify({ text: 'naïve “quotes” 🧀', deep: [{ n: 1.5 }, null] })
    const nowMs = bench.clock.nowMs()
    const id = await bench.submit({
      payload,
      owner: 'otto',
      priority: -3,
      dedupe: { key: 'a key', scope: 'live' },
      retriedFrom: { id: origin, actor: 'olga', reason: 'once more' },
    })
    const row = await bench.row(id)
    assert.deepEqual(
      {
        ...{ type: row.type, queue: row.queue, status: row.status, payload: row.payload, owner: row.owner },
        ...{ priority: row.priority, attempt: row.attempt, spent: row.spent, dedupeKey: row.dedupeKey },
        ...{ retriedFrom: row.retriedFrom, createdAtMs: row.createdAtMs, queuedAtMs: row.queuedAtMs },
        ...{ dueAtMs: row.dueAtMs, isForwardOnly: row.isForwardOnly, isDeadLettered: row.isDeadLettered },
      },
      {
        ...{ type: 'plain', queue: 'default', status: 'queued', payload, owner: 'otto' },
        ...{ priority: -3, attempt: 0, spent: null, dedupeKey: 'a key' },
        ...{ retriedFrom: origin, createdAtMs: nowMs, queuedAtMs: nowMs },
        ...{ dueAtMs: null, isForwardOnly: false, isDeadLettered: false },
      },
    )
    const [event] = await bench.store.events({ id })
    assert.deepEqual([event?.kind, event?.data], ['queued', { actor: 'olga', reason: 'once more' }])
  },

  async 'jobs handed in together are answered in their order'(bench) {
    const jobs = Array.from({ length: 20 }, () => bench.newJob())
    const answers = await bench.store.submit({ jobs })
    assert.deepEqual(
      answers,
      jobs.map(({ id }) => ({ id, isNew: true, status: 'queued' })),
    )
  },

  async 'jobs handed in together are all taken or none'(bench) {
    const good = bench.newJob()
    const jobs = [good, bench.newJob({ type: 'nobody.declared.this' })]
    await assert.rejects(bench.store.submit({ jobs }), { code: 'TYPE_UNKNOWN' })
    assert.equal(await bench.store.job({ id: good.id }), null)
    assert.deepEqual(await bench.store.jobs({ limit: 10 }), [])
  },

  async 'a refused submission that is to be recorded is a failed job that was never dispatched'(bench) {
    const rejected = { ...someFailure('INPUT_INVALID'), phase: 'pre_dispatch' as const, layer: 'submission' as const }
    const job = bench.newJob({ rejected, dedupe: { key: 'k', scope: 'always' } })
    assert.deepEqual(await bench.store.submit({ jobs: [job] }), [{ id: job.id, isNew: true, status: 'failed' }])
    const row = await bench.row(job.id)
    assert.deepEqual([row.status, row.attempt, row.failure], ['failed', 0, row.latestFailure?.seq])
    assert.equal(row.finishedAtMs, bench.clock.nowMs())
    assert.deepEqual(await bench.kinds(job.id), ['failed'])
    const [failure] = await bench.store.failures({ id: job.id })
    assert.deepEqual([failure?.phase, failure?.layer, failure?.from, failure?.to], [...FROM_NOTHING])
    const worker = await bench.worker()
    assert.deepEqual((await worker.claim({ max: 10 })).leases, [])
    // The corrected submission must be able to take the key.
    assert.notEqual(await bench.submit({ dedupe: { key: 'k', scope: 'always' } }), job.id)
  },

  async 'an imported failure is a failed job that says where it comes from, with a dead letter if the policy keeps them'(
    bench,
  ) {
    const rejected = someFailure('IMPORTED')
    const imported = { from: 'BullMQ, queue mail, job 17', attempts: 3 }
    const [queue, flag, none] = (['queue', 'flag', 'none'] as const).map((deadLetter) =>
      bench.newJob({ rejected, imported: { ...imported, deadLetter } }),
    ) as [NewJob, NewJob, NewJob]
    const jobs = [queue, flag, none]
    assert.deepEqual(
      await bench.store.submit({ jobs }),
      jobs.map(({ id }) => ({ id, isNew: true, status: 'failed' })),
    )
    const lettered = await Promise.all(jobs.map(async ({ id }) => (await bench.row(id)).isDeadLettered))
    assert.deepEqual(lettered, [true, true, false])
    const letters = await bench.store.deadLetters({ afterOffset: 0, limit: 10 })
    assert.deepEqual(
      letters.map(({ jobId, attempts, failure }) => [jobId, attempts, failure.code]),
      [[queue.id, 3, 'IMPORTED']],
    )
    const [event] = await bench.store.events({ id: queue.id })
    assert.equal(event?.kind, 'failed')
    assert.equal(event?.data.importedFrom, imported.from)
    assert.equal(event?.data.deadLetterOffset, letters[0]?.offset)
    // Attempts of the other system cost nothing here.
    assert.equal((await bench.row(queue.id)).spent, null)
    // A repeated import finds the jobs.
    const again = await bench.store.submit({ jobs })
    assert.deepEqual(
      again.map(({ id, isNew }) => [id, isNew]),
      jobs.map(({ id }) => [id, false]),
    )
    assert.equal((await bench.store.deadLetters({ afterOffset: 0, limit: 10 })).length, 1)
  },

  async 'an imported job that waits says where it comes from'(bench) {
    const imported = { from: 'pg-boss, queue mail, job 4711', attempts: 0, deadLetter: 'none' as const }
    const id = await bench.submit({ imported })
    const later = await bench.submit({ imported, delayMs: 60_000 })
    for (const one of [id, later]) {
      const [event] = await bench.store.events({ id: one })
      assert.equal(event?.kind, 'queued')
      assert.equal(event?.data.importedFrom, imported.from)
    }
    const { leases } = await (await bench.worker()).claim({ max: 10 })
    assert.deepEqual(
      leases.map((lease) => lease.id),
      [id],
    )
  },

  async 'the trace that a submission was part of comes back with every lease of its job'(bench) {
    const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const origin = await bench.finished('failed')
    const plain = await bench.submit({ trace })
    const special = await bench.submit({ trace, retriedFrom: { id: origin, actor: 'olga', reason: 'again' } })
    const untraced = await bench.submit()
    const worker = await bench.worker()
    const { leases } = await worker.claim({ max: 10 })
    const traceOf = (id: string) => leases.find((lease) => lease.id === id)?.trace
    assert.deepEqual([plain, special, untraced].map(traceOf), [trace, trace, null])
    const first = leases.find(({ id }) => id === plain)
    assert(first !== undefined)
    assert.equal(await worker.close(first, requeued('retry', first)), 'closed')
    assert.equal((await worker.claim({ max: 10 })).leases[0]?.trace, trace)
  },

  async 'listeners hear of work that became ready through this process, until they leave'(bench) {
    let heard = 0
    const leave = bench.store.onWake(() => heard++)
    await bench.submit()
    assert(heard > 0, 'a submission was not heard')
    leave()
    const before = heard
    await bench.submit()
    assert.equal(heard, before)
  },

  async 'listeners hear of every act of this process that can make a job ready'(bench) {
    const by = { actor: 'olga', reason: 'a test' }
    let heard = 0
    bench.store.onWake(() => heard++)
    const hears = async (what: string, act: () => Promise<unknown>): Promise<void> => {
      const before = heard
      await act()
      assert(heard > before, `${what} was not heard`)
    }
    const { lease, worker } = await bench.processing()
    await hears('a retry', () => worker.close(lease, requeued('retry', lease)))
    const broken = await bench.finished('failed')
    const retry = retryInPlace(await bench.row(broken))
    await hears('a manual retry', () => bench.intervene(broken, retry))
    await bench.store.pauseQueue({ name: 'default', by, forMs: null })
    await hears('a resumed queue', () => bench.store.resumeQueue({ name: 'default', by }))
    await bench.declare('guarded', policy({ breaker: { guards: 'gateway' } }))
    await bench.store.forceBreaker({ name: 'gateway', status: 'open', forMs: null, by })
    await hears('a released breaker', () => bench.store.releaseBreaker({ name: 'gateway', by }))
    const batch = newBatch(bench, { onSettled: ON_SETTLED, isSealed: false })
    await bench.store.openBatch({ batch, jobs: [] })
    await hears('the job of a settled batch', () => bench.store.sealBatch({ id: batch.id }))
  },
})

const FROM_NOTHING = ['pre_dispatch', 'submission', null, 'failed'] as const
