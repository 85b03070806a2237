import { describe, expect, test } from 'vitest'
import { makeBench, refusal, WHO } from '../bench.ts'

const inPlace = { retry: { max: 3 }, manualRetry: 'in-place' } as const
const FAILED = ['GW_5XX', 'GW_5XX', 'GW_5XX']

describe('a manual retry in place', () => {
  test('a manual retry in place clears the error, resets the budget and queues the job [W19 D23 E20]', async () => {
    const { app, clock, finish } = await makeBench({ ...inPlace, errors: 'latest' })
    const id = await finish(FAILED)
    expect(await app.jobs.find(id)).toMatchObject({ status: 'failed', retryCount: 2, errorCode: 'GW_5XX' })
    const { did, job } = await app.jobs.retry(id, WHO)
    expect(did).toBe(`Job ${id} is back in the queue.`)
    expect(job).toMatchObject({
      id,
      status: 'queued',
      attemptCount: 0,
      retryCount: 0,
      maxAttempts: 3,
      manualRetryCount: 1,
      errorCode: null,
      errorMessage: null,
      retryAfter: null,
      startedAt: null,
      finishedAt: null,
      failedAt: null,
      progress: 0,
      queuedAt: new Date(clock.nowMs()).toISOString(),
    })
  })

  test('after a manual retry the normal policy applies and the attempt number continues [D23]', async () => {
    const { app, finish, work } = await makeBench(inPlace)
    const id = await finish([...FAILED, 'GW_5XX', 'ok'])
    await app.jobs.retry(id, WHO)
    await work()
    expect(await app.jobs.find(id)).toMatchObject({ status: 'complete', attemptCount: 2, result: { attempt: 5 } })
  })

  test('the history names the actor and the reason', async () => {
    const { app, finish } = await makeBench(inPlace)
    const id = await finish(FAILED)
    await app.jobs.retry(id, WHO)
    expect((await app.jobs.events(id)).events.at(-1)).toMatchObject({ kind: 'manual-retry', data: WHO })
    expect(await app.explain(id)).toContain('QUEUED again by ann: the gateway is back.')
  })

  test('a kept budget allows one more attempt', async () => {
    const { app, finish, work } = await makeBench({
      retry: { max: 3 },
      manualRetry: { mode: 'in-place', budget: 'keep' },
    })
    const id = await finish([...FAILED, 'GW_5XX', 'ok'])
    await app.jobs.retry(id, WHO)
    await work()
    expect(await app.jobs.find(id)).toMatchObject({
      status: 'failed',
      attemptCount: 4,
      retryCount: 2,
      manualRetryCount: 1,
    })
  })

  test('a retry in place refuses a new input', async () => {
    const { app, finish } = await makeBench(inPlace)
    const id = await finish(FAILED)
    const refused = await refusal(app.jobs.retry(id, { ...WHO, input: { outcomes: [] } }))
    expect(refused).toMatchObject({ code: 'NOT_ALLOWED_BY_POLICY', exitCode: 4 })
    expect(await app.jobs.find(id)).toMatchObject({ status: 'failed' })
  })

  test('is refused while another job holds the dedupe key', async () => {
    const { app, finish, submit } = await makeBench(inPlace)
    const id = await finish(FAILED, { dedupe: 'one' })
    await submit(['ok'], { dedupe: 'one' })
    const refused = await refusal(app.jobs.retry(id, WHO))
    expect(refused).toMatchObject({ code: 'JOB_WRONG_STATE', message: expect.stringContaining('dedupe key (one)') })
  })
})

