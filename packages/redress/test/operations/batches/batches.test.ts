import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { failureCodes, type PolicyInput } from '../../../src/index.ts'
import { type Bench, makeBench, refusal, WHO } from '../bench.ts'

let bench: Bench
const begin = async (policy: PolicyInput = {}) => {
  bench = await makeBench(policy)
}
beforeEach(() => begin({ manualRetry: 'in-place' }))
afterEach(() => bench.store.stop())

const batchOf = async (...all: string[][]) => {
  const jobs = all.map((outcomes) => ({ type: 'step', input: { outcomes } }))
  const { id, jobs: made } = await bench.app.batches.create('spring', { jobs })
  return { id, ids: made.map((job) => job.id) }
}
const countsOf = async (id: string) => (await bench.app.perform('batches.show', { id })).counts

describe('batches.cancel', () => {
  test('cancels queued jobs, asks running ones to stop, and reports each', async () => {
    const { id, ids } = await batchOf(['ok'], ['hang'])
    const open = await bench.app.batches.create('open')
    await bench.worker.tick()
    const { id: waiting } = await open.add('step', { outcomes: ['hang'] })
    const acted = await bench.app.batches.cancel(id, WHO)
    expect(acted).toMatchObject({ isDone: true, did: `In batch ${id}, 1 of 1 were cancelled or asked to stop.` })
    expect(acted.items).toMatchObject([{ id: ids[1], isDone: true, code: null }])
    await bench.app.batches.cancel(open.id, WHO)
    await bench.work()
    expect(await bench.app.batches.find(id)).toMatchObject({ state: 'partial', counts: { complete: 1, cancelled: 1 } })
    expect(await bench.app.batches.find(open.id)).toMatchObject({ state: 'cancelled', sealed: true })
    expect(await bench.app.jobs.find(waiting)).toMatchObject({ status: 'cancelled' })
    const trail = await bench.store.auditTrail({ filter: { target: 'batch', id: open.id }, beforeSeq: null, limit: 5 })
    expect(trail).toMatchObject([{ ...WHO, act: 'batches.cancel' }])
  })

  test('jobs that cannot be cancelled each have a reason', async () => {
    await begin({ cancel: false })
    const { id, ids } = await batchOf(['ok'])
    const { isDone, items } = await bench.app.batches.cancel(id, WHO)
    expect(isDone).toBe(false)
    expect(items).toMatchObject([{ id: ids[0], isDone: false, code: 'NOT_ALLOWED_BY_POLICY' }])
  })

  test('a batch without unfinished jobs is not cancelled', async () => {
    const { id } = await batchOf(['ok'])
    await bench.work()
    expect(await bench.app.batches.cancel(id, WHO)).toMatchObject({ isDone: false, items: [] })
    expect(await bench.store.auditTrail({ filter: { target: 'batch' }, beforeSeq: null, limit: 5 })).toEqual([])
  })
})

describe('batches.retry-failed', () => {
  test('retries every failed job in place, and no other', async () => {
    const { id, ids } = await batchOf(['GW_4XX', 'ok'], ['ok'], ['GW_4XX', 'GW_4XX'])
    await bench.work()
    expect(await bench.app.batches.find(id)).toMatchObject({ state: 'partial' })
    const { items, did, batch } = await bench.app.batches.retryFailed(id, WHO)
    expect(did).toBe(`In batch ${id}, 2 of 2 were retried.`)
    expect(items.map((item) => item.id).sort()).toEqual([ids[0], ids[2]].sort())
    expect(batch).toMatchObject({ state: 'open', counts: { total: 3, unfinished: 2, complete: 1, failed: 0 } })
    await bench.work()
    expect(await bench.app.batches.find(id)).toMatchObject({
      state: 'partial',
      settlements: 2,
      counts: { total: 3, complete: 2, failed: 1 },
    })
  })

  test('retries as new jobs if the policy says so', async () => {
    await begin({ manualRetry: 'new-job' })
    const { id, ids } = await batchOf(['GW_4XX'], ['ok'])
    await bench.work()
    await bench.app.batches.retryFailed(id, WHO)
    expect(await countsOf(id)).toMatchObject({ total: 2, unfinished: 1, complete: 1, failed: 0 })
    const [successor] = (await bench.app.jobs.list({ batch: id, status: 'queued' })).jobs
    expect(successor).toMatchObject({ retriedFrom: ids[0], batchId: id })
    expect(await bench.app.jobs.find(String(ids[0]))).toMatchObject({ status: 'failed' })
    // Its place is taken: a second retry of the batch does not do it twice.
    expect((await bench.app.batches.retryFailed(id, WHO)).items).toEqual([])
  })

  test('jobs whose policy forbids a retry each have a reason', async () => {
    await begin({ manualRetry: 'off' })
    const { id } = await batchOf(['GW_4XX'])
    await bench.work()
    const { isDone, items } = await bench.app.batches.retryFailed(id, WHO)
    expect([isDone, items[0]?.code]).toEqual([false, 'NOT_ALLOWED_BY_POLICY'])
  })
})

