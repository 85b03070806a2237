import { afterEach, beforeEach, describe, expect, expectTypeOf, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { turns } from '../../../../../test/support/until.ts'
import type { App } from '../../../src/app/app.ts'
import type { Attempt } from '../../../src/worker/attempt/attempt.ts'
import type { Middleware } from '../../../src/worker/attempt/middleware.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

const NO_RETRY = { retry: { max: 1 } } as const

/** Runs one job of the type and answers with its row. */
async function ran(type = 'any') {
  const { id } = await scene.app.submit(type, {})
  await (await scene.worker()).tick()
  return (await scene.store.job({ id })) ?? expect.fail('no job')
}

describe('the order', () => {
  test('middleware runs around the handler, the first declared outermost, and verify runs after all of it', async () => {
    const order: string[] = []
    const around = (name: string) =>
      scene.app.use(async (_, next) => {
        order.push(`${name} in`)
        const output = await next()
        order.push(`${name} out`)
        return output
      })
    around('a')
    around('b')
    scene.app.job('any', {
      run: () => {
        order.push('run')
        return 7
      },
      verify: () => void order.push('verify'),
    })
    expect(await ran()).toMatchObject({ status: 'complete', result: '7' })
    expect(order).toEqual(['a in', 'b in', 'run', 'b out', 'a out', 'verify'])
  })

  test('middleware that is declared after the type and after the worker began applies to the next attempt', async () => {
    scene.app.job('any', { run: (_: unknown, { locals }: Attempt) => locals })
    const worker = await scene.worker()
    const first = await scene.app.submit('any', {})
    await worker.tick()
    scene.app.use(async (_, next) => next({ late: true }))
    const second = await scene.app.submit('any', {})
    await worker.tick()
    expect((await scene.store.job(first))?.result).toBe('{}')
    expect((await scene.store.job(second))?.result).toBe('{"late":true}')
  })

  test('an attempt that has begun keeps the middleware it began with', async () => {
    const begun: string[] = []
    scene.app.use(async (_, next) => {
      begun.push('first')
      // Declared while this attempt runs.
      if (begun.length === 1)
        scene.app.use(async (_, rest) => {
          begun.push('second')
          return rest()
        })
      return next()
    })
    scene.app.job('any', { run: () => undefined })
    await ran()
    expect(begun).toEqual(['first'])
    await ran()
    expect(begun).toEqual(['first', 'first', 'second'])
  })

  test('a handler without middleware that answers at once stays synchronous', async () => {
    const order: string[] = []
    scene.app.job('any', {
      run: () => {
        queueMicrotask(() => order.push('microtask'))
      },
      verify: () => void order.push('verify'),
    })
    await ran()
    expect(order).toEqual(['verify', 'microtask'])
  })

  test('middleware does not run around the delivery of notices', async () => {
    let around = 0
    const delivered: unknown[] = []
    scene.app.use(async (_, next) => {
      around++
      return next()
    })
    scene.app.channel('log', {
      kind: 'webhook',
      deliver: (notice) => ({ to: [], answer: String(delivered.push(notice)) }),
    })
    await scene.app.notify('release', { channels: ['log'], subject: 'release 2 is out' })
    const worker = await scene.worker()
    await worker.runDuties()
    await worker.tick()
    expect(delivered).toHaveLength(1)
    expect(around).toBe(0)
  })
})

describe('locals', () => {
  test('a handler reads what each middleware passed to next, and an inner one wins', async () => {
    const app = scene.app
      .use(async (_, next) => next({ db: 'main', region: 'eu' }))
      .use(async (attempt, next) => next({ db: `${attempt.locals.db}-replica` }))
    app.job('any', { run: (_: unknown, attempt) => ({ ...attempt.locals }) })
    expect(JSON.parse((await ran()).result ?? '')).toEqual({ db: 'main-replica', region: 'eu' })
  })

  test('each attempt has locals of its own', async () => {
    let attempts = 0
    const app = scene.app.use(async (_, next) => next({ number: ++attempts }))
    app.job('any', { run: (_: unknown, { locals }) => locals.number })
    expect((await ran()).result).toBe('1')
    expect((await ran()).result).toBe('2')
  })

  test('the type of locals is what the middleware passes to next', () => {
    const app = scene.app.use(async (_, next) => next({ db: new Map<string, number>() }))
    expectTypeOf(app).toEqualTypeOf<App<object & { db: Map<string, number> }>>()
    app.job('typed', {
      run: (_: unknown, attempt) => {
        expectTypeOf(attempt.locals.db).toEqualTypeOf<Map<string, number>>()
        // @ts-expect-error: no middleware adds it
        return attempt.locals.cache
      },
    })
    const more = app.use(async (attempt, next) => {
      expectTypeOf(attempt.locals.db).toEqualTypeOf<Map<string, number>>()
      try {
        return await next({ user: 'ann' })
      } finally {
        attempt.locals.db.clear()
      }
    })
    expectTypeOf<LocalsOf<typeof more>['user']>().toBeString()
    expectTypeOf<LocalsOf<typeof more>['db']>().toEqualTypeOf<Map<string, number>>()
    const declared: Middleware<{ tenant: number }> = async (_, next) => {
      await next({ tenant: 1 })
    }
    expectTypeOf<LocalsOf<ReturnType<typeof useDeclared>>['tenant']>().toBeNumber()
    const useDeclared = () => more.use<{ tenant: number }>(declared)
    const cached = () => more.use(async (attempt, next) => (attempt.number > 1 ? 'cached' : next({ cached: false })))
    expectTypeOf<LocalsOf<ReturnType<typeof cached>>['cached']>().toBeBoolean()
    // An app with middleware goes wherever an app goes.
    expectTypeOf(more).toExtend<App>()
    // @ts-expect-error: a middleware is a function
    expect(() => scene.app.use('db')).toThrow(/app.use\(\) takes a function .* got string/)
    scene.app.job('plain', {
      // @ts-expect-error: this app has no middleware that adds it
      run: (_: unknown, attempt) => attempt.locals.db,
    })
  })
})

type LocalsOf<A> = A extends App<infer Locals> ? Locals : never

describe('what a middleware decides', () => {
  test('an error of a middleware fails the attempt like one of the handler, before or after it', async () => {
    let runs = 0
    scene.app.use(async ({ type }, next) => {
      if (type === 'before') throw Object.assign(new Error('no connection'), { code: 'ECONNREFUSED' })
      await next()
      throw new Error('could not commit')
    })
    for (const type of ['before', 'after']) {
      scene.app.job(type, { policy: NO_RETRY, run: () => void runs++ })
    }
    expect(await ran('before')).toMatchObject({ status: 'failed', latestFailure: { phase: 'execution' } })
    expect(runs).toBe(0)
    const after = await ran('after')
    expect(after).toMatchObject({ status: 'failed', result: null })
    expect(after.latestFailure?.detail).toContain('could not commit')
    expect(runs).toBe(1)
  })

  test('a middleware sees the error of the handler and may answer for it', async () => {
    scene.app.use(async (_, next) => {
      try {
        return await next()
      } catch (error) {
        return { fallback: (error as Error).message }
      }
    })
    scene.app.job('any', {
      run: () => {
        throw new Error('broken')
      },
    })
    expect(await ran()).toMatchObject({ status: 'complete', result: '{"fallback":"broken"}' })
  })

  test('a middleware that does not call next gives the output itself', async () => {
    let runs = 0
    scene.app.use(async () => 'cached')
    scene.app.job('any', { run: () => void runs++ })
    expect(await ran()).toMatchObject({ status: 'complete', result: '"cached"' })
    expect(runs).toBe(0)
  })

  test('a middleware that awaits next and returns nothing keeps the output of the handler', async () => {
    scene.app.use(async (_, next) => {
      await next()
    })
    scene.app.job('any', { run: () => 5 })
    expect((await ran()).result).toBe('5')
  })

  test.each<[string, Middleware, RegExp]>([
    [
      'calls next twice',
      async (_, next) => {
        await next().catch(() => undefined)
        return next()
      },
      /called next\(\) twice/,
    ],
    [
      'calls next again after a failure',
      async (_, next) => {
        try {
          return await next()
        } catch {
          return next()
        }
      },
      /called next\(\) twice/,
    ],
    [
      'neither calls next nor returns an output',
      async () => undefined,
      /neither called next\(\) nor returned an output/,
    ],
    [
      'returns before next has ended',
      async (_, next) => {
        void next()
        return 'too early'
      },
      /returned before its next\(\) had ended/,
    ],
    ['passes something else than an object', async (_, next) => next(1 as never), /next\(\) takes an object/],
  ])('a middleware that %s fails the attempt with an error that says so', async (_, middleware, message) => {
    let runs = 0
    scene.app.use<object>(middleware)
    scene.app.job('any', {
      policy: NO_RETRY,
      run: async () => {
        runs++
        await turns(3)
        throw new Error('of the handler')
      },
    })
    const { id } = await scene.app.submit('any', {})
    await (await scene.worker()).tick()
    await turns(20)
    const job = await scene.store.job({ id })
    expect(job?.status).toBe('failed')
    expect(job?.latestFailure?.detail).toMatch(message)
    expect(runs).toBeLessThanOrEqual(1)
  })

  test('the recorded stack of a failure names the handler or the middleware that threw, and no engine code', async () => {
    scene.app.use(async function openDb({ type }, next) {
      if (type === 'inner') return next()
      throw new Error('in the middleware')
    })
    const handler = async function convert() {
      await turns(1)
      throw new Error('in the handler')
    }
    scene.app.job('inner', { policy: NO_RETRY, run: handler })
    scene.app.job('outer', { policy: NO_RETRY, run: handler })
    for (const [type, name] of [
      ['inner', 'convert'],
      ['outer', 'openDb'],
    ] as const) {
      const detail = (await ran(type)).latestFailure?.detail ?? ''
      expect(detail).toContain(name)
      expect(detail).not.toContain('/src/worker/')
    }
  })
})

describe('the end of an attempt', () => {
  test('at the time limit the attempt is closed, the signal fires, and cleanup runs when the handler ends', async () => {
    const order: string[] = []
    scene.app.use(async (attempt, next) => {
      attempt.signal.addEventListener('abort', () => order.push('aborted'))
      try {
        return await next()
      } finally {
        order.push('cleaned up')
      }
    })
    const { promise, resolve } = Promise.withResolvers<void>()
    scene.app.job('any', { policy: { ...NO_RETRY, timeout: { attempt: '5s' } }, run: () => promise })
    const { id } = await scene.app.submit('any', {})
    const worker = await scene.worker()
    await worker.tick()
    await scene.clock.advance(5_000)
    await worker.tick()
    expect(await scene.store.job({ id })).toMatchObject({ status: 'failed', latestFailure: { code: 'TIMEOUT' } })
    expect(order).toEqual(['aborted'])
    resolve()
    await turns(3)
    expect(order).toEqual(['aborted', 'cleaned up'])
  })

  test('a handler does not begin when its attempt ended while a middleware still waited', async () => {
    let runs = 0
    const { promise: connection, resolve } = Promise.withResolvers<void>()
    scene.app.use(async (_, next) => {
      await connection
      return next()
    })
    scene.app.job('any', { policy: { ...NO_RETRY, timeout: { attempt: '5s' } }, run: () => void runs++ })
    const { id } = await scene.app.submit('any', {})
    const worker = await scene.worker()
    await worker.tick()
    await scene.clock.advance(5_000)
    await worker.tick()
    expect(await scene.status(id)).toBe('failed')
    resolve()
    await turns(3)
    expect(runs).toBe(0)
  })
})
