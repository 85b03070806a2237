import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

/** Every way in which nothing is safe to ask of it. */
const unreadable: ProxyHandler<object> = new Proxy(
  {},
  {
    get() {
      throw new Error('the trap')
    },
  },
)

const cyclic = new Error('outer')
cyclic.cause = new Error('inner', { cause: cyclic })

const badStack = new Error('its stack throws')
Object.defineProperty(badStack, 'stack', {
  get() {
    throw new Error('no stack for you')
  },
})

const hostileValues: [string, unknown, RegExp][] = [
  ['a string', 'plain text', /plain text/],
  ['an empty string', '', /string/],
  ['null', null, /null/],
  ['undefined', undefined, /undefined/],
  ['NaN', Number.NaN, /NaN/],
  ['a symbol', Symbol('odd'), /odd/],
  ['a BigInt', 10n, /10/],
  ['a function', () => 1, /function/],
  ['a frozen object', Object.freeze({ oops: true }), /oops/],
  ['an object without prototype', Object.assign(Object.create(null), { oops: true }), /oops/],
  ['a proxy of which every use throws', new Proxy({}, unreadable), /cannot be read|could not be examined/],
  ['a revoked proxy', revoked(), /cannot be read|could not be examined/],
  ['an error with a cyclic cause', cyclic, /outer/],
  ['an error whose stack throws', badStack, /its stack throws/],
  ['an error with a message of 10 MB', new Error('m'.repeat(10_000_000)), /mmm/],
  ['a resolved promise', Promise.resolve(1), /object|Promise/],
]

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

async function expectTheRestGoesOn(): Promise<void> {
  const { id } = await scene.app.submit('honest', {})
  await scene.pass(0)
  expect(await scene.status(id)).toBe('complete')
}

async function runHostile(run: () => unknown): Promise<string> {
  scene.app.job('honest', { run: () => 'done' })
  scene.app.job('hostile', { run })
  await scene.worker()
  const { id } = await scene.app.submit('hostile', {})
  await scene.pass(0)
  return id
}

describe.each(hostileValues)('a handler that throws %s', (_name, thrown, says) => {
  const ways: [string, () => unknown][] = [
    [
      'at once',
      () => {
        throw thrown
      },
    ],
    [
      'later',
      async () => {
        await null
        throw thrown
      },
    ],
    // biome-ignore lint/suspicious/noThenProperty: that is what is tried here
    ['by a thenable of its own', () => ({ then: (_: unknown, reject: (reason: unknown) => void) => reject(thrown) })],
  ]
  test.each(ways)('%s leaves a readable failure, and the rest goes on', async (_way, run) => {
    const id = await runHostile(run)
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 1 })
    const failure = await scene.lastFailure(id)
    expect(failure).toMatchObject({ code: 'UNKNOWN', phase: 'execution', layer: 'worker' })
    expect(failure.detail).toMatch(says)
    expect(failure.detail.length).toBeLessThan(10_000)
    await expectTheRestGoesOn()
  })

  test('while verifying leaves a verification failure, and the rest goes on', async () => {
    scene.app.job('honest', { run: () => 'done' })
    scene.app.job('hostile', {
      run: () => 'output',
      verify() {
        throw thrown
      },
    })
    await scene.worker()
    const { id } = await scene.app.submit('hostile', {})
    await scene.pass(0)
    expect(await scene.lastFailure(id)).toMatchObject({ code: 'VERIFICATION_FAILED', phase: 'verification' })
    await expectTheRestGoesOn()
  })
})

