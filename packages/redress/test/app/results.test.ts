import { afterEach, expect, expectTypeOf, test } from 'vitest'
import { keepingLog } from '../../../../test/support/scene.ts'
import { turns, until } from '../../../../test/support/until.ts'
import {
  type BatchChild,
  type BatchOutcome,
  failureCodes,
  JobCancelled,
  JobFailed,
  type Outcome,
  redress,
} from '../../src/index.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { type TestKit, testKit } from '../../src/testing/index.ts'
import { refusal } from '../operations/bench.ts'

const codes = failureCodes({
  TOO_DARK: { fault: 'caller', retry: 'never', message: 'The picture is too dark.' },
  BUSY: { fault: 'dependency', retry: 'transient', message: 'The service is busy.' },
})
const BY = { actor: 'ann', reason: 'not needed' }

const thrownBy = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => null,
    (thrown: unknown) => thrown,
  )

const stops: (() => Promise<void>)[] = []
afterEach(() => Promise.all(stops.splice(0).map((stop) => stop())))

function world(options: Parameters<typeof testKit>[0] = {}) {
  const kit = testKit(options)
  stops.push(() => kit.stop())
  let calls = 0
  const convert = kit.app.job('convert', {
    codes,
    policy: { retry: { max: 3 }, manualRetry: 'in-place' },
    run: ({ how }: { how: 'well' | 'dark' | 'busy-once' | 'nothing' }, attempt) => {
      calls++
      if (how === 'dark') attempt.fail('TOO_DARK')
      if (how === 'busy-once' && calls === 1) attempt.fail('BUSY')
      return how === 'nothing' ? null : { pages: 3, at: '2026-01-01' }
    },
  })
  return { kit, app: kit.app, convert }
}

/** Lets the subscription begin, so that what follows happens during the wait. */
async function waits({ app }: TestKit): Promise<void> {
  await until('it waits', () => app.hub.subscribers === 1)
  await turns()
}

test('result() waits for the output of a job, typed', async () => {
  const { kit, convert } = world()
  const { id } = await convert.submit({ how: 'well' })
  const waiting = convert.result(id)
  expectTypeOf(waiting).toEqualTypeOf<Promise<Outcome<{ pages: number; at: string } | null, 'TOO_DARK' | 'BUSY'>>>()
  await waits(kit)
  await kit.drain()
  expect(await waiting).toEqual({ kind: 'complete', jobId: id, output: { pages: 3, at: '2026-01-01' } })
  await until('the hub has no subscriber', () => kit.app.hub.subscribers === 0)
})

test('result() of a job that has ended answers at once', async () => {
  const { kit, convert } = world()
  const { id } = await convert.submit({ how: 'nothing' })
  await kit.drain()
  expect(await convert.result(id, { timeout: '1s' })).toEqual({ kind: 'complete', jobId: id, output: null })
})

test('a failure is an outcome with its code, its failure and its explanation', async () => {
  const { kit, app, convert } = world()
  const { id } = await convert.submit({ how: 'dark' })
  const waiting = convert.result(id)
  await waits(kit)
  await kit.drain()
  const outcome = await waiting
  if (outcome.kind !== 'failed') throw new Error(outcome.kind)
  const { error } = outcome
  expectTypeOf(error).toEqualTypeOf<JobFailed<'TOO_DARK' | 'BUSY'>>()
  // @ts-expect-error no such code
  expect(error.code === 'TO_DARK').toBe(false)
  expect(error).toBeInstanceOf(JobFailed)
  expect(error).toMatchObject({
    name: 'JobFailed',
    jobId: id,
    type: 'convert',
    code: 'TOO_DARK',
    message: 'The picture is too dark.',
    failure: { code: 'TOO_DARK', phase: 'execution', attempt: 1, decision: { because: expect.any(String) } },
  })
  expect(error.explanation).toBe(await app.explain(id))
  expect(convert.isFailure(error)).toBe(true)
  const other = app.job('other', { run: () => 1 })
  expect(other.isFailure(error)).toBe(false)
  expect(convert.isFailure(new Error('else'))).toBe(false)
})