describe('batches.show', () => {
  const failuresOf = async (id: string, owner?: string) =>
    (await bench.app.perform('batches.show', { id, ...(owner !== undefined && { owner }) })).failures

  test('counts its failed jobs by code, and how many of them may be retried', async () => {
    bench.app.job('fixed', {
      codes: failureCodes({ GW_4XX: { fault: 'code', retry: 'never', message: 'Another word for it.' } }),
      policy: { manualRetry: 'off' },
      run: (_, attempt) => attempt.fail('GW_4XX'),
    })
    const steps = [['GW_4XX'], ['GW_4XX'], ['ok'], ['GW_5XX'], ['hang']].map((outcomes) => ({ outcomes }))
    const { id } = await bench.app.batches.create('spring', {
      jobs: [...steps.map((input) => ({ type: 'step', input })), { type: 'fixed', input: {} }],
    })
    expect(await failuresOf(id)).toEqual({ codes: [], isMore: false })
    const worker = await bench.app.makeWorker()
    for (let i = 0; i < 5; i++) await worker.tick()
    expect(await failuresOf(id)).toEqual({
      codes: [
        { code: 'GW_4XX', fault: 'caller', message: 'It does not take this.', count: 3, retryable: 2 },
        { code: 'GW_5XX', fault: 'dependency', message: 'It kept failing.', count: 1, retryable: 1 },
      ],
      isMore: false,
    })
    worker.crash()
  })

  test('a job that was retried as a new job no longer counts in its batch', async () => {
    await begin({ manualRetry: 'new-job' })
    const { id } = await batchOf(['GW_4XX'], ['ok'])
    await bench.work()
    expect(await failuresOf(id)).toMatchObject({ codes: [{ code: 'GW_4XX', count: 1, retryable: 1 }] })
    await bench.app.batches.retryFailed(id, WHO)
    expect((await failuresOf(id)).codes).toEqual([])
  })

  test('an owner sees nothing of the jobs of others in their batch', async () => {
    const { id } = await bench.app.batches.create('spring', {
      owner: 'ann',
      jobs: ['ann', 'bob'].map((owner) => ({
        type: 'step',
        input: { outcomes: [owner === 'ann' ? 'GW_4XX' : 'GW_5XX'] },
        options: { owner },
      })),
    })
    await bench.work()
    expect((await failuresOf(id)).codes.map(({ code }) => code)).toEqual(['GW_4XX', 'GW_5XX'])
    expect((await failuresOf(id, 'ann')).codes.map(({ code }) => code)).toEqual(['GW_4XX'])
  })
})

describe.each(['batches.cancel', 'batches.retry-failed'] as const)('%s', (name) => {
  test('needs a name and a reason, and a batch', async () => {
    const { id } = await batchOf(['GW_4XX'])
    expect((await refusal(bench.app.perform(name, { id, ...WHO, reason: ' ' }))).code).toBe('REASON_REQUIRED')
    expect((await refusal(bench.app.perform(name, { id, reason: 'why not' }))).code).toBe('REASON_REQUIRED')
    expect((await refusal(bench.app.perform(name, { id: 'nowhere', ...WHO }))).code).toBe('BATCH_NOT_FOUND')
  })

  test('a dry run changes nothing', async () => {
    const { id } = await batchOf(['GW_4XX'], ['hang'])
    await bench.begin()
    const before = await bench.app.batches.find(id)
    const acted = await bench.app.perform(name, { id, ...WHO, dryRun: true })
    expect(acted).toMatchObject({ isDone: false, did: expect.stringContaining('1 of 1 would be') })
    expect(await bench.app.batches.find(id)).toEqual(before)
    expect((await bench.app.jobs.list({ batch: id })).jobs.map((job) => job.cancelRequestedAt)).toEqual([null, null])
  })
})

test('batches are listed page by page, by state, owner and name', async () => {
  const names = ['a', 'b', 'c']
  for (const name of names) await bench.app.batches.create(name, { owner: name === 'c' ? 'ann' : 'bob' })
  const first = await bench.app.batches.list({ limit: 2 })
  expect(first.batches.map(({ name }) => name)).toEqual(['c', 'b'])
  const rest = await bench.app.batches.list({ limit: 2, cursor: Number(first.nextCursor) })
  expect([rest.batches.map(({ name }) => name), rest.nextCursor]).toEqual([['a'], null])
  const { batches } = await bench.app.batches.list({ owner: 'bob', state: 'open', name: 'a' })
  expect(batches).toHaveLength(1)
  expect((await refusal(bench.app.perform('batches.show', { id: 'nowhere' }))).code).toBe('BATCH_NOT_FOUND')
})