describe('a handler that answers with', () => {
  test('an object whose then throws has failed', async () => {
    const id = await runHostile(() => ({
      // biome-ignore lint/suspicious/noThenProperty: that is what is tried here
      get then() {
        throw new Error('then itself throws')
      },
    }))
    expect((await scene.lastFailure(id)).detail).toContain('then itself throws')
    await expectTheRestGoesOn()
  })

  test('a thenable that both resolves and rejects has succeeded once', async () => {
    const id = await runHostile(() => ({
      // biome-ignore lint/suspicious/noThenProperty: that is what is tried here
      then(resolve: (value: unknown) => void, reject: (reason: unknown) => void) {
        resolve('first')
        reject(new Error('second'))
        throw new Error('third')
      },
    }))
    expect(await scene.story(id)).toBe('queued processing complete')
    await expectTheRestGoesOn()
  })

  test('a thenable that gives a promise is waited for to the end', async () => {
    const id = await runHostile(() => ({
      // biome-ignore lint/suspicious/noThenProperty: that is what is tried here
      then: (resolve: (value: unknown) => void) => resolve(Promise.resolve('at last')),
    }))
    expect((await scene.job(id)).result).toBe('"at last"')
  })

  test('a thenable that never settles is stopped at the attempt limit, and its slot is free again', async () => {
    scene.app.job('honest', { run: () => 'done' })
    // biome-ignore lint/suspicious/noThenProperty: that is what is tried here
    scene.app.job('hostile', { policy: { timeout: { attempt: '10s' } }, run: () => ({ then: () => undefined }) })
    await scene.worker({ concurrency: 1 })
    const { id } = await scene.app.submit('hostile', {})
    const { id: behind } = await scene.app.submit('honest', {})
    await scene.pass(0)
    expect(await scene.status(behind)).toBe('queued')
    await scene.pass(10_000)
    expect(await scene.lastFailure(id)).toMatchObject({ code: 'TIMEOUT', rule: 'stopped at the attempt time limit' })
    expect(await scene.status(behind)).toBe('complete')
  })
})

test('a handler that ignores its signal for ever does not keep its slot, and is not heard when it ends after all', async () => {
  const ends: ((value: string) => void)[] = []
  scene.app.job('stubborn', {
    policy: { timeout: { attempt: '10s' }, retry: { max: 2 } },
    run: () => new Promise<string>((resolve) => ends.push(resolve)),
  })
  await scene.worker({ concurrency: 1 })
  const { id } = await scene.app.submit('stubborn', {})
  await scene.pass(0)
  await scene.pass(10_000)
  expect(await scene.job(id)).toMatchObject({ status: 'processing', attempt: 2 })
  ends[0]?.('too late')
  await scene.pass(0)
  expect(await scene.job(id)).toMatchObject({ status: 'processing', attempt: 2 })
  ends[1]?.('in time')
  await scene.pass(0)
  expect(await scene.job(id)).toMatchObject({ status: 'complete', result: '"in time"' })
  expect(await scene.story(id)).toBe('queued processing started retry processing started complete')
})

test('synchronous and asynchronous handlers share the slots and both are recorded', async () => {
  const gate = Promise.withResolvers<void>()
  scene.app.job('sync', { run: (n: number) => n })
  scene.app.job('async', {
    run: async (n: number) => {
      await gate.promise
      return n
    },
  })
  await scene.worker({ concurrency: 3 })
  const slow = await scene.app.submitMany('async', [1, 2])
  const quick = await scene.app.submitMany(
    'sync',
    Array.from({ length: 50 }, (_, n) => n),
  )
  await scene.pass(0)
  for (const { id } of quick) expect(await scene.status(id)).toBe('complete')
  for (const { id } of slow) expect(await scene.status(id)).toBe('processing')
  gate.resolve()
  await scene.pass(0)
  for (const { id } of slow) expect(await scene.status(id)).toBe('complete')
})

test('a handler that throws after its lease was lost changes nothing', async () => {
  const fail = Promise.withResolvers<never>()
  const other = scene.newApp()
  for (const app of [scene.app, other]) {
    app.job('slow', {
      policy: { orphan: 'requeue', lease: { ttl: '1s' } },
      run: (_: unknown, attempt) => (attempt.number === 1 ? fail.promise : 'by the second'),
    })
  }
  const first = await scene.worker()
  const second = await scene.worker({}, other)
  const { id } = await scene.app.submit('slow', {})
  await first.tick()
  scene.clock.block(1_500)
  await second.maintain()
  await second.tick()
  expect(await scene.job(id)).toMatchObject({ status: 'complete', attempt: 2, result: '"by the second"' })
  fail.reject(new Error('far too late'))
  await first.tick()
  expect(await scene.failures(id)).toEqual([])
  expect(await scene.story(id)).toMatch(/reclaimed processing (started )?complete( lost)+$/)
  expect(await scene.rebuilt(id)).toEqual(await scene.standing(id))
})