test('a retry in between is no outcome: the wait goes on to the end', async () => {
  const { kit, convert } = world()
  const { id } = await convert.submit({ how: 'busy-once' })
  const waiting = convert.result(id)
  await waits(kit)
  await kit.drain()
  expect(await waiting).toMatchObject({ kind: 'complete' })
  expect(await kit.history(id)).toContain('retry')
})

test('a failed job that a person retries can be waited for again', async () => {
  const { kit, app, convert } = world()
  const { id } = await convert.submit({ how: 'dark' })
  await kit.drain()
  await app.jobs.retry(id, BY)
  const waiting = convert.result(id)
  await waits(kit)
  await kit.drain()
  expect(await waiting).toMatchObject({ kind: 'failed', error: { failure: { attempt: 2 } } })
})

test('a cancelled job is an outcome that names the actor and the reason', async () => {
  const { kit, app, convert } = world()
  const { id } = await convert.submit({ how: 'well' })
  const waiting = convert.result(id)
  await waits(kit)
  await app.jobs.cancel(id, BY)
  const outcome = await waiting
  expect(outcome).toMatchObject({ kind: 'cancelled', jobId: id, error: { jobId: id, ...BY } })
  expect((outcome as { error: unknown }).error).toBeInstanceOf(JobCancelled)
})

test('the request to cancel a running job names the actor, too', async () => {
  const kit = testKit()
  stops.push(() => kit.stop())
  const long = kit.app.job('long', {
    run: (_: object, { signal }) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  })
  const { id } = await long.submit({})
  const waiting = long.result(id)
  await kit.tick()
  await kit.app.jobs.cancel(id, BY)
  await kit.advance('1m')
  expect(await waiting).toMatchObject({ kind: 'cancelled', error: BY })
})

test('submitAndWait() returns the output, and throws the failure of the job', async () => {
  const { kit, convert } = world()
  const well = convert.submitAndWait({ how: 'well' })
  expectTypeOf(well).toEqualTypeOf<Promise<{ pages: number; at: string } | null>>()
  const dark = thrownBy(convert.submitAndWait({ how: 'dark' }, { owner: 'bob', timeout: '1h' }))
  await waits(kit)
  await kit.drain()
  expect(await well).toEqual({ pages: 3, at: '2026-01-01' })
  expect(await dark).toMatchObject({ name: 'JobFailed', code: 'TOO_DARK' })
})

test('submitAndWait() waits for the job that holds the dedupe key', async () => {
  const { kit, app, convert } = world()
  const { id } = await convert.submit({ how: 'well' }, { dedupe: 'one' })
  const waiting = convert.submitAndWait({ how: 'dark' }, { dedupe: 'one' })
  await waits(kit)
  await kit.drain()
  expect(await waiting).toMatchObject({ pages: 3 })
  expect((await app.jobs.list()).jobs.map((job) => job.id)).toEqual([id])
})

test('a timeout ends the wait and not the job, and names the job', async () => {
  const { kit, convert } = world()
  const { id } = await convert.submit({ how: 'well' }, { delay: '1h' })
  const waiting = refusal(convert.result(id, { timeout: '5s' }))
  await waits(kit)
  await kit.advance('6s')
  expect(await waiting).toMatchObject({
    code: 'WAIT_TIMEOUT',
    jobId: id,
    message: `Job ${id} did not end within 5 s. The job goes on.`,
  })
  await kit.drain()
  expect(await convert.result(id)).toMatchObject({ kind: 'complete' })
})

test('an abort signal ends the wait with its reason', async () => {
  const { kit, convert } = world()
  const controller = new AbortController()
  const { id } = await convert.submit({ how: 'well' }, { delay: '1h' })
  const waiting = thrownBy(convert.result(id, { signal: controller.signal }))
  await waits(kit)
  controller.abort(new Error('the visitor left'))
  expect(await waiting).toMatchObject({ message: 'the visitor left' })
  await until('the hub has no subscriber', () => kit.app.hub.subscribers === 0)
})

