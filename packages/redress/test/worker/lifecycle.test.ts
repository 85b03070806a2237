import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Scene } from '../../../../test/support/scene.ts'
import { turns } from '../../../../test/support/until.ts'
import type { Store } from '../../src/store/contract/store.ts'
import type { Attempt } from '../../src/worker/attempt/attempt.ts'
import { STEPS } from '../../src/worker/attempt/steps.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

describe('a worker that falls dead', () => {
  test.each(STEPS)(
    'as an attempt enters %s loses nothing: another does the job, and it completes once',
    async (step) => {
      scene.app.job('any', {
        policy: { orphan: 'requeue', lease: { ttl: '1s' } },
        run: () => 'done',
        verify: () => undefined,
      })
      const jobs = await scene.app.submitMany('any', Array(20).fill({}))
      let seen = 0
      const doomed = await scene.worker({ probe: (now) => (now === step && ++seen === 7 ? 'crash' : undefined) })
      await doomed.tick()
      expect(seen).toBe(7)
      scene.clock.block(1_000)
      const heir = await scene.worker()
      await heir.maintain()
      await heir.tick()
      for (const { id } of jobs) {
        expect(await scene.status(id)).toBe('complete')
        expect((await scene.story(id)).match(/complete/g)).toHaveLength(1)
        expect(await scene.rebuilt(id)).toEqual(await scene.standing(id))
      }
    },
  )
})

describe('two workers', () => {
  test('in one process share the jobs and do each once', async () => {
    const runs = new Map<string, number>()
    scene.app.job('any', {
      run: async (_: unknown, attempt) => {
        runs.set(attempt.jobId, (runs.get(attempt.jobId) ?? 0) + 1)
        await turns(1)
      },
    })
    const [one, other] = [await scene.worker({ concurrency: 3 }), await scene.worker({ concurrency: 3 })]
    const jobs = await scene.app.submitMany('any', Array(100).fill({}))
    for (let i = 0; i < 50; i++) await Promise.all([one.tick(), other.tick()])
    expect(runs.size).toBe(100)
    expect(new Set(runs.values())).toEqual(new Set([1]))
    for (const { id } of jobs) expect(await scene.status(id)).toBe('complete')
  })

  test('one after the other may have the same name, as a restarted machine has', async () => {
    scene.app.job('any', { policy: { orphan: 'requeue', lease: { ttl: '1s' } }, run: () => 'done' })
    const first = await scene.worker({ id: 'the-machine', probe: () => 'crash' })
    const { id } = await scene.app.submit('any', {})
    await first.tick()
    const second = await scene.worker({ id: 'the-machine' })
    scene.clock.block(1_000)
    await second.maintain()
    await second.tick()
    expect(await scene.status(id)).toBe('complete')
    expect((await scene.store.workers()).filter((worker) => worker.id === 'the-machine')).toHaveLength(1)
  })

  test('at the same time with the same name do not take each other for themselves', async () => {
    const ends: (() => void)[] = []
    scene.app.job('any', { run: () => new Promise<void>((resolve) => ends.push(resolve)) })
    const one = await scene.worker({ id: 'twin', concurrency: 1 })
    const other = await scene.worker({ id: 'twin', concurrency: 1 })
    const jobs = await scene.app.submitMany('any', [{}, {}])
    await one.tick()
    await other.tick()
    for (const { id } of jobs) expect(await scene.job(id)).toMatchObject({ status: 'processing', attempt: 1 })
    for (const end of ends) end()
    await scene.pass(0)
    for (const { id } of jobs) expect(await scene.status(id)).toBe('complete')
  })
})

describe('a handler', () => {
  test('may submit jobs, also of its own type, and they run', async () => {
    scene.app.job('tree', {
      run: async (depth: number) => {
        if (depth > 0) await scene.app.submitMany('tree', [depth - 1, depth - 1])
        return depth
      },
    })
    await scene.worker({ concurrency: 2 })
    await scene.app.submit('tree', 5)
    for (let i = 0; i < 40; i++) await scene.pass(100)
    expect(await scene.store.counts()).toEqual([expect.objectContaining({ complete: 63, queued: 0, processing: 0 })])
  })

  test('cannot spoil the input of its next attempt', async () => {
    const seen: string[] = []
    scene.app.job('greedy', {
      policy: { retry: { max: 2, unknown: 'transient' } },
      run: (input: { list: number[] }) => {
        seen.push(JSON.stringify(input))
        input.list.length = 0
        throw new Error('again')
      },
    })
    await scene.worker()
    await scene.app.submit('greedy', { list: [1, 2] })
    await scene.pass(0)
    await scene.pass(100)
    expect(seen).toEqual(['{"list":[1,2]}', '{"list":[1,2]}'])
  })

  test('that keeps its attempt after the end can do no harm with it', async () => {
    let kept: Attempt | undefined
    scene.app.job('any', {
      run: (_: unknown, attempt) => {
        kept = attempt as Attempt
        return 'done'
      },
    })
    await scene.worker()
    const { id } = await scene.app.submit('any', {})
    await scene.pass(0)
    kept?.progress(0.1)
    expect(kept?.signal.aborted).toBe(false)
    await scene.pass(5_000)
    expect(await scene.job(id)).toMatchObject({ status: 'complete', progress: 1 })
    expect(await scene.story(id)).toBe('queued processing complete')
  })

  test('of a type that was declared after the worker was made is run by that worker', async () => {
    const early = await scene.worker()
    await early.tick()
    scene.app.job('late', { run: () => 'done' })
    const { id } = await scene.app.submit('late', {})
    await early.tick()
    expect(await scene.status(id)).toBe('complete')
  })
})

