import assert from 'node:assert/strict'
import type { NewJob } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { cancelled, complete, failed, markFailed, requeued, retryInPlace } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const live: NewJob['dedupe'] = { key: 'invoice 1', scope: 'live' }
const always: NewJob['dedupe'] = { key: 'invoice 1', scope: 'always' }

export const dedupe = topic('dedupe', {
  async 'a hundred submissions of one key, through several processes at once, make one job'(bench) {
    const handles = await bench.openMany(4)
    const calls = Array.from({ length: 100 }, (_, i) => {
      const handle = handles[i % handles.length] ?? bench.store
      return handle.submit({ jobs: [bench.newJob({ dedupe: live })] })
    })
    const answers = (await Promise.all(calls)).flat()
    assert.equal(answers.filter(({ isNew }) => isNew).length, 1)
    assert.equal(new Set(answers.map(({ id }) => id)).size, 1)
    assert.equal((await bench.store.jobs({ limit: 200 })).length, 1)
  },

  async 'the key counts within one call, too'(bench) {
    const jobs = [bench.newJob({ dedupe: live }), bench.newJob({ dedupe: live }), bench.newJob()]
    const [first, second, third] = await bench.store.submit({ jobs })
    assert.deepEqual([first?.isNew, second?.isNew, third?.isNew], [true, false, true])
    assert.equal(second?.id, first?.id)
  },

  async 'an id submitted again is the same job, whatever became of it'(bench) {
    const job = bench.newJob({ payload: '{"first":true}' })
    await bench.store.submit({ jobs: [job] })
    const again = async () => (await bench.store.submit({ jobs: [{ ...job, payload: '{}' }] }))[0]
    assert.deepEqual(await again(), { id: job.id, isNew: false, status: 'queued' })
    const worker = await bench.worker()
    await worker.close(await worker.claimOne(), complete('"done"'))
    assert.deepEqual(await again(), { id: job.id, isNew: false, status: 'complete' })
    const row = await bench.row(job.id)
    assert.deepEqual([row.payload, row.result], [job.payload, '"done"'])
    assert.deepEqual(await bench.kinds(job.id), ['queued', 'processing', 'complete'])
  },

  async 'an id submitted again is found though another job has its key by now'(bench) {
    const first = bench.newJob({ dedupe: live })
    await bench.store.submit({ jobs: [first] })
    await bench.intervene(first.id, { kind: 'cancel' })
    const second = await bench.submit({ dedupe: live })
    assert.notEqual(second, first.id)
    const [again] = await bench.store.submit({ jobs: [first] })
    assert.deepEqual(again, { id: first.id, isNew: false, status: 'cancelled' })
  },

  async 'a live key is kept while the job is queued, processing, retried or complete'(bench) {
    const first = await bench.submit({ dedupe: live })
    const worker = await bench.worker()
    const isKept = async (when: string) =>
      assert.equal(await bench.submit({ dedupe: live }), first, `the key was free when ${when}`)
    await isKept('queued')
    const lease = await worker.claimOne()
    await isKept('processing')
    await worker.close(lease, requeued('retry', lease, { delayMs: 1_000 }))
    await isKept('waiting for its retry')
    await bench.clock.advance(1_000)
    await worker.close(await worker.claimOne(), complete())
    await isKept('complete')
  },

  async 'a live key is free again when the job failed or was cancelled, however that came'(bench) {
    for (const [way, end] of Object.entries(WAYS_TO_END)) {
      const first = await bench.submit({ dedupe: live })
      await end(bench, first)
      const second = await bench.submit({ dedupe: live })
      assert.notEqual(second, first, `the key was still held when ${way}`)
      await bench.intervene(second, { kind: 'cancel' })
    }
  },

  async 'a key for always is kept when the job failed or was cancelled'(bench) {
    for (const [way, end] of Object.entries(WAYS_TO_END)) {
      const ofThisWay: NewJob['dedupe'] = { key: way, scope: 'always' }
      const first = await bench.submit({ dedupe: ofThisWay })
      await end(bench, first)
      assert.equal(await bench.submit({ dedupe: ofThisWay }), first, `the key was free when ${way}`)
    }
  },

  async 'what a job made expires once for each reason, and a live key is free then'(bench) {
    const first = await bench.finished('complete', { dedupe: live })
    const handles = await bench.openMany(2)
    const told = await Promise.all(
      handles.map((handle) => handle.expire({ id: first, reason: 'its file was removed after 30 days' })),
    )
    assert.deepEqual(told.toSorted(), [false, true])
    assert.equal(await bench.store.expire({ id: first, reason: 'its source was removed after 7 days' }), true)
    assert.deepEqual(await bench.kinds(first), ['queued', 'processing', 'complete', 'expired', 'expired'])
    const [event] = (await bench.store.events({ id: first })).filter(({ kind }) => kind === 'expired')
    assert.deepEqual(event?.data, { reason: 'its file was removed after 30 days', status: 'complete' })
    assert.equal((await bench.row(first)).status, 'complete')
    assert.notEqual(await bench.submit({ dedupe: live }), first)
  },

  async 'a key for always outlives what the job made'(bench) {
    const first = await bench.finished('complete', { dedupe: always })
    await bench.store.expire({ id: first, reason: 'its file was removed' })
    assert.equal(await bench.submit({ dedupe: always }), first)
  },

  async 'nothing expires of a job that is under way, or is not there'(bench) {
    const id = await bench.submit({ dedupe: live })
    const worker = await bench.worker()
    for (const when of ['queued', 'processing']) {
      await bench.changesNothing(id, `an expiry while it is ${when}`, async () =>
        assert.equal(await bench.store.expire({ id, reason: 'too early' }), false),
      )
      if (when === 'queued') await worker.claimOne()
    }
    assert.equal(await bench.store.expire({ id: bench.newJob().id, reason: 'of nobody' }), false)
  },

  async 'a key ends with the job that held it'(bench) {
    const first = await bench.finished('complete', { dedupe: always })
    await bench.clock.advance(1)
    const rule = { type: 'plain', completeMs: 0, failedMs: null, cancelledMs: null }
    assert.equal((await bench.store.prune({ rules: [rule], after: 0, limit: 100 })).removed, 1)
    assert.notEqual(await bench.submit({ dedupe: always }), first)
  },

  async 'the same key of another type is another key'(bench) {
    const first = await bench.submit({ dedupe: live })
    assert.notEqual(await bench.submit({ type: 'other', dedupe: live }), first)
  },

  async 'jobs without a key are never taken for one another'(bench) {
    assert.notEqual(await bench.submit(), await bench.submit())
  },

  async 'a manual retry takes its key again, unless another job has it'(bench) {
    const first = await bench.finished('failed', { dedupe: live })
    const second = await bench.submit({ dedupe: live })
    const row = await bench.row(first)
    await bench.changesNothing(first, 'a retry without its key', async () =>
      assert.equal(await bench.intervene(first, retryInPlace(row)), 'dedupe-taken'),
    )
    await bench.intervene(second, { kind: 'cancel' })
    assert.equal(await bench.intervene(first, retryInPlace(row)), 'done')
    assert.equal(await bench.submit({ dedupe: live }), first)
  },
})

const WAYS_TO_END: Record<string, (bench: Bench, id: string) => Promise<unknown>> = {
  'its attempt failed': async (bench) => {
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    return worker.close(lease, failed(lease))
  },
  'its attempt was cancelled': async (bench) => {
    const worker = await bench.worker()
    return worker.close(await worker.claimOne(), cancelled())
  },
  'its worker was lost for good': async (bench) => {
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    await bench.expireLeases()
    return bench.reclaim(lease, failed(lease))
  },
  'a person cancelled it in the queue': (bench, id) => bench.intervene(id, { kind: 'cancel' }),
  'a person marked it failed': async (bench, id) => bench.intervene(id, markFailed(await bench.row(id))),
  'it was to be requeued, and a cancellation had been asked for': async (bench, id) => {
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    await bench.intervene(id, { kind: 'request-cancel' })
    return worker.close(lease, requeued('released', lease))
  },
}