test('a signal that is aborted already keeps submitAndWait() from submitting', async () => {
  const { app, convert } = world()
  const signal = AbortSignal.abort(new Error('too late'))
  expect(await thrownBy(convert.submitAndWait({ how: 'well' }, { signal }))).toMatchObject({ message: 'too late' })
  expect((await app.jobs.list()).jobs).toEqual([])
})

test('a job that does not exist, or is removed during the wait, is not found', async () => {
  const { kit, app, convert } = world()
  const missing = '0190b5a0-0000-7000-8000-000000000000'
  expect(await refusal(convert.result(missing))).toMatchObject({ code: 'JOB_NOT_FOUND', jobId: missing })
  const { id } = await convert.submit({ how: 'well' }, { delay: '1h' })
  const store = await app.store()
  const waiting = refusal(convert.result(id, { timeout: '1h' }))
  await waits(kit)
  // As after an outage in which the job ended and its retention was over: the next event leads to the row, which is gone.
  store.job = async () => null
  await store.intervene({ id, ...BY, expect: { status: 'queued', attempt: 0 }, act: { kind: 'cancel' } })
  expect(await waiting).toMatchObject({ code: 'JOB_NOT_FOUND', jobId: id })
})

test('a job of another type is refused', async () => {
  const { app, convert } = world()
  const other = app.job('other', { run: () => 1 })
  const { id } = await other.submit({})
  const error = { code: 'OPTION_INVALID', jobId: id, message: `Job ${id} is of type other, not convert.` }
  expect(await refusal(convert.result(id))).toMatchObject(error)
  expect(await refusal(convert.find(id))).toMatchObject(error)
})

test.each<[string, object, string]>([
  ['a timeout of zero', { timeout: 0 }, 'timeout must be longer than zero.'],
  ['a misspelt option', { timout: '5s' }, 'result() of convert has no option "timout".'],
  ['a signal that is not an AbortSignal', { signal: true }, 'signal must be an AbortSignal.'],
])('a wait with %s is refused', async (_what, options, message) => {
  const { convert } = world()
  expect(await refusal(convert.result('x', options))).toMatchObject({ code: 'OPTION_INVALID', message })
  expect(await refusal(convert.result(7 as never))).toMatchObject({ code: 'OPTION_INVALID' })
})

test('an invalid option of submitAndWait() is found before anything is submitted', async () => {
  const { app, convert } = world()
  const error = await refusal(convert.submitAndWait({ how: 'well' }, { timeout: 'soon' as never }))
  expect(error).toMatchObject({ code: 'OPTION_INVALID' })
  expect(await refusal(convert.submitAndWait({ how: 'well' }, { delya: '1s' } as never))).toMatchObject({
    code: 'OPTION_INVALID',
  })
  expect((await app.jobs.list()).jobs).toEqual([])
})

test('stopping the app ends the waits with an error that says that the job goes on', async () => {
  const app = redress({ store: 'sqlite::memory:' })
  const convert = app.job('convert', { run: () => 1 })
  const { id } = await convert.submit({}, { delay: '1h' })
  const waiting = refusal(convert.result(id))
  await until('it waits', () => app.hub.subscribers === 1)
  await app.stop()
  expect(await waiting).toMatchObject({
    code: 'STORE_STOPPED',
    jobId: id,
    message: `The app was stopped before job ${id} ended.`,
    action: expect.stringContaining('The job goes on'),
  })
  expect(await refusal(convert.result(id))).toMatchObject({ code: 'STORE_STOPPED' })
})

test('a job that ends while the app stops still gives its outcome', async () => {
  const app = redress({ store: 'sqlite::memory:' })
  let finish = (): void => undefined
  const convert = app.job('convert', {
    run: () =>
      new Promise<number>((resolve) => {
        finish = () => resolve(7)
      }),
  })
  const worker = await app.work()
  const { id } = await convert.submit({})
  const waiting = convert.result(id)
  await until('it runs', () => worker.held === 1 && app.hub.subscribers === 1)
  await turns()
  const stopping = app.stop()
  finish()
  await stopping
  expect(await waiting).toMatchObject({ kind: 'complete', output: 7 })
})

