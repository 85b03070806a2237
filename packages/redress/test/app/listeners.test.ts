import { expect, expectTypeOf, onTestFinished, test } from 'vitest'
import { temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import { until } from '../../../../test/support/until.ts'
import { type AppEvents, exponential, failureCodes, redress } from '../../src/index.ts'
import { TestKit } from '../../src/testing/kit.ts'

const codes = failureCodes({
  GW_5XX: { fault: 'dependency', retry: 'transient', message: 'It kept failing.', waiting: 'We will try again.' },
})

function world() {
  const kit = new TestKit()
  onTestFinished(() => kit.stop())
  const convert = kit.app.job('convert', {
    codes,
    policy: { retry: { max: 2, backoff: exponential('1s') } },
    run: ({ ok }: { ok: boolean }, attempt) => {
      attempt.log('began', { ok })
      attempt.progress({ done: 1, total: 4, note: 'page 1' })
      return ok ? 'done' : attempt.fail('GW_5XX', { detail: 'host 10.0.0.7' })
    },
  })
  return { kit, app: kit.app, convert }
}

test('a listener gets every event of its name from now on, in order, with what its kind carries', async () => {
  const { kit, app, convert } = world()
  await convert.submit({ ok: true })
  const seen: [string, object][] = []
  const names = ['job.queued', 'job.retry', 'job.failed', 'job.complete', 'job.log', 'job.progress'] as const
  await Promise.all(names.map((name) => app.on(name, (event) => seen.push([name, event])).ready))
  const { id } = await convert.submit({ ok: false }, { owner: 'ann' })
  await kit.drain()
  const of = (name: string) => seen.filter(([one, event]) => one === name && 'jobId' in event && event.jobId === id)
  await until('the failure is heard', () => of('job.failed').length === 1)
  expect(of('job.queued')).toHaveLength(1)
  expect(of('job.retry')).toMatchObject([
    [
      'job.retry',
      {
        ...{ type: 'convert', queue: 'default', owner: 'ann', batchId: null, retriedFrom: null, attempt: 1 },
        ...{ status: 'queued', failure: { code: 'GW_5XX', message: 'We will try again.' } },
        retryAfter: expect.stringMatching(/^\d{4}-.*Z$/),
      },
    ],
  ])
  expect(of('job.failed')).toMatchObject([
    ['job.failed', { attempt: 2, status: 'failed', failure: { code: 'GW_5XX', message: 'It kept failing.' } }],
  ])
  expect(of('job.log')).toMatchObject([
    ['job.log', { attempt: 1, line: 1, message: 'began', fields: { ok: false } }],
    ['job.log', { attempt: 2, line: 1 }],
  ])
  expect(of('job.progress')[0]).toMatchObject(['job.progress', { progress: 0.25, done: 1, total: 4, note: 'page 1' }])
  const all = seen.map(([, event]) => Number((event as { id: string }).id))
  for (const name of names) {
    const ids = seen.filter(([one]) => one === name).map(([, event]) => Number((event as { id: string }).id))
    expect(ids).toEqual(ids.toSorted((a, b) => a - b))
  }
  expect(new Set(all).size).toBe(all.length)
})

test('a listener with topics gets the events of those topics only', async () => {
  const { kit, app, convert } = world()
  const other = app.job('other', { run: () => null })
  const heard: string[] = []
  await app.on('job.complete', ({ type }) => heard.push(type), { topics: ['type:other'] }).ready
  await convert.submit({ ok: true })
  await other.submit({})
  await kit.drain()
  await until('the other job is heard', () => heard.length > 0)
  expect(heard).toEqual(['other'])
})

test('a removed listener is not called again', async () => {
  const { kit, app, convert } = world()
  const heard: string[][] = [[], []]
  const removes = heard.map((ids) => app.on('job.complete', ({ jobId }) => ids.push(jobId)))
  await Promise.all(removes.map(({ ready }) => ready))
  removes[0]?.()
  const { id } = await convert.submit({ ok: true })
  await kit.drain()
  await until('the other listener heard it', () => heard[1]?.length === 1)
  expect(heard).toEqual([[], [id]])
})

test('a listener that throws or rejects is logged, and gets the next event', async () => {
  const lines: { message: string; fields: object }[] = []
  const note = (fields: object, message: string) => void lines.push({ message, fields })
  const log = { debug: note, info: note, warn: note, error: note }
  const app = redress({ store: 'sqlite::memory:', log })
  onTestFinished(() => app.stop())
  const greet = app.job('greet', { run: () => null })
  const heard: string[] = []
  await app.on('job.queued', ({ jobId }) => {
    heard.push(jobId)
    if (heard.length === 1) throw new Error('thrown')
    return Promise.reject(new Error('rejected'))
  }).ready
  const jobs = await greet.submitMany([{}, {}, {}])
  await until('all are heard', () => heard.length === 3)
  expect(heard).toEqual(jobs.map(({ id }) => id))
  await until('all are logged', () => lines.length >= 3)
  const errors = lines.filter(({ message }) => message === 'a listener of app.on failed')
  expect(errors.map(({ fields }) => (fields as { err: Error }).err.message)).toEqual(['thrown', 'rejected', 'rejected'])
  expect(errors[0]?.fields).toMatchObject({ event: 'job.queued', id: expect.any(String) })
})

test('a slow listener gets one event at a time and misses none, however many wait', async () => {
  const app = redress({ store: 'sqlite::memory:', log: false })
  onTestFinished(() => app.stop())
  const greet = app.job('greet', { run: () => null })
  const { promise: gate, resolve: open } = Promise.withResolvers<void>()
  const heard: string[] = []
  let running = 0
  let runningMax = 0
  await app.on('job.queued', async ({ jobId }) => {
    running++
    runningMax = Math.max(runningMax, running)
    await gate
    heard.push(jobId)
    running--
  }).ready
  // More than a subscription holds, in several commits: the hub lets it go as slow, and the listener continues.
  const ids: string[] = []
  for (let i = 0; i < 5; i++) ids.push(...(await greet.submitMany(Array(500).fill({}))).map(({ id }) => id))
  await until('the hub has read everything that it can hand over', () => app.hub.subscribers === 0)
  open()
  await until('all are heard', () => heard.length === ids.length)
  expect(heard).toEqual(ids)
  expect(runningMax).toBe(1)
})

test('events of another process arrive, and of subjects that are not jobs', async () => {
  const store = `sqlite:${temporaryFolder()}/redress.db`
  const [here, there] = [redress({ store, log: false, hubPollMs: 5 }), redress({ store, log: false })]
  onTestFinished(async () => {
    await here.stop()
    await there.stop()
  })
  const greet = there.job('greet', { run: () => null })
  const heard: unknown[] = []
  await here.on('queue.paused', (event) => heard.push(event)).ready
  await greet.submit({})
  await there.queues.pause('default', { actor: 'olga', reason: 'a test' })
  await until('the pause is heard', () => heard.length > 0)
  expect(heard).toMatchObject([{ subject: 'queue:default', data: { actor: 'olga', reason: 'a test' } }])
})

test('app.stop() delivers what was committed before it', async () => {
  const app = redress({ store: 'sqlite::memory:', log: false })
  const greet = app.job('greet', { run: () => null })
  const heard: string[] = []
  await app.on('job.queued', ({ jobId }) => heard.push(jobId)).ready
  const jobs = await greet.submitMany([{}, {}])
  await app.stop()
  expect(heard).toEqual(jobs.map(({ id }) => id))
})

test('an unknown event, a listener that is no function and an unknown option are refused', () => {
  const { app } = world()
  const on = app.on.bind(app) as (...given: unknown[]) => unknown
  expect(() => on('job.faild', () => null)).toThrow('app.on() has no event "job.faild".')
  expect(() => on('job.failed', 'log')).toThrow('The listener of app.on("job.failed") must be a function.')
  expect(() => on('job.failed', () => null, { topic: [] })).toThrow('app.on() has no option "topic".')
  expect(() => on('job.failed', () => null, { topics: ['ann'] })).toThrow('topics must be a list')
})

test('the compiler knows the events and what they carry', () => {
  expectTypeOf<AppEvents['job.failed']['failure']>().toEqualTypeOf<{ code: string; message: string } | null>()
  expectTypeOf<AppEvents['job.progress']['done']>().toEqualTypeOf<number | null>()
  expectTypeOf<AppEvents['batch.settled']['subject']>().toEqualTypeOf<string>()
  // @ts-expect-error a completed job has no failure
  expectTypeOf<AppEvents['job.complete']['failure']>().toBeNever()
  // @ts-expect-error no such event
  expectTypeOf<AppEvents['job.faild']>().toBeNever()
})
