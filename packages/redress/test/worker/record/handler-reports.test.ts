import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { FAULTS, holdOneRun, only, type Run } from '../../../../../test/support/stores/faulty-store.ts'
import { turns } from '../../../../../test/support/until.ts'
import { LeaseLost } from '../../../src/worker/attempt/attempt.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

const pass = (ms: number) => scene.clock.advance(ms, () => turns(3))

const lines = async (id: string) => (await scene.store.logs({ id, limit: 2_000 })).map(({ message }) => message)

/** The progress events of the store, in order. */
const progressEvents = async () =>
  (await scene.store.feed({ afterSeq: 0, limit: 10_000 })).events.filter(({ kind }) => kind === 'progress')

describe('lines of attempt.log', () => {
  test('are written together within a second, for all attempts of a worker in one call', async () => {
    const { faulty, app, runs, id, worker } = await holdOneRun(scene, 30_000)
    const other = await app.submit('open', {})
    await worker.tick()
    const [one, two] = runs as [Run, Run]
    for (let i = 1; i <= 50; i++) {
      one.attempt.log(`one ${i}`)
      two.attempt.log(`two ${i}`, { i })
      await pass(10)
    }
    expect(faulty.timesOf('report')).toHaveLength(0)
    await pass(500)
    expect(faulty.timesOf('report')).toHaveLength(1)
    expect(await lines(id)).toHaveLength(50)
    expect(await scene.store.logs({ ...other, limit: 1 })).toMatchObject([{ message: 'two 50', fields: { i: 50 } }])
  })

  test('have the time at which they were logged', async () => {
    const { runs, id } = await holdOneRun(scene, 30_000)
    await pass(5_000)
    const atMs = scene.clock.nowMs()
    only(runs).attempt.log('now')
    await pass(1_500)
    expect(await scene.store.logs({ id, limit: 1 })).toMatchObject([{ atMs }])
  })

  test.each(['complete', 'failed', 'retry'] as const)(
    'that are not written yet come with the close: %s',
    async (to) => {
      const fails = to !== 'complete'
      scene.app.job('any', {
        policy: { retry: to === 'failed' ? { max: 1 } : { max: 3, unknown: 'transient' } },
        run: (_: unknown, attempt) => {
          attempt.log('first')
          attempt.progress({ done: 1, total: 2 })
          attempt.log('last')
          if (fails) throw new Error('no')
        },
      })
      const { id } = await scene.app.submit('any', {})
      await (await scene.worker()).tick()
      expect(await scene.story(id)).toBe(`queued processing ${to}`)
      expect(await lines(id)).toEqual(['first', 'last'])
      expect(await progressEvents()).toMatchObject([{ data: { progress: 0.5, done: 1, total: 2 } }])
    },
  )

  test('after the 1,000th of an attempt are dropped and counted, and each attempt may log again', async () => {
    scene.app.job('any', {
      policy: { retry: { max: 2, unknown: 'transient' } },
      run: (_: unknown, attempt) => {
        for (let i = 1; i <= 1_234; i++) attempt.log(`line ${i}`)
        throw new Error('no')
      },
    })
    const { id } = await scene.app.submit('any', {})
    const worker = await scene.worker()
    await worker.tick()
    await pass(60_000)
    await worker.tick()
    expect(await scene.store.logCounts({ id })).toEqual([
      { attempt: 1, lines: 1_000, dropped: 234 },
      { attempt: 2, lines: 1_000, dropped: 234 },
    ])
    expect((await lines(id)).at(-1)).toBe('line 1000')
  })

  test('that are dropped while the handler runs are counted within two seconds', async () => {
    const { runs, id } = await holdOneRun(scene, 30_000)
    for (let i = 1; i <= 1_001; i++) only(runs).attempt.log('x')
    await pass(1_500)
    only(runs).attempt.log('x')
    await pass(2_000)
    expect(await scene.store.logCounts({ id })).toEqual([{ attempt: 1, lines: 1_000, dropped: 2 }])
  })

  test('have no secrets and a bounded length, and their fields are as they were when it was called', async () => {
    const { runs, id } = await holdOneRun(scene, 30_000)
    const fields: Record<string, unknown> = { page: 1, password: 'hunter2', err: new Error('token=abcdefgh12345678') }
    fields.self = fields
    only(runs).attempt.log(`postgres://ann:hunter2@db/x ${'y'.repeat(10_000)}`, fields)
    fields.page = 2
    await pass(1_500)
    const [line] = await scene.store.logs({ id, limit: 1 })
    expect(line?.message).toHaveLength(2_000)
    expect(JSON.stringify(line)).not.toMatch(/hunter2|abcdefgh12345678/)
    expect(line?.fields).toMatchObject({ page: 1, password: '[redacted]' })
  })

  test.each([
    ['an error', new Error('the disk is full'), { name: 'Error', message: 'the disk is full' }],
    ['a Map', new Map([['page', 3]]), { page: 3 }],
    ['an object that becomes a text', new URL('http://a.org/b'), { value: 'http://a.org/b' }],
    [
      'an object that cannot be read',
      Object.defineProperty({}, 'page', {
        enumerable: true,
        get: () => {
          throw new Error('closed')
        },
      }),
      { page: '[unreadable]' },
    ],
  ])('keep the content of %s', async (_, fields, kept) => {
    const { runs, id } = await holdOneRun(scene, 30_000)
    only(runs).attempt.log('line', fields as never)
    await pass(1_500)
    expect(await scene.store.logs({ id, limit: 1 })).toMatchObject([{ message: 'line', fields: kept }])
  })

  test('that are not a text, or fields that are not an object, are refused', async () => {
    const { runs } = await holdOneRun(scene, 30_000)
    const { attempt } = only(runs)
    expect(() => attempt.log(undefined as never)).toThrow('attempt.log takes a text, and an object for the rest; got')
    expect(() => attempt.log(new Error('x') as never)).toThrow(/takes a text/)
    for (const fields of [[1], 'x', null] as never[])
      expect(() => attempt.log('x', fields)).toThrow(/must be an object/)
  })

  test('of a handler that goes on after its time limit are dropped', async () => {
    const { runs, id } = await holdOneRun(scene, 30_000, { policy: { timeout: { attempt: '5s' } } })
    only(runs).attempt.log('in time')
    await pass(6_000)
    only(runs).attempt.log('too late')
    only(runs).attempt.progress(0.5)
    await pass(6_000)
    expect(await lines(id)).toEqual(['in time'])
  })

  test('cost nothing where a handler logs none: the close has no report and no call is made', async () => {
    const { faulty, runs, id } = await holdOneRun(scene, 30_000)
    only(runs).end('done')
    await pass(2_000)
    expect(await scene.status(id)).toBe('complete')
    expect(faulty.timesOf('report')).toEqual([])
  })
})