const FAULTS: [string, (ask: Store['job'], params: { id: string }) => ReturnType<Store['job']>][] = [
  ['refuses to answer', () => Promise.reject(new Error('the disk is away'))],
  ['never answers', () => new Promise(() => undefined)],
]

test.each(FAULTS)('a wait survives a store that %s', async (_what, fault) => {
  const log = keepingLog()
  const { kit, app, convert } = world({ log })
  const { id } = await convert.submit({ how: 'well' })
  const store = await app.store()
  const ask = store.job.bind(store)
  let faults = 2
  store.job = (params) => (faults-- > 0 ? fault(ask, params) : ask(params))
  const waiting = convert.result(id)
  await until('it is read', () => faults < 2)
  await kit.advance('1m')
  expect(await waiting).toMatchObject({ kind: 'complete' })
  expect(log.lines.some(({ message }) => message.includes('cannot be read; will try again'))).toBe(true)
})

test('a wait that could not keep up with the events reads its job again', async () => {
  const { kit, app, convert } = world()
  const { id } = await convert.submit({ how: 'well' })
  const subscribe = app.hub.subscribe.bind(app.hub)
  let subscriptions = 0
  app.hub.subscribe = (options) => {
    const made = subscribe(options)
    // The first one is let go before it is told anything.
    if (++subscriptions === 1) void made.ready.then(() => made.end('slow'))
    return made
  }
  const waiting = convert.result(id)
  await until('it subscribes again', () => subscriptions === 2)
  await kit.drain()
  expect(await waiting).toMatchObject({ kind: 'complete' })
})

test('10,000 callers wait with one subscription and one read per job', async () => {
  const app = redress({ store: 'sqlite::memory:' })
  stops.push(() => app.stop())
  const count = app.job('count', { run: ({ n }: { n: number }) => n * 2 })
  const jobs = await count.submitMany(
    Array.from({ length: 10_000 }, (_, n) => ({ n })),
    { delay: '1h' },
  )
  const store = await app.store()
  const ask = store.job.bind(store)
  let reads = 0
  store.job = (params) => {
    reads++
    return ask(params)
  }
  const waiting = Promise.all(jobs.map(({ id }) => count.result(id)))
  await until('all were read once', () => reads >= 10_000)
  expect(app.hub.subscribers).toBe(1)
  for (const { id } of jobs) {
    await store.intervene({ id, ...BY, expect: { status: 'queued', attempt: 0 }, act: { kind: 'cancel' } })
  }
  const outcomes = await waiting
  expect(outcomes.every(({ kind }) => kind === 'cancelled')).toBe(true)
  // Once when the wait began, once when the job ended.
  expect(reads).toBeLessThanOrEqual(20_000)
  await until('the hub has no subscriber', () => app.hub.subscribers === 0)
})

test('many callers of one job get outcomes of their own', async () => {
  const { kit, convert } = world()
  const { id } = await convert.submit({ how: 'well' })
  const [one, other] = await Promise.all([convert.result(id), convert.result(id), kit.drain()])
  expect(one).toEqual(other)
  expect(one).not.toBe(other)
})