describe('forbidden actions', () => {
  test('only a failed job can be retried, and a refusal changes nothing [W30 D22]', async () => {
    const { app, submit } = await makeBench(inPlace)
    const id = await submit(['ok'])
    const before = (await app.jobs.events(id)).events
    const refused = await refusal(app.jobs.retry(id, WHO))
    expect(refused).toMatchObject({ code: 'JOB_WRONG_STATE', httpStatus: 409, jobId: id })
    expect(refused.message).toBe(`Job ${id} cannot be retried: only a failed job can be retried; this one is queued.`)
    expect((await app.jobs.events(id)).events).toEqual(before)
  })

  test('a policy without manual retry keeps failed jobs failed [P39]', async () => {
    const { app, finish } = await makeBench({ manualRetry: 'off' })
    const id = await finish(['GW_4XX'])
    expect(await refusal(app.jobs.retry(id, WHO))).toMatchObject({ code: 'NOT_ALLOWED_BY_POLICY' })
  })

  test.each([
    ['retry', 'actor', { actor: ' ', reason: 'because' }],
    ['retry', 'reason', { actor: 'ann', reason: '' }],
    ['markFailed', 'reason', { actor: 'ann', reason: '\n' }],
    ['cancel', 'actor', { actor: '', reason: 'because' }],
  ] as const)('nobody may %s without a %s', async (act, _, by) => {
    const { app, submit } = await makeBench()
    const id = await submit(['ok'])
    expect(await refusal(app.jobs[act](id, by))).toMatchObject({ code: 'REASON_REQUIRED', exitCode: 2 })
  })

  test('a job that does not exist is not found', async () => {
    const { app } = await makeBench()
    const id = '0190a5a0-0000-7000-8000-000000000001'
    expect(await refusal(app.jobs.markFailed(id, WHO))).toMatchObject({ code: 'JOB_NOT_FOUND', exitCode: 3, jobId: id })
    expect(await app.jobs.find(id)).toBe(null)
  })

  test('an action on an outdated state changes nothing and reports the current state', async () => {
    let overtake = async () => undefined as unknown
    const { app, submit, worker } = await makeBench({}, (store) => ({
      ...store,
      intervene: async (params) => {
        await overtake()
        return store.intervene(params)
      },
    }))
    const id = await submit(['ok'])
    overtake = () => worker.tick()
    const refused = await refusal(app.jobs.cancel(id, WHO))
    expect(refused.code).toBe('JOB_WRONG_STATE')
    expect(refused.message).toBe(
      `Job ${id} is complete (attempt 1) now; it was queued (attempt 0) when this was decided. Nothing was done.`,
    )
    expect(await app.jobs.find(id)).toMatchObject({ status: 'complete' })
  })
})

describe('marking failed', () => {
  test('an operator marks an orphan failed with a name and a reason, and a retry is then a new job [P56]', async () => {
    const { app, submit, worker, clock, begin } = await makeBench()
    const id = await submit(['hang'])
    await begin()
    worker.crash()
    await clock.advance(60_000)
    const second = await app.makeWorker()
    await second.maintain()
    expect(await app.perform('orphans.list', {})).toMatchObject({ jobs: [{ id, status: 'processing' }] })

    const { did, job } = await app.jobs.markFailed(id, { actor: 'ann', reason: 'the machine burned' })
    expect(did).toBe(`Job ${id} is failed.`)
    expect(job).toMatchObject({ status: 'failed', errorCode: 'MARKED_FAILED', retryCount: 0 })
    const [failure] = (await app.jobs.failures(id)).failures
    expect(failure).toMatchObject({
      phase: 'execution',
      layer: 'worker',
      fault: 'operator',
      from: 'processing',
      to: 'failed',
      worker: worker.id,
      context: { actor: 'ann', reason: 'the machine burned', worker: worker.id },
      decision: {
        because: 'ann marked it as failed: the machine burned',
        budget: { name: 'retry.max', before: 0, after: 0, max: 1 },
      },
    })
    const retried = await app.jobs.retry(id, WHO)
    expect(retried.job).toMatchObject({ status: 'queued', retriedFrom: id })
  })

  test('the phase of the failure says whether the job was queued, claimed or started', async () => {
    const { app, submit, store, begin } = await makeBench()
    const [waits, claimed] = [await submit(['hang']), await submit(['hang'])]
    await app.jobs.markFailed(waits, WHO)
    const key = await store.enlist({ id: 'other', host: 'box', pid: 1, types: [] })
    await store.claim({ worker: key, lanes: [{ type: 'step', ttlMs: 30_000 }], max: 1 })
    await app.jobs.markFailed(claimed, WHO)
    const begun = await submit(['hang'])
    await begin()
    await app.jobs.markFailed(begun, WHO)
    const stages = await Promise.all(
      [waits, claimed, begun].map(async (id) => (await app.jobs.failures(id)).failures[0]?.phase),
    )
    expect(stages).toEqual(['pre_dispatch', 'dispatch', 'execution'])
  })

  test('marking a job as failed does not change its budgets', async () => {
    const { app, submit, worker } = await makeBench({ retry: { max: 3, backoff: { table: ['1h'] } } })
    const id = await submit(['GW_5XX'])
    await worker.tick()
    const { job } = await app.jobs.markFailed(id, WHO)
    expect(job).toMatchObject({ status: 'failed', attemptCount: 1, retryCount: 1 })
    expect((await app.jobs.failures(id)).failures[1]?.decision.budget).toEqual({
      name: 'retry.max',
      before: 1,
      after: 1,
      max: 3,
    })
  })

  test('a worker that still runs the job is stopped, and its result does not count', async () => {
    const { app, submit, worker, clock, begin } = await makeBench()
    const id = await submit(['hang'])
    await begin()
    await app.jobs.markFailed(id, WHO)
    await clock.advance(15_000)
    await worker.tick()
    expect(worker.held).toBe(0)
    expect((await app.jobs.events(id)).events.map(({ kind }) => kind)).toEqual([
      'queued',
      'processing',
      'started',
      'failed',
      'lost',
    ])
  })

  test('a job that a person marks as failed becomes a dead letter if its policy says so', async () => {
    const { app, submit } = await makeBench({ deadLetter: 'queue' })
    const id = await submit(['ok'])
    const { job } = await app.jobs.markFailed(id, WHO)
    expect(job.deadLettered).toBe(true)
    const { deadLetters } = await app.perform('dead-letters.list', {})
    expect(deadLetters).toMatchObject([{ jobId: id, failure: { code: 'MARKED_FAILED' }, input: { outcomes: ['ok'] } }])
  })

  test('a finished job cannot be marked as failed', async () => {
    const { app, finish } = await makeBench()
    const id = await finish(['ok'])
    expect(await refusal(app.jobs.markFailed(id, WHO))).toMatchObject({ code: 'JOB_WRONG_STATE' })
  })
})

