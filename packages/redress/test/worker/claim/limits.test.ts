import { describe, expect, onTestFinished, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { turns } from '../../../../../test/support/until.ts'
import { failureCodes } from '../../../src/core/failure/taxonomy.ts'
import type { PolicyInput } from '../../../src/core/policy/policy.ts'
import { type TestKit, testKit } from '../../../src/testing/index.ts'

/** A kit whose jobs each take a second of its time, and who was under way when. */
function busy(policy: PolicyInput, { lasts = '1s' }: { lasts?: string } = {}) {
  const kit = testKit()
  onTestFinished(() => kit.stop())
  const startMs = kit.clock.nowMs()
  const began: [ms: number, key: string][] = []
  const running = new Map<string, number>()
  const most = new Map<string, number>()
  const count = (key: string, by: number) => {
    running.set(key, (running.get(key) ?? 0) + by)
    most.set(key, Math.max(most.get(key) ?? 0, running.get(key) ?? 0))
  }
  const job = kit.app.job('busy', {
    policy: { orphan: 'requeue', ...policy },
    run: async ({ key }: { key: string }) => {
      began.push([kit.clock.nowMs() - startMs, key])
      for (const each of [key, 'all']) count(each, 1)
      await kit.sleep(lasts)
      for (const each of [key, 'all']) count(each, -1)
    },
  })
  const submit = (...keys: string[]) =>
    job.submitMany(
      keys.map((key) => ({ key })),
      { limitKey: ({ key }) => key },
    )
  return { kit, job, submit, began, most: (key = 'all') => most.get(key) ?? 0, times: () => began.map(([ms]) => ms) }
}

describe('a limit on how many run at once', () => {
  test('a concurrency limit holds in a worker with more slots, and each end starts the next job at once [E1]', async () => {
    const { kit, submit, most, times } = busy({ concurrency: 2 })
    await submit('a', 'b', 'c', 'd', 'e')
    await kit.drain()
    expect(most()).toBe(2)
    expect(times()).toEqual([0, 0, 1_000, 1_000, 2_000])
  })

  test('a limit per key holds for each key and lets other keys pass [E24]', async () => {
    const { kit, submit, began, most } = busy({ concurrency: { max: 3, perKey: 1 } })
    await submit('a', 'a', 'a', 'b', 'b', 'c')
    await kit.drain()
    expect(['a', 'b', 'c', 'all'].map(most)).toEqual([1, 1, 1, 3])
    expect(began).toEqual([
      [0, 'a'],
      [0, 'b'],
      [0, 'c'],
      [1_000, 'a'],
      [1_000, 'b'],
      [2_000, 'a'],
    ])
  })

  test('is given free by a worker that died only when its job is taken back', async () => {
    const { kit, submit, times } = busy({ concurrency: 1, lease: { ttl: '10s' } })
    await kit.crashingWorker({ at: 'decide' })
    await submit('first', 'second')
    await kit.drain()
    // The first ran for a second and its worker fell dead; it goes before the second when its lease has run out.
    expect(times()).toEqual([0, 10_000, 11_000])
  })

  test('is not used up by jobs that wait in a worker', async () => {
    const scene = new Scene()
    onTestFinished(() => scene.end())
    const policy = { orphan: 'requeue', concurrency: 100 } as const
    scene.app.job('quick', { policy, run: () => undefined })
    scene.app.job('slow', { policy, run: () => new Promise(() => undefined) })
    await scene.worker({ concurrency: 4 })
    await scene.app.submitMany('quick', Array(200).fill({}))
    await scene.pass(1)
    await scene.app.submitMany('slow', Array(50).fill({}))
    await scene.pass(1)
    await scene.pass(1)
    expect((await scene.store.load({ type: 'slow', limitKey: null })).underWay).toBe(4)
  })

  test('that another worker of the same process reached delays no job longer than the running job lasts', async () => {
    const scene = new Scene()
    onTestFinished(() => scene.end())
    const ends: (() => void)[] = []
    scene.app.job('one', { policy: { concurrency: 1 }, run: () => new Promise<void>((resolve) => ends.push(resolve)) })
    // Neither polls: only a wake can tell the second.
    const [first, second] = [await scene.worker({ pollMs: 86_400_000 }), await scene.worker({ pollMs: 86_400_000 })]
    await scene.app.submitMany('one', [{}, {}])
    await first.start()
    await second.start()
    await turns(10)
    expect([first.held, second.held].toSorted()).toEqual([0, 1])
    const [holder, waiter] = first.held === 1 ? [first, second] : [second, first]
    void holder.stop()
    await turns(5)
    ends[0]?.()
    await turns(20)
    expect(waiter.held).toBe(1)
  })
})

describe('a limit on how many begin per time', () => {
  test('dispatches at exactly the moments it allows', async () => {
    const { kit, submit, times } = busy({ rate: { max: 4, per: '1s', burst: 2 } }, { lasts: '10ms' })
    await submit(...Array(8).fill('a'))
    await kit.drain()
    expect(times()).toEqual([0, 0, 250, 500, 750, 1_000, 1_250, 1_500])
  })

  test('per key meters each key by itself', async () => {
    const { kit, submit, began } = busy({ rate: { max: 1, per: '10s', scope: 'key' } }, { lasts: '10ms' })
    await submit('a', 'a', 'b', 'a', 'b')
    await kit.drain()
    expect(began).toEqual([
      [0, 'a'],
      [0, 'b'],
      [10_000, 'a'],
      [10_000, 'b'],
      [20_000, 'a'],
    ])
  })

  test('holds beside a limit on how many run at once', async () => {
    const { kit, submit, times, most } = busy({ concurrency: 2, rate: { max: 10, per: '1s', burst: 5 } })
    await submit(...Array(6).fill('a'))
    await kit.drain()
    expect(most()).toBe(2)
    expect(times()).toEqual([0, 0, 1_000, 1_000, 2_000, 2_000])
  })
})

describe('a held job names the reason', () => {
  const why = async (kit: TestKit, id: string) => (await kit.app.jobs.find(id))?.held

  test('concurrency, of the type and of the key', async () => {
    const { kit, submit } = busy({ concurrency: { max: 2, perKey: 1 } })
    const [, second, , fourth] = await submit('a', 'a', 'b', 'c')
    await kit.tick()
    const ofType = { by: 'concurrency', name: 'busy', why: '2 under way, which is concurrency.max', until: null }
    expect(await why(kit, fourth?.id ?? '')).toEqual([ofType])
    expect(await kit.app.explain(second?.id ?? '')).toContain('Held by concurrency busy: 2 under way')
  })

  test('a key alone, with the orphan that keeps its slot', async () => {
    const { kit, submit } = busy({ concurrency: { perKey: 1 }, orphan: 'report', lease: { ttl: '10s' } })
    await kit.crashingWorker({ at: 'decide' })
    const [, second] = await submit('a', 'a')
    await kit.advance('1m')
    expect(await why(kit, second?.id ?? '')).toMatchObject([
      {
        name: 'busy a',
        why: '1 under way, which is concurrency.perKey; 1 of this type waits for a person as an orphan',
      },
    ])
  })

  test('a rate, with the time at which it lets the next one go', async () => {
    const { kit, submit } = busy({ rate: { max: 1, per: '1m' } })
    const [, second] = await submit('a', 'a')
    await kit.advance('20s')
    const until = new Date(kit.clock.nowMs() + 40_000).toISOString()
    expect(await why(kit, second?.id ?? '')).toEqual([
      { by: 'rate', name: 'busy', why: '1 in 1 m at most; one more may go in 40 s', until },
    ])
  })

  test('a held job names the paused queue, who paused it and why, and resumes in time [D34]', async () => {
    const { kit, submit, times } = busy({})
    const by = { name: 'default', actor: 'ann', reason: 'the disk is full' }
    await kit.app.perform('queues.pause', { ...by, for: '30m' })
    const [first] = await submit('a')
    await kit.advance('10m')
    const until = new Date(kit.clock.nowMs() + 1_200_000).toISOString()
    expect(await why(kit, first?.id ?? '')).toEqual([
      { by: 'queue', name: 'default', why: 'paused by ann (the disk is full); it goes on in 20 m', until },
    ])
    await kit.drain()
    expect(times()).toEqual([1_800_000])
  })
})

describe('a retry budget', () => {
  const codes = failureCodes({ BUSY: { fault: 'dependency', retry: 'transient', message: 'It is busy.' } })

  test('lets retries over it wait longer, loses none, and says so', async () => {
    const kit = testKit()
    onTestFinished(() => kit.stop())
    const startMs = kit.clock.nowMs()
    const retriedMs: number[] = []
    const storm = kit.app.job('storm', {
      codes,
      policy: { retry: { max: 2, backoff: { table: ['5s'] }, budget: { ratio: 0, perMinute: 3 } } },
      run: (_: unknown, attempt) => {
        if (attempt.number === 1) attempt.fail('BUSY')
        retriedMs.push(kit.clock.nowMs() - startMs)
      },
    })
    const submitted = await storm.submitMany(Array(6).fill({}))
    await kit.tick()
    const last = submitted.at(-1)?.id ?? ''
    const { verdict, steps } = await kit.app.perform('jobs.explain', { id: last })
    expect(verdict).toContain('The retry budget of storm is used up: 1 m added.')
    expect(steps.at(-1)?.ended?.text).toContain('next attempt in 5 s; the retry budget of storm is used up: 1 m added')
    await kit.drain()
    expect(retriedMs).toEqual([5_000, 5_000, 5_000, 25_000, 45_000, 65_000])
    for (const { id } of submitted) expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'complete' })
  })
})