test('find() and list() have typed results and codes', async () => {
  const { kit, convert } = world()
  const [well, dark] = await convert.submitMany([{ how: 'well' }, { how: 'dark' }])
  await kit.drain()
  const found = await convert.find(String(well?.id))
  expectTypeOf(found?.result).toEqualTypeOf<{ pages: number; at: string } | null | undefined>()
  expect(found).toMatchObject({ status: 'complete', result: { pages: 3 }, input: { how: 'well' } })
  expect(await convert.find('0190b5a0-0000-7000-8000-000000000000')).toBe(null)
  const { jobs, nextCursor } = await convert.list({ code: 'TOO_DARK', since: new Date(0), limit: 5 })
  expect(jobs.map(({ id, errorCode }) => [id, errorCode])).toEqual([[dark?.id, 'TOO_DARK']])
  expect(nextCursor).toBe(null)
  // @ts-expect-error no such code
  expect((await convert.list({ code: 'TO_DARK' })).jobs).toEqual([])
  expect(await refusal(convert.list({ stauts: 'failed' } as never))).toMatchObject({ code: 'OPTION_INVALID' })
  expect(await refusal(convert.list({ since: new Date('no date') }))).toMatchObject({
    code: 'OPTION_INVALID',
    message: 'since is an invalid Date.',
  })
  const page = await convert.list({ limit: 1 })
  expect((await convert.list({ limit: 1, cursor: String(page.nextCursor) })).jobs[0]?.id).toBe(well?.id)
})

test('a batch gives the typed outcomes of its jobs, also to the job that follows it', async () => {
  const { kit, app, convert } = world()
  const other = app.job('other', { run: () => 'other' })
  const told: unknown[] = []
  const follow = app.job('follow', {
    run: async ({ batch, folder }: { batch: BatchOutcome; folder: string }) => {
      for await (const child of app.batches.results(batch.id, convert)) {
        expectTypeOf(child).toEqualTypeOf<
          BatchChild<
            { how: 'well' | 'dark' | 'busy-once' | 'nothing' },
            { pages: number; at: string } | null,
            'TOO_DARK' | 'BUSY'
          >
        >()
        told.push([
          folder,
          child.input.how,
          child.outcome.kind === 'complete' ? child.outcome.output?.pages : child.outcome.kind,
        ])
      }
    },
  })
  const batch = await app.batches.create('two', {
    jobs: [
      ...Array.from({ length: 150 }, () => convert.request({ how: 'well' })),
      convert.request({ how: 'dark' }),
      other.request({}),
    ],
    onSettled: { job: follow, input: { folder: 'out' } },
  })
  const before = []
  for await (const child of batch.results(convert)) before.push(child.outcome)
  expect(before).toHaveLength(151)
  expect(before[0]).toMatchObject({ kind: 'unfinished', status: 'queued' })
  await kit.drain()
  expect(told).toHaveLength(151)
  expect(told.slice(0, 2)).toEqual([
    ['out', 'dark', 'failed'],
    ['out', 'well', 3],
  ])
  expect(await refusal(app.batches.results('no-such-batch', convert).next())).toMatchObject({ code: 'BATCH_NOT_FOUND' })
})

test('the outcomes of a batch leave out a job that is deleted while they are read', async () => {
  const { kit, app, convert } = world()
  const batch = await app.batches.create('three', {
    jobs: [convert.request({ how: 'well' }), convert.request({ how: 'dark' }), convert.request({ how: 'dark' })],
  })
  await kit.drain()
  const [first, second, third] = batch.jobs.map(({ id }) => id)
  const children = batch.results(convert)
  expect((await children.next()).value).toMatchObject({ jobId: third })
  await app.jobs.delete(second ?? '', { actor: 'ann', reason: 'personal data', force: true })
  expect((await children.next()).value).toMatchObject({ jobId: first })
  expect((await children.next()).done).toBe(true)
})

test('the job that follows a batch must take its outcome, and what is given to it must fit', async () => {
  const { app } = world()
  const wrong = app.job('wrong', { run: ({ batch }: { batch: number }) => batch })
  const right = app.job('right', { run: ({ batch, to }: { batch: { state: string }; to: string }) => [batch, to] })
  const options = [
    // @ts-expect-error its batch is a number
    () => app.batches.create('one', { onSettled: { job: wrong } }),
    // @ts-expect-error to is a text
    () => app.batches.create('two', { onSettled: { job: right, input: { to: 7 } } }),
    () => app.batches.create('three', { onSettled: { job: right, input: { to: 'ann' } } }),
    () => app.batches.create('four', { onSettled: { job: 'right', input: { to: 'ann' } } }),
  ]
  for (const create of options) expect((await create()).isNew).toBe(true)
})