describe('a policy that was changed while jobs were there', () => {
  test('to one that retries, a job accepted as forward-only still only goes forward, and blocks no other job', async () => {
    const before = scene.newApp()
    before.job('any', { policy: { forwardOnly: true }, run: () => 1 })
    const { id } = await before.submit('any', 'throws')
    scene.app.job('any', {
      policy: { retry: { max: 3, unknown: 'transient' } },
      run: (what: string) => {
        if (what === 'throws') throw new Error('no')
        return what
      },
    })
    const honest = await scene.app.submitMany('any', Array(5).fill('honest'))
    await scene.worker()
    for (let i = 0; i < 10; i++) await scene.pass(5_000)
    for (const job of honest) expect(await scene.status(job.id)).toBe('complete')
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 1, latestFailure: { code: 'UNKNOWN' } })
  })

  test('decides from then on, with what was spent before', async () => {
    const before = scene.newApp()
    const run = () => {
      throw new Error('no')
    }
    before.job('any', { policy: { retry: { max: 5, unknown: 'transient' } }, run })
    const { id } = await before.submit('any', {})
    const old = await scene.worker({}, before)
    await old.tick()
    await old.tick()
    old.crash()
    scene.app.job('any', { policy: { retry: { max: 3, unknown: 'transient' } }, run })
    await (await scene.worker()).tick()
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 3 })
  })
})

describe('stopping and starting', () => {
  test('a worker stopped while it makes itself known claims nothing', async () => {
    const known = Promise.withResolvers<void>()
    const store: Store = {
      ...scene.store,
      async enlist(params) {
        await known.promise
        return scene.store.enlist(params)
      },
    }
    const app = scene.newApp({ store })
    let runs = 0
    app.job('any', { run: () => runs++ })
    await app.submit('any', {})
    const worker = await scene.worker({}, app)
    const starting = worker.start()
    await worker.stop({ graceMs: 0 })
    known.resolve()
    await starting
    await turns()
    expect(runs).toBe(0)
    expect(worker.held).toBe(0)
  })

  test('an app can stop one worker and start another', async () => {
    scene.app.job('any', { run: () => 'done' })
    const first = await scene.app.work()
    await first.stop()
    const second = await scene.app.work()
    const { id } = await scene.app.submit('any', {})
    await turns(50)
    expect(await scene.status(id)).toBe('complete')
    await second.stop()
  })

  test('many workers in one process leave nothing behind on it', async () => {
    scene.app.job('any', { run: () => 'done' })
    const listeners = process.listenerCount('exit')
    const workers = await Promise.all(Array.from({ length: 20 }, () => scene.app.work()))
    // By name: a worker of another test file in this process may have added the same listener before.
    expect(process.listeners('exit').filter(({ name }) => name === 'runAll')).toHaveLength(1)
    await Promise.all(workers.map((worker) => worker.stop()))
    expect(process.listenerCount('exit')).toBe(listeners)
  })
})

test('a job submitted while the store is being asked is found without waiting for the next poll', async () => {
  const answer = Promise.withResolvers<void>()
  let isHeld = true
  const store: Store = {
    ...scene.store,
    async claim(params) {
      const claimed = await scene.store.claim(params)
      if (isHeld) await answer.promise
      return claimed
    },
  }
  const app = scene.newApp({ store })
  app.job('any', { run: () => 'done' })
  await app.store()
  const worker = await scene.worker({ pollMs: 3_600_000 }, app)
  await worker.start()
  await turns()
  const { id } = await app.submit('any', {})
  isHeld = false
  answer.resolve()
  await turns(50)
  expect(await scene.status(id)).toBe('complete')
})

test('a thousand jobs that become due at the same moment are all done, oldest first', async () => {
  const order: number[] = []
  scene.app.job('any', { run: (n: number) => void order.push(n) })
  await Promise.all(Array.from({ length: 1_000 }, (_, n) => scene.app.submit('any', n, { delay: '1h' })))
  await scene.worker()
  await scene.pass(3_600_000)
  for (let i = 0; i < 5; i++) await scene.pass(100)
  expect(order).toEqual(Array.from({ length: 1_000 }, (_, n) => n))
})

test('low priority waits while there is higher, and is done when there is none', async () => {
  const order: string[] = []
  scene.app.job('any', { run: (name: string) => void order.push(name) })
  await scene.app.submit('any', 'low', { priority: -1 })
  await scene.app.submitMany('any', Array(30).fill('high'), { priority: 1 })
  await scene.worker({ concurrency: 1 })
  for (let i = 0; i < 10; i++) await scene.pass(100)
  expect(order).toHaveLength(31)
  expect(order.at(-1)).toBe('low')
})

test('the same id submitted again, at once or later, is the same job', async () => {
  let runs = 0
  scene.app.job('any', { run: () => ++runs })
  const id = '019b76da-a800-7000-8000-000000000001'
  const answers = await Promise.all(Array.from({ length: 10 }, () => scene.app.submit('any', {}, { id })))
  expect(answers.filter((answer) => answer.isNew)).toHaveLength(1)
  await scene.worker()
  await scene.pass(0)
  expect(await scene.app.submit('any', {}, { id })).toEqual({ id, isNew: false, status: 'complete' })
  await scene.pass(100)
  expect(runs).toBe(1)
})

test('a dedupe key is one job however many submit at once, and free again after a failure', async () => {
  scene.app.job('any', {
    run: () => {
      throw new Error('no')
    },
  })
  const submit = () => scene.app.submit('any', {}, { dedupe: ['a', 1, null] })
  const ids = new Set((await Promise.all(Array.from({ length: 10 }, submit))).map(({ id }) => id))
  expect(ids.size).toBe(1)
  await scene.worker()
  await scene.pass(0)
  const again = await submit()
  expect(again.isNew).toBe(true)
  expect(ids.has(again.id)).toBe(false)
})