describe('a limit of one worker on how many of a type it runs at once (slotsMax)', () => {
  /** Jobs that last a second, of a type with slots and of one without. */
  function slotted(slotsMax: () => number) {
    const kit = testKit()
    onTestFinished(() => kit.stop())
    const running = new Map<string, number>()
    const most = new Map<string, number>()
    const run = (type: string) => async () => {
      running.set(type, (running.get(type) ?? 0) + 1)
      most.set(type, Math.max(most.get(type) ?? 0, running.get(type) ?? 0))
      await kit.sleep('1s')
      running.set(type, (running.get(type) ?? 1) - 1)
    }
    kit.app.job('scarce', { policy: { orphan: 'requeue' }, slotsMax, run: run('scarce') })
    kit.app.job('plain', { policy: { orphan: 'requeue' }, run: run('plain') })
    return { kit, most: (type: string) => most.get(type) ?? 0 }
  }

  test('the worker never has more of that type, and its other slots stay free for the rest', async () => {
    const { kit, most } = slotted(() => 2)
    const scarce = await kit.app.submitMany('scarce', Array(6).fill({}))
    await kit.app.submitMany('plain', Array(6).fill({}))
    await kit.tick()
    expect((await kit.app.jobs.list({ type: 'scarce', status: 'processing' })).jobs).toHaveLength(2)
    expect((await kit.app.jobs.list({ type: 'plain', status: 'processing' })).jobs).toHaveLength(6)
    await kit.drain()
    expect(most('scarce')).toBe(2)
    for (const { id } of scarce)
      expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'complete', attemptCount: 1 })
  })

  test('each claim asks again: a limit that opens lets waiting jobs begin, and 0 lets none', async () => {
    let open = 0
    const { kit, most } = slotted(() => open)
    await kit.app.submitMany('scarce', Array(4).fill({}))
    await kit.advance('10s')
    expect(most('scarce')).toBe(0)
    open = 3
    await kit.drain()
    expect(most('scarce')).toBe(3)
  })

  test.each([
    [
      'throws',
      () => {
        throw new Error('nobody knows')
      },
    ],
    ['answers NaN', () => Number.NaN],
    ['answers less than nothing', () => -1],
  ])(
    'a slotsMax function that %s keeps its own type waiting, is told, and keeps no other type',
    async (_, slotsMax) => {
      const scene = new Scene()
      onTestFinished(() => scene.end())
      scene.app.job('scarce', { slotsMax, run: () => 'done' })
      scene.app.job('plain', { run: () => 'done' })
      await scene.worker()
      const scarce = await scene.app.submit('scarce', {})
      const plain = await scene.app.submit('plain', {})
      for (let i = 0; i < 5; i++) await scene.pass(100)
      expect(await scene.status(plain.id)).toBe('complete')
      expect(await scene.status(scarce.id)).toBe('queued')
      expect(scene.log.lines.filter(({ message }) => message.startsWith('slotsMax of scarce failed'))).not.toEqual([])
    },
  )
})
