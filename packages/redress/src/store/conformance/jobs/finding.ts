import assert from 'node:assert/strict'
import { STATUSES } from '../../../core/job/states.ts'
import type { JobFilter, JobRow, NewJob } from '../../contract/store.ts'
import { endAll, newBatch, opened } from '../bench/batch-bench.ts'
import type { Bench } from '../bench/bench.ts'
import { failed, markFailed, retryInPlace, someFailure } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const idsOf = (rows: readonly JobRow[]): string[] => rows.map(({ id }) => id)
const find = async (bench: Bench, filter: Omit<JobFilter, 'limit'>): Promise<string[]> =>
  idsOf((await bench.store.jobPage({ ...filter, limit: 50 })).jobs)

export const finding = topic('finding', {
  async 'a failed job is found by the code it ended with, whoever ended it'(bench) {
    const closed = await bench.finished('failed')
    const marked = await bench.submit()
    await bench.intervene(marked, markFailed({ spent: null }))
    const refused = await bench.submit({ rejected: someFailure('NOT_PDF') })
    const { id: lost, lease } = await bench.processing()
    await bench.expireLeases()
    await bench.reclaim(lease, { ...failed(lease), failure: someFailure('WORKER_LOST') })
    assert.deepEqual(await find(bench, { code: 'BROKEN' }), [closed])
    assert.deepEqual(await find(bench, { code: 'MARKED_FAILED' }), [marked])
    assert.deepEqual(await find(bench, { code: 'NOT_PDF' }), [refused])
    assert.deepEqual(await find(bench, { code: 'WORKER_LOST' }), [lost])
    assert.deepEqual(await find(bench, { code: 'broken' }), [])
  },

  async 'a job that goes back to the queue has no code any more, and may end with another one'(bench) {
    const id = await bench.finished('failed')
    await bench.intervene(id, retryInPlace(await bench.row(id)))
    assert.deepEqual(await find(bench, { code: 'BROKEN' }), [])
    await bench.intervene(id, markFailed(await bench.row(id)))
    assert.deepEqual(await find(bench, { code: 'MARKED_FAILED' }), [id])
    assert.deepEqual(await find(bench, { code: 'BROKEN' }), [])
  },

  async 'failed jobs are counted by type and code, with the words of the newest'(bench) {
    const batch = newBatch(bench, { isSealed: false })
    await bench.store.openBatch({ batch, jobs: [] })
    const refuse = (code: string, parts: Partial<NewJob> = {}, message = 'It broke.') =>
      bench.submit({ batch: batch.id, rejected: { ...someFailure(code), message }, ...parts })
    for (let i = 0; i < 3; i++) await refuse('NOT_PDF')
    await refuse('NOT_PDF', {}, 'The newest words.')
    await refuse('NOT_PDF', { type: 'other' })
    await refuse('TOO_BIG', { owner: 'otto' })
    await bench.finished('failed', { batch: batch.id, type: 'forward' })
    await bench.finished('complete', { batch: batch.id })
    const retried = await refuse('NOT_PDF')
    await bench.intervene(retried, retryInPlace(await bench.row(retried)))
    await bench.finished('failed')
    const count = async (filter: Pick<JobFilter, 'owner' | 'batch'>, max = 100) => {
      const { ends, isMore } = await bench.store.countFailed({ ...filter, max })
      const counts = ends.map((end) => [end.type, end.code, end.isForwardOnly, end.count, end.message])
      return { counts: counts.toSorted(), isMore }
    }
    assert.deepEqual(await count({ batch: batch.id }), {
      counts: [
        ['forward', 'BROKEN', true, 1, 'It broke.'],
        ['other', 'NOT_PDF', false, 1, 'It broke.'],
        ['plain', 'NOT_PDF', false, 4, 'The newest words.'],
        ['plain', 'TOO_BIG', false, 1, 'It broke.'],
      ],
      isMore: false,
    })
    assert.deepEqual(await count({ batch: batch.id, owner: 'otto' }), {
      counts: [['plain', 'TOO_BIG', false, 1, 'It broke.']],
      isMore: false,
    })
    assert.deepEqual(await count({ batch: batch.id }, 2), {
      counts: [
        ['forward', 'BROKEN', true, 1, 'It broke.'],
        ['plain', 'TOO_BIG', false, 1, 'It broke.'],
      ],
      isMore: true,
    })
    assert.deepEqual(await count({ batch: 'nowhere' }), { counts: [], isMore: false })
  },

  async 'jobs are found by when they were created, to the millisecond'(bench) {
    const ids: string[] = []
    const times: number[] = []
    for (let i = 0; i < 20; i++) {
      ids.unshift(await bench.submit())
      times.unshift(await bench.store.nowMs())
      await bench.clock.advance(i % 3 === 0 ? 60_000 : 1)
    }
    for (const [i, createdSinceMs] of times.entries()) {
      const since = times.filter((ms) => ms >= createdSinceMs).length
      assert.deepEqual(await find(bench, { createdSinceMs }), ids.slice(0, since), `since that of job ${i}`)
    }
    for (const [i, createdBeforeMs] of times.entries()) {
      const later = times.filter((ms) => ms >= createdBeforeMs).length
      assert.deepEqual(await find(bench, { createdBeforeMs }), ids.slice(later), `before that of job ${i}`)
    }
    const [from, to] = [times[12] as number, times[4] as number]
    const between = ids.filter((_, i) => (times[i] as number) >= from && (times[i] as number) < to)
    assert.deepEqual(await find(bench, { createdSinceMs: from, createdBeforeMs: to }), between)
    assert.deepEqual(await find(bench, { createdBeforeMs: 0 }), [])
    assert.deepEqual(await find(bench, { createdSinceMs: 0 }), ids)
    assert.deepEqual(await find(bench, { createdSinceMs: (times[0] as number) + 1 }), [])
  },

  async 'jobs are found by the job that a person made them from'(bench) {
    const origin = await bench.finished('failed')
    const made = async (id: string, retriedAsSeen: string | null, parts: Partial<NewJob> = {}) =>
      bench.submit({ retriedFrom: { id, actor: 'olga', reason: 'a test', retriedAsSeen }, ...parts })
    const first = await made(origin, null)
    await bench.finish(first, 'failed')
    const second = await made(origin, first, { owner: 'otto' })
    await made(first, null)
    assert.deepEqual(await find(bench, { retriedFrom: origin }), [second, first])
    assert.deepEqual(await find(bench, { retriedFrom: origin, owner: 'otto' }), [second])
    assert.deepEqual(await find(bench, { retriedFrom: origin, status: 'failed' }), [first])
    assert.deepEqual(await find(bench, { retriedFrom: second }), [])
    assert.deepEqual(await bench.store.countJobs({ retriedFrom: origin, max: 10 }), { count: 2, isMore: false })
    const { nextKey } = await bench.store.jobPage({ retriedFrom: origin, limit: 1 })
    assert.deepEqual(await find(bench, { retriedFrom: origin, beforeKey: nextKey ?? 0 }), [first])
  },

  async 'jobs are found by any of the things that a person may have in their hand'(bench) {
    const batch = await opened(bench, 1)
    const [inBatch] = await endAll(bench, ['failed'])
    const owned = await bench.submit({ owner: 'otto' })
    const held = await bench.submit({ dedupe: { key: 'invoice 7', scope: 'live' } })
    const other = await bench.submit({ type: 'other' })
    await bench.clock.advance(1_000_000)
    const last = await bench.submit()
    assert.deepEqual(await find(bench, { q: owned }), [owned])
    assert.deepEqual(await find(bench, { q: owned.toUpperCase() }), [owned])
    assert.deepEqual(await find(bench, { q: last.slice(0, 8) }), [last])
    assert.deepEqual(await find(bench, { q: last.slice(0, 7) }), [], 'too little of an id says nothing')
    assert.deepEqual(await find(bench, { q: 'invoice 7' }), [held])
    assert.deepEqual(await find(bench, { q: batch }), [inBatch])
    assert.deepEqual(await find(bench, { q: 'BROKEN' }), [inBatch])
    assert.deepEqual(await find(bench, { q: 'otto' }), [owned])
    assert.deepEqual(await find(bench, { q: 'other' }), [other])
    for (const q of ['%', 'ott', "o' OR 1=1", '', '\0', '0'.repeat(8)])
      assert.deepEqual(await find(bench, { q }), [], q)
    // What one text means in several ways is found in all of them, and only once.
    const both = await bench.submit({ owner: 'other', type: 'other' })
    const named = await bench.submit({ owner: 'other' })
    assert.deepEqual(await find(bench, { q: 'other' }), [named, both, other])
    assert.deepEqual(await find(bench, { q: 'other', owner: 'other', type: 'other' }), [both])
    assert.deepEqual(await find(bench, { q: owned, owner: 'other' }), [])
    assert.deepEqual(await find(bench, { q: 'BROKEN', code: 'OTHER' }), [])
  },

  async 'a dedupe key is looked for as long as it is held'(bench) {
    const id = await bench.finished('failed', { dedupe: { key: 'k', scope: 'live' } })
    assert.deepEqual(await find(bench, { q: 'k' }), [])
    const again = await bench.submit({ dedupe: { key: 'k', scope: 'live' } })
    assert.deepEqual(await find(bench, { q: 'k' }), [again])
    assert.notEqual(id, again)
  },

  async 'every combination of filters finds what fits all of them, page by page, and counts it'(bench) {
    const all = await manyKinds(bench)
    for (const filter of await combinations(bench)) {
      const expected = idsOf(all.filter((row) => fits(row, filter)))
      const read: string[] = []
      let beforeKey: number | null | undefined
      while (beforeKey !== null) {
        const page = await bench.store.jobPage({ ...filter, limit: 7, ...(beforeKey !== undefined && { beforeKey }) })
        assert(page.jobs.length <= 7)
        read.push(...idsOf(page.jobs))
        beforeKey = page.nextKey
      }
      assert.deepEqual(read, expected, JSON.stringify(filter))
      assert.deepEqual(idsOf(await bench.store.jobs({ ...filter, limit: 100 })), expected, JSON.stringify(filter))
      const count = { count: expected.length, isMore: false }
      assert.deepEqual(await bench.store.countJobs({ ...filter, max: 100 }), count, JSON.stringify(filter))
    }
  },

  async 'counting goes as far as it is asked to'(bench) {
    for (let i = 0; i < 4; i++) await bench.submit({ owner: 'otto' })
    const count = (max: number) => bench.store.countJobs({ owner: 'otto', max })
    assert.deepEqual(await count(5), { count: 4, isMore: false })
    assert.deepEqual(await count(4), { count: 4, isMore: false })
    assert.deepEqual(await count(3), { count: 3, isMore: true })
    assert.deepEqual(await bench.store.countJobs({ isActive: true, owner: 'nobody', max: 3 }), {
      count: 0,
      isMore: false,
    })
  },
})