describe('progress', () => {
  test('is written at once for the first time, then at most once a second, and the last one with the close', async () => {
    const { faulty, runs, id } = await holdOneRun(scene, 60_000)
    const { attempt, end } = only(runs)
    attempt.progress(0)
    await turns(5)
    expect(faulty.timesOf('report')).toHaveLength(1)
    for (let i = 1; i <= 100; i++) {
      attempt.progress(i / 200)
      await pass(100)
    }
    const sent = faulty.timesOf('report').length
    expect(sent).toBeGreaterThanOrEqual(10)
    expect(sent).toBeLessThanOrEqual(11)
    expect(await progressEvents()).toHaveLength(sent)
    expect((await scene.job(id)).progress).toBeCloseTo(0.5, 1)
    attempt.progress({ done: 99, total: 100, note: 'nearly' })
    end()
    await turns(10)
    expect((await progressEvents()).at(-1)).toMatchObject({ data: { progress: 0.99, note: 'nearly' } })
    expect(await scene.status(id)).toBe('complete')
  })

  test('of a long attempt is an event for each hundredth of its time, and in the row each second', async () => {
    const { faulty, runs, id } = await holdOneRun(scene, 7_200_000, { worker: { pollMs: 1_000_000 } })
    const { attempt } = only(runs)
    for (let i = 1; i <= 3_600; i++) {
      attempt.progress({ done: i, total: 3_600 })
      await pass(1_000)
    }
    expect(faulty.timesOf('report').length).toBeGreaterThan(3_500)
    expect((await scene.job(id)).progressDetail?.done).toBeGreaterThan(3_590)
    const events = await progressEvents()
    expect(events.length).toBeGreaterThan(200)
    expect(events.length).toBeLessThan(600)
  })

  test('is forgotten when the job goes back to the queue', async () => {
    const { runs, id, worker } = await holdOneRun(scene, 30_000)
    only(runs).attempt.progress({ done: 1, total: 2, note: 'half' })
    await pass(0)
    expect(await scene.job(id)).toMatchObject({ progress: 0.5, progressDetail: { done: 1, total: 2, note: 'half' } })
    worker.crash()
    scene.clock.block(31_000)
    await (await scene.worker({}, scene.newApp())).maintain()
    expect(await scene.job(id)).toMatchObject({ status: 'queued', progress: 0, progressDetail: null })
  })

  test.each<[unknown, RegExp | { fraction: number }]>([
    [0, { fraction: 0 }],
    [1.0000000002, { fraction: 1 }],
    [{ done: 0, total: 0 }, { fraction: 1 }],
    [{ done: 120, total: 100 }, { fraction: 1 }],
    [{ done: 1, total: 4, note: 'a\nb' }, { fraction: 0.25 }],
    [30, /from 0 to 1; got 30\. For other units call progress\({ done: 30, total: 100 }\)/],
    [-0.1, /from 0 to 1; got -0.1/],
    [Number.NaN, /got NaN/],
    ['0.5', /or { done, total, note }; got string/],
    [null, /got null/],
    [{ done: 1 }, /done and total of progress must be numbers of at least 0; got 1 and undefined/],
    [{ done: -1, total: 2 }, /got -1 and 2/],
    [{ done: 1, total: Number.POSITIVE_INFINITY }, /got 1 and Infinity/],
    [{ done: 1, total: 2, note: 5 }, /note of progress must be a text; got number/],
    [{ done: 1, total: 2, nota: 'x' }, /progress has no field nota/],
  ])('%j is taken, or refused with a reason', async (given, outcome) => {
    const { runs, id } = await holdOneRun(scene, 30_000)
    const report = () => only(runs).attempt.progress(given as never)
    if (outcome instanceof RegExp) expect(report).toThrow(outcome)
    else {
      report()
      await pass(0)
      expect((await scene.job(id)).progress).toBe(outcome.fraction)
    }
  })
})

