import assert from 'node:assert/strict'
import type { Merge } from '../../../core/job/merging.ts'
import type { NewJob, Submitted } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { complete, failed, retryInPlace } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const SECOND_MS = 1_000
const debounce: Merge = { kind: 'debounce', key: 'doc 1', waitMs: 5 * SECOND_MS, maxWaitMs: null }
const throttle: Merge = { kind: 'throttle', key: 'doc 1', everyMs: 60 * SECOND_MS }
const singleton: Merge = { kind: 'singleton', key: '' }
const held = { key: 'doc 1', scope: 'always', forMs: 60 * SECOND_MS } as const

export const merging = topic('merged submissions', {
  async 'a job with a time is due at that time of the store, and at once if the time is over'(bench) {
    const runAtMs = bench.clock.nowMs() + SECOND_MS
    const [later, past] = await bench.store.submit({
      jobs: [bench.newJob({ runAtMs }), bench.newJob({ runAtMs: runAtMs - 2 * SECOND_MS })],
    })
    assert(later !== undefined && past !== undefined)
    assert.equal((await bench.row(later.id)).dueAtMs, runAtMs)
    assert.equal((await bench.row(past.id)).dueAtMs, null)
    // With a dedupe key, jobs are added by another statement.
    const keyed = await bench.submit({ runAtMs, dedupe: { key: 'a', scope: 'live' } })
    assert.equal((await bench.row(keyed)).dueAtMs, runAtMs)
    const worker = await bench.worker()
    const early = await worker.claim({ max: 10 })
    assert.deepEqual(idsOf(early.leases), [past.id])
    assert.equal(early.nextDueAtMs, runAtMs)
    await bench.clock.advance(SECOND_MS)
    assert.deepEqual(idsOf((await worker.claim({ max: 10 })).leases).toSorted(), [later.id, keyed].toSorted())
    await bench.checkAll()
  },

  async 'a dedupe key is held for its time whatever becomes of the job, and is free afterwards'(bench) {
    for (const end of ['complete', 'failed', 'cancelled'] as const) {
      const dedupe: NewJob['dedupe'] = { ...held, key: end }
      const first = await bench.finished(end, { dedupe })
      await bench.clock.advance(60 * SECOND_MS - 1)
      assert.equal(await bench.submit({ dedupe }), first)
      await bench.clock.advance(1)
      const second = await bench.submit({ dedupe })
      assert.notEqual(second, first)
      assert.equal(await bench.submit({ dedupe }), second)
    }
    await bench.checkAll()
  },

  async 'a dedupe key whose time is over is free for every kind of submission'(bench) {
    const pastOne = async () => {
      const id = await bench.submit({ dedupe: held })
      await bench.clock.advance(60 * SECOND_MS)
      return id
    }
    const first = await pastOne()
    const live = await bench.submit({ dedupe: { key: 'doc 1', scope: 'live' } })
    assert.notEqual(live, first)
    await bench.intervene(live, { kind: 'cancel' })
    const second = await pastOne()
    const by = { actor: 'olga', reason: 'a test' }
    assert.notEqual(await bench.submit({ dedupe: held, by }), second)
  },

  async 'a hundred submissions after the time of a dedupe key make one job'(bench) {
    const first = await bench.submit({ dedupe: held })
    await bench.clock.advance(60 * SECOND_MS)
    const answers = await inManyProcesses(bench, 100, () => ({ dedupe: held }))
    assert.equal(answers.filter(({ isNew }) => isNew).length, 1)
    assert.equal(new Set(answers.map(({ id }) => id)).size, 1)
    assert.notEqual(answers[0]?.id, first)
  },

  async 'a failed job can be retried in place though a later job had its dedupe key for a time'(bench) {
    const dedupe: NewJob['dedupe'] = { key: 'doc 1', scope: 'live' }
    const id = await bench.finished('failed', { dedupe })
    await bench.finished('complete', { dedupe: held })
    assert.equal(await bench.intervene(id, retryInPlace(await bench.row(id))), 'dedupe-taken')
    await bench.clock.advance(60 * SECOND_MS)
    assert.equal(await bench.intervene(id, retryInPlace(await bench.row(id))), 'done')
  },

  async 'a debounced job gets the newest input, and runs when no submission came for its time'(bench) {
    const [first] = await submit(bench, { merge: debounce, payload: '1' })
    assert.deepEqual([first?.isNew, first?.isReplaced], [true, undefined])
    for (const payload of ['2', '3']) {
      await bench.clock.advance(4 * SECOND_MS)
      const [again] = await submit(bench, { merge: debounce, payload })
      assert.deepEqual(again, { id: first?.id, isNew: false, isReplaced: true, status: 'queued' })
    }
    const dueAtMs = bench.clock.nowMs() + 5 * SECOND_MS
    const id = first?.id ?? ''
    const row = await bench.row(id)
    assert.deepEqual([row.payload, row.dueAtMs], ['3', dueAtMs])
    const { kind, data } = await bench.lastEvent(id)
    assert.deepEqual([kind, data], ['input-replaced', { dueAtMs }])
    const worker = await bench.worker()
    await bench.clock.advance(5 * SECOND_MS - 1)
    assert.deepEqual((await worker.claim()).leases, [])
    await bench.clock.advance(1)
    assert.equal((await worker.claimOne()).payload, '3')
    await bench.checkAll()
  },

  async 'a debounced job waits no longer than its longest wait'(bench) {
    const merge: Merge = { ...debounce, maxWaitMs: 12 * SECOND_MS }
    const id = await bench.submit({ merge })
    const lastAtMs = bench.clock.nowMs() + 12 * SECOND_MS
    for (let i = 0; i < 3; i++) {
      await bench.clock.advance(4 * SECOND_MS - 1)
      assert.equal(await bench.submit({ merge, payload: String(i) }), id)
      assert.ok(((await bench.row(id)).dueAtMs ?? 0) <= lastAtMs)
    }
    // It is due and no worker has it yet: the input is still replaced, and it stays due.
    await bench.clock.advance(2 * SECOND_MS)
    assert.equal(await bench.submit({ merge, payload: '"last"' }), id)
    const worker = await bench.worker()
    assert.equal((await worker.claimOne()).payload, '"last"')
    await bench.checkAll()
  },

  async 'a job that a worker has had keeps its input: the next submission makes a new job'(bench) {
    for (const merge of [debounce, { ...throttle, everyMs: SECOND_MS }]) {
      const id = await bench.submit({ merge, payload: '1' })
      await bench.clock.advance(5 * SECOND_MS)
      const worker = await bench.worker()
      const lease = await worker.claimOne()
      assert.equal(lease.id, id)
      const [next] = await submit(bench, { merge, payload: '2' })
      assert.deepEqual([next?.isNew, next?.isReplaced], [true, undefined])
      assert.equal((await bench.row(id)).payload, '1')
      await worker.close(lease, complete())
      await bench.intervene(next?.id ?? '', { kind: 'cancel' })
    }
  },

  async 'fifty debounced submissions in several processes make one job with one of their inputs'(bench) {
    const answers = await inManyProcesses(bench, 50, (i) => ({ merge: debounce, payload: String(i) }))
    assert.equal(answers.filter(({ isNew }) => isNew).length, 1)
    assert.equal(answers.filter(({ isReplaced }) => isReplaced === true).length, 49)
    const [job, ...others] = await bench.store.jobs({ limit: 100 })
    assert(job !== undefined)
    assert.deepEqual(others, [])
    assert.equal(job.dueAtMs, bench.clock.nowMs() + 5 * SECOND_MS)
    assert.ok(Number(job.payload) >= 0 && Number(job.payload) < 50)
    assert.equal((await bench.kinds(job.id)).length, 50)
    await bench.checkAll()
  },

  async 'a submission that meets a claim replaces the input before it, or makes a new job'(bench) {
    const [store, other] = await bench.openMany(2)
    const worker = await bench.worker(other)
    for (let i = 0; i < 20; i++) {
      const merge: Merge = { ...debounce, key: `claimed ${i}`, maxWaitMs: 5 * SECOND_MS }
      const id = await bench.submit({ merge, payload: '"old"' })
      await bench.clock.advance(5 * SECOND_MS)
      const claiming = worker.claim({ max: 10 })
      const [next] = await store.submit({ jobs: [bench.newJob({ merge, payload: '"new"' })] })
      const claimed = await claiming
      const leases = [...claimed.leases, ...(await worker.claim({ max: 10 })).leases]
      const [lease] = leases
      assert.equal(lease?.id, id)
      assert.equal(leases.length, 1)
      assert.equal(lease?.payload, next?.isReplaced === true ? '"new"' : '"old"', JSON.stringify(next))
      assert.equal((await bench.row(id)).payload, lease?.payload)
      if (next?.isNew === true) await bench.intervene(next.id, { kind: 'cancel' })
    }
    await bench.checkAll()
  },

  async 'a throttled key has one job per period: the first at once, the others as one when it ends'(bench) {
    const [first] = await submit(bench, { merge: throttle, payload: '1' })
    const startedAtMs = bench.clock.nowMs()
    assert.equal((await bench.row(first?.id ?? '')).dueAtMs, null)
    const [second] = await submit(bench, { merge: throttle, payload: '2' })
    assert.deepEqual([second?.isNew, second?.isReplaced], [true, undefined])
    await bench.clock.advance(30 * SECOND_MS)
    const [third] = await submit(bench, { merge: throttle, payload: '3' })
    assert.deepEqual(third, { id: second?.id, isNew: false, isReplaced: true, status: 'queued' })
    const row = await bench.row(second?.id ?? '')
    assert.deepEqual([row.payload, row.dueAtMs], ['3', startedAtMs + 60 * SECOND_MS])
    // The job of the second period is due: what comes now belongs to the third.
    await bench.clock.advance(45 * SECOND_MS)
    const [fourth] = await submit(bench, { merge: throttle, payload: '4' })
    assert.equal(fourth?.isNew, true)
    assert.equal((await bench.row(fourth?.id ?? '')).dueAtMs, startedAtMs + 120 * SECOND_MS)
    await bench.clock.advance(300 * SECOND_MS)
    const [fifth] = await submit(bench, { merge: throttle, payload: '5' })
    assert.equal(fifth?.isNew, true)
    assert.equal((await bench.row(fifth?.id ?? '')).dueAtMs, null)
    await bench.checkAll()
  },

  async 'fifty throttled submissions in several processes make two jobs'(bench) {
    const answers = await inManyProcesses(bench, 50, (i) => ({ merge: throttle, payload: String(i) }))
    assert.equal(answers.filter(({ isNew }) => isNew).length, 2)
    assert.equal((await bench.store.jobs({ limit: 100 })).length, 2)
    await bench.checkAll()
  },

  async 'a throttled job that was cancelled is made again for the same time'(bench) {
    await bench.submit({ merge: throttle })
    const second = await bench.submit({ merge: throttle })
    const { dueAtMs } = await bench.row(second)
    await bench.intervene(second, { kind: 'cancel' })
    const third = await bench.submit({ merge: throttle })
    assert.notEqual(third, second)
    assert.equal((await bench.row(third)).dueAtMs, dueAtMs)
  },

  async 'at most one job of a singleton waits, and a further submission finds it'(bench) {
    const answers = await inManyProcesses(bench, 50, (i) => ({ merge: singleton, payload: String(i) }))
    assert.equal(answers.filter(({ isNew }) => isNew).length, 1)
    assert.equal(new Set(answers.map(({ id }) => id)).size, 1)
    assert.ok(answers.every(({ isReplaced }) => isReplaced === undefined))
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    const second = await bench.submit({ merge: singleton })
    assert.notEqual(second, lease.id)
    assert.equal(await bench.submit({ merge: singleton }), second)
    await worker.close(lease, failed(lease))
    assert.equal(await bench.submit({ merge: singleton }), second)
    const keyed = await bench.submit({ merge: { ...singleton, key: 'b' } })
    assert.notEqual(keyed, second)
    await bench.checkAll()
  },

  async 'keys of different kinds and types do not meet'(bench) {
    const key = 'same'
    const ids = [
      await bench.submit({ merge: { ...debounce, key } }),
      await bench.submit({ merge: { ...throttle, key } }),
      await bench.submit({ merge: { ...singleton, key } }),
      await bench.submit({ dedupe: { key, scope: 'live' } }),
      await bench.submit({ type: 'other', merge: { ...debounce, key } }),
      await bench.submit(),
    ]
    assert.equal(new Set(ids).size, ids.length)
  },

  async 'the same submission again finds what it came to'(bench) {
    const first = bench.newJob({ merge: debounce, payload: '1' })
    const second = bench.newJob({ merge: debounce, payload: '2' })
    await bench.store.submit({ jobs: [first] })
    const again = async (job: NewJob) => (await bench.store.submit({ jobs: [job] }))[0]
    assert.deepEqual(await again(first), { id: first.id, isNew: false, status: 'queued' })
    await bench.store.submit({ jobs: [second] })
    const worker = await bench.worker()
    await bench.clock.advance(5 * SECOND_MS)
    await worker.close(await worker.claimOne(), complete())
    assert.deepEqual(await again(second), { id: first.id, isNew: false, isReplaced: true, status: 'complete' })
    assert.equal((await bench.store.jobs({ limit: 10 })).length, 1)
  },

  async 'one call with many keys merges each, also a key that comes twice'(bench) {
    const job = (key: string, payload: string) => bench.newJob({ merge: { ...debounce, key }, payload })
    const answers = await bench.store.submit({ jobs: [job('a', '1'), job('b', '2'), job('a', '3'), bench.newJob()] })
    assert.deepEqual(
      answers.map(({ isNew, isReplaced = false }) => [isNew, isReplaced]),
      [
        [true, false],
        [true, false],
        [false, true],
        [true, false],
      ],
    )
    assert.equal((await bench.row(answers[0]?.id ?? '')).payload, '3')
    const handles = await bench.openMany(4)
    const keys = ['a', 'b', 'c', 'd']
    const calls = Array.from({ length: 24 }, (_, i) => {
      const order = i % 2 === 0 ? keys : keys.toReversed()
      return handles[i % 4]?.submit({ jobs: order.map((key) => job(key, String(i))) }) ?? []
    })
    await Promise.all(calls)
    assert.equal((await bench.store.jobs({ limit: 100 })).length, 5)
  },

  async 'a refused submission replaces nothing'(bench) {
    const id = await bench.submit({ merge: debounce, payload: '1' })
    const refused = await bench.finished('failed')
    const failure = (await bench.store.failures({ id: refused }))[0]
    assert(failure !== undefined)
    const [answer] = await submit(bench, { merge: debounce, payload: '2', rejected: failure })
    assert.deepEqual([answer?.isNew, answer?.status], [true, 'failed'])
    assert.equal((await bench.row(id)).payload, '1')
  },

  async 'a job in a batch that gets a new input is counted once'(bench) {
    const batch = { name: 'b', owner: null, rollup: null, isSealed: false, expiresInMs: null }
    const id = bench.makeId()
    await bench.store.openBatch({ batch: { ...batch, id, data: '{}', onSettled: null, notify: null }, jobs: [] })
    await bench.submit({ batch: id, merge: debounce })
    await bench.submit({ batch: id, merge: debounce })
    await bench.submit({ batch: id, merge: debounce })
    assert.equal((await bench.store.batch({ id }))?.total, 1)
  },

  async 'keys that no submission can meet are forgotten, and the others are kept'(bench) {
    const waiting = await bench.submit({ merge: { ...debounce, waitMs: 24 * 3_600 * SECOND_MS } })
    await bench.submit({ merge: throttle })
    const done = await bench.submit({ merge: singleton })
    await bench.intervene(done, { kind: 'cancel' })
    assert.equal(await bench.store.forgetKeys({ limit: 10 }), 0)
    await bench.clock.advance(3_600 * SECOND_MS)
    assert.equal(await bench.store.forgetKeys({ limit: 2 }), 2)
    assert.equal(await bench.store.forgetKeys({ limit: 10 }), 1)
    assert.equal(await bench.store.forgetKeys({ limit: 10 }), 0)
    assert.equal(await bench.submit({ merge: debounce }), waiting)
  },
})

const idsOf = (jobs: readonly { id: string }[]): string[] => jobs.map(({ id }) => id)

const submit = (bench: Bench, parts: Partial<NewJob>): Promise<Submitted[]> =>
  bench.store.submit({ jobs: [bench.newJob(parts)] })

async function inManyProcesses(
  bench: Bench,
  count: number,
  partsOf: (i: number) => Partial<NewJob>,
): Promise<Submitted[]> {
  const handles = await bench.openMany(4)
  const calls = Array.from({ length: count }, (_, i) => {
    const handle = handles[i % handles.length] ?? bench.store
    return handle.submit({ jobs: [bench.newJob(partsOf(i))] })
  })
  return (await Promise.all(calls)).flat()
}