/** Jobs of every status, of two owners and nobody, of three types, some in a batch; the newest first. */
async function manyKinds(bench: Bench): Promise<JobRow[]> {
  const batch = newBatch(bench, { isSealed: false })
  await bench.store.openBatch({ batch, jobs: [] })
  for (let i = 0; i < 60; i++) {
    const type = (['plain', 'other', 'third'] as const)[i % 3] ?? 'plain'
    const owner = [null, 'ann', 'ben', 'ann'][i % 4] ?? null
    const parts = { type, owner, batch: i % 5 === 0 ? batch.id : null }
    const status = STATUSES[i % STATUSES.length] ?? 'queued'
    await bench.clock.advance(i === 30 ? 3_600_000 : 10)
    if (status === 'queued') await bench.submit({ ...parts, delayMs: i % 2 === 0 ? 1_000_000_000 : 0, priority: -1 })
    else if (status === 'processing') await bench.processing(parts)
    else await bench.finished(status, parts)
  }
  return bench.store.jobs({ limit: 100 })
}

async function combinations(bench: Bench): Promise<Omit<JobFilter, 'limit'>[]> {
  const [middle] = (await bench.store.jobs({ limit: 31 })).slice(-1)
  const [later] = (await bench.store.jobs({ limit: 11 })).slice(-1)
  const batch = (await bench.store.jobs({ limit: 100 })).find(({ batchId }) => batchId !== null)?.batchId ?? ''
  const choices: Omit<JobFilter, 'limit'>[][] = [
    [{}, ...STATUSES.map((status) => ({ status })), { isActive: true }],
    [{}, { type: 'plain' }, { queue: 'side' }],
    [{}, { owner: 'ann' }],
    [{}, { code: 'BROKEN' }],
    [{}, { batch }],
    [{}, { createdSinceMs: middle?.createdAtMs ?? 0 }],
    [{}, { createdBeforeMs: later?.createdAtMs ?? 0 }],
    [{}, { q: 'ann' }, { q: 'other' }],
  ]
  const all = choices.reduce(
    (ones, others) => ones.flatMap((one) => others.map((other) => ({ ...one, ...other }))),
    [{}],
  )
  // Alone, in pairs, and all together.
  return all.filter((filter) => Object.keys(filter).length <= 2 || Object.keys(filter).length === choices.length)
}

function fits(row: JobRow, filter: Omit<JobFilter, 'limit'>): boolean {
  const { status, isActive, type, queue, owner, code, batch, createdSinceMs, createdBeforeMs, q } = filter
  const is = (value: unknown, asked: unknown): boolean => asked === undefined || value === asked
  return (
    is(row.status, status) &&
    is(row.type, type) &&
    is(row.queue, queue) &&
    is(row.owner, owner) &&
    is(row.batchId, batch) &&
    is(row.failure === null ? null : row.latestFailure?.code, code) &&
    (!isActive || row.status === 'queued' || row.status === 'processing') &&
    row.createdAtMs >= (createdSinceMs ?? 0) &&
    row.createdAtMs < (createdBeforeMs ?? Number.POSITIVE_INFINITY) &&
    (q === undefined || row.owner === q || row.type === q)
  )
}