describe('a store that does not take reports', () => {
  test.each(FAULTS)('loses nothing and doubles nothing: %s', async (fault) => {
    const { faulty, runs, id } = await holdOneRun(scene, 600_000, { lateMs: 15_000 })
    const { attempt, end } = only(runs)
    faulty.set(fault, 'report')
    attempt.progress(0.25)
    attempt.log('during')
    await pass(5_000)
    attempt.log('still')
    await pass(30_000)
    faulty.set('well', 'report')
    await pass(30_000)
    expect(await lines(id)).toEqual(['during', 'still'])
    expect((await scene.job(id)).progress).toBe(0.25)
    attempt.log('after')
    end()
    await pass(100)
    expect(await lines(id)).toEqual(['during', 'still', 'after'])
  })

  test.each(FAULTS)('does not delay the close, which brings the lines along: %s', async (fault) => {
    const { faulty, runs, id } = await holdOneRun(scene, 600_000)
    faulty.set(fault, 'report')
    only(runs).attempt.log('one')
    await pass(2_000)
    only(runs).attempt.log('two')
    only(runs).end()
    await pass(200)
    expect(await scene.status(id)).toBe('complete')
    expect(await lines(id)).toEqual(['one', 'two'])
  })

  test('that refuses the close first gets the lines with the next try, once', async () => {
    const { faulty, runs, id } = await holdOneRun(scene, 600_000)
    faulty.set('refused', 'close')
    only(runs).attempt.log('kept')
    only(runs).end()
    await pass(3_000)
    faulty.set('well', 'close')
    await pass(10_000)
    expect(await scene.status(id)).toBe('complete')
    expect(await lines(id)).toEqual(['kept'])
  })
})

test('a report that finds its lease lost stops the attempt', async () => {
  const { runs, id, faulty } = await holdOneRun(scene, 30_000)
  const row = await scene.job(id)
  faulty.set('silent', 'renew')
  await pass(500)
  // The store's clock is ahead: another worker took the job.
  const { key, attempt } = row
  const change = { to: 'queued', cause: 'reclaimed', delayMs: 60_000, spent: null, failure: null, note: null } as const
  await scene.store.reclaim({ reclaims: [{ key, attempt, expect: 'stuck', change }] }).catch(() => undefined)
  await scene.store.start({ worker: 1, attempts: [{ key, attempt, agoMs: 0 }] })
  await scene.store.reclaim({ reclaims: [{ key, attempt, expect: 'stuck', change }] })
  only(runs).attempt.log('too late')
  await pass(1_500)
  expect(only(runs).reason).toBeInstanceOf(LeaseLost)
  expect(await lines(id)).toEqual([])
})