describe('cancelling', () => {
  test('a queued job is cancelled and never runs', async () => {
    const { app, submit, work } = await makeBench()
    const id = await submit(['ok'])
    expect((await app.jobs.cancel(id, WHO)).did).toBe(`Job ${id} is cancelled.`)
    await work()
    expect(await app.jobs.find(id)).toMatchObject({ status: 'cancelled', attemptCount: 0 })
  })

  test('the worker of a running job is asked to stop', async () => {
    const { app, submit, worker } = await makeBench()
    const id = await submit(['hang'])
    await worker.tick()
    const { did, job } = await app.jobs.cancel(id, WHO)
    expect(did).toBe(`Job ${id} is being cancelled: its worker is asked to stop.`)
    expect(job).toMatchObject({ status: 'processing', cancelRequestedAt: expect.any(String) })
    expect(await refusal(app.jobs.cancel(id, WHO))).toMatchObject({ code: 'JOB_WRONG_STATE' })
    await worker.tick()
    expect(await app.jobs.find(id)).toMatchObject({ status: 'cancelled' })
    expect(await app.explain(id)).toContain('CANCELLED by ann: the gateway is back.')
  })

  test('a policy can forbid cancelling', async () => {
    const { app, submit } = await makeBench({ cancel: false })
    const id = await submit(['ok'])
    expect(await refusal(app.jobs.cancel(id, WHO))).toMatchObject({ code: 'NOT_ALLOWED_BY_POLICY' })
  })
})

test.each(['jobs.retry', 'jobs.mark-failed', 'jobs.cancel'] as const)(
  'a dry run of %s says what it would do and leaves no trace',
  async (name) => {
    const { app, finish, submit } = await makeBench(inPlace)
    const id = name === 'jobs.retry' ? await finish(FAILED) : await submit(['ok'])
    const before = [await app.jobs.find(id), (await app.jobs.events(id)).events]
    const answer = await app.perform(name, { id, ...WHO, dryRun: true })
    expect(answer).toMatchObject({
      isDone: false,
      did: expect.stringMatching(/^Nothing was done\. On job .* this \w+/),
    })
    expect([await app.jobs.find(id), (await app.jobs.events(id)).events]).toEqual(before)
  },
)