test('the recorded stack of a failure ends where the engine calls the handler', async () => {
  scene.app.job('broken', {
    run: () => {
      throw new Error('it broke')
    },
  })
  const worker = await scene.worker()
  const { id } = await scene.app.submit('broken', {})
  await worker.tick()
  const [failure] = await scene.failures(id)
  expect(failure?.detail).toMatch(/it broke\n +at .*hostile-handlers\.test\.ts/)
  expect(failure?.detail).not.toMatch(/src\/worker/)
})

describe('a handler that blocks the event loop', () => {
  test('past its limit has failed with TIMEOUT although it answered, and the rest goes on', async () => {
    scene.app.job('honest', { run: () => 'done' })
    scene.app.job('hostile', {
      policy: { timeout: { attempt: '2s' } },
      run: () => {
        scene.clock.block(3_000)
        return 'an answer, but too late'
      },
    })
    await scene.worker()
    const { id } = await scene.app.submit('hostile', {})
    await scene.pass(0)
    expect(await scene.job(id)).toMatchObject({ status: 'failed', result: null, latestFailure: { code: 'TIMEOUT' } })
    await expectTheRestGoesOn()
  })

  test('does not use up the time of the jobs beside it', async () => {
    scene.app.job('patient', {
      policy: { timeout: { attempt: '2s' } },
      run: () => new Promise((resolve) => scene.clock.setTimer(10, () => resolve('done'))),
    })
    scene.app.job('hostile', { run: () => scene.clock.block(3_000) })
    await scene.worker()
    const { id } = await scene.app.submit('patient', {})
    await scene.app.submit('hostile', {})
    await scene.pass(0)
    await scene.pass(100)
    expect(await scene.status(id)).toBe('complete')
  })

  test('past the leases of jobs that wait behind it: those are begun only by who still has them', async () => {
    const begun: string[] = []
    const meanwhile: (() => void)[] = []
    const other = scene.newApp()
    for (const [name, app] of [
      ['one', scene.app],
      ['other', other],
    ] as const) {
      app.job('quick', { run: () => undefined })
      app.job('work', {
        policy: { orphan: 'requeue', lease: { ttl: '1s' }, timeout: { attempt: '1m' } },
        run: async ({ blocks }: { blocks: boolean }, attempt) => {
          begun.push(`${name} ${attempt.jobId}`)
          await new Promise<void>((resolve) => (blocks && name === 'one' ? meanwhile.push(resolve) : resolve()))
        },
      })
    }
    const first = await scene.worker({ concurrency: 1 })
    const second = await scene.worker({}, other)
    await learnToClaimAhead()
    const [blocking, waiting] = await scene.app.submitMany('work', [{ blocks: true }, { blocks: false }])
    await first.tick()
    expect(await scene.status(String(waiting?.id))).toBe('processing')

    // The first process stands still for three seconds; the second takes both jobs from it and does them.
    scene.clock.block(3_000)
    await second.maintain()
    await second.tick()
    for (const resolve of meanwhile) resolve()
    await first.tick()
    expect(begun.filter((line) => line.endsWith(String(waiting?.id)))).toEqual([`other ${waiting?.id}`])
    for (const job of [blocking, waiting]) expect(await scene.status(String(job?.id))).toBe('complete')

    async function learnToClaimAhead() {
      for (let i = 0; i < 3; i++) {
        await scene.app.submitMany('quick', Array(50).fill({}))
        await scene.clock.advance(1)
        await first.tick()
      }
    }
  })
})
