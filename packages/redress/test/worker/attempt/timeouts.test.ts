import { afterEach, beforeEach, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { AttemptTimeout } from '../../../src/core/failure/attempt-failed.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

const never = () => new Promise<never>(() => undefined)

test('an attempt is stopped at its limit: not before, and at most one poll after', async () => {
  scene.app.job('slow', { policy: { timeout: { attempt: '10s' } }, run: never })
  await scene.worker()
  const { id } = await scene.app.submit('slow', {})
  await scene.pass(0)
  await scene.pass(9_999)
  expect(await scene.status(id)).toBe('processing')
  await scene.pass(101)
  expect(await scene.job(id)).toMatchObject({
    status: 'failed',
    latestFailure: { code: 'TIMEOUT', phase: 'execution' },
  })
})

test('the signal says which limit it was, and the failure says it in words', async () => {
  let signal: AbortSignal | undefined
  scene.app.job('slow', {
    policy: { timeout: { attempt: '10s' } },
    run: (_: unknown, attempt) => {
      signal = attempt.signal
      return never()
    },
  })
  await scene.worker()
  const { id } = await scene.app.submit('slow', {})
  await scene.pass(0)
  await scene.pass(10_000)
  expect(signal?.reason).toBeInstanceOf(AttemptTimeout)
  expect((await scene.lastFailure(id)).detail).toContain('10000 ms')
})

test('a handler asked for its signal only after the limit finds it aborted', async () => {
  const ask = Promise.withResolvers<void>()
  const seen: unknown[] = []
  scene.app.job('slow', {
    policy: { timeout: { attempt: '10s' } },
    run: async (_: unknown, attempt) => {
      await ask.promise
      seen.push(attempt.signal.reason)
    },
  })
  await scene.worker()
  await scene.app.submit('slow', {})
  await scene.pass(0)
  await scene.pass(10_000)
  ask.resolve()
  await scene.pass(0)
  expect(seen).toEqual([expect.any(AttemptTimeout)])
})

test('a limit is retried like any transient failure, each attempt with the whole limit again', async () => {
  scene.app.job('slow', {
    policy: { timeout: { attempt: '10s' }, retry: { max: 3, backoff: { table: ['1m'] } } },
    run: never,
  })
  await scene.worker()
  const { id } = await scene.app.submit('slow', {})
  await scene.pass(0)
  for (const attempt of [1, 2, 3]) {
    expect(await scene.job(id)).toMatchObject({ status: 'processing', attempt })
    await scene.pass(10_000)
    await scene.pass(60_000)
  }
  expect(await scene.status(id)).toBe('failed')
  expect((await scene.failures(id)).map((failure) => failure.code)).toEqual(['TIMEOUT', 'TIMEOUT', 'TIMEOUT'])
})

test('without a limit of its own a job has an hour, so that nothing runs for ever', async () => {
  const type = scene.app.job('slow', { run: never })
  expect(type.policy.timeout.attemptMs).toBe(3_600_000)
})

test('the total covers all attempts and waits, and stops the one that runs when it is over', async () => {
  scene.app.job('slow', {
    policy: { timeout: { attempt: '40s', total: '1m' }, retry: { max: 10, backoff: { table: ['5s'] } } },
    run: never,
  })
  await scene.worker()
  const { id } = await scene.app.submit('slow', {})
  await scene.pass(0)
  await scene.pass(40_000)
  await scene.pass(5_000)
  expect(await scene.job(id)).toMatchObject({ status: 'processing', attempt: 2 })
  await scene.pass(15_000)
  expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 2 })
  expect((await scene.failures(id)).map((failure) => failure.code)).toEqual(['TIMEOUT', 'TOTAL_TIMEOUT'])
})

test('a retry that could only begin after the total is not scheduled', async () => {
  scene.app.job('flaky', {
    policy: { timeout: { total: '1m' }, retry: { max: 10, backoff: { table: ['30s', '50s'] }, unknown: 'transient' } },
    run: () => {
      throw new Error('again')
    },
  })
  await scene.worker()
  const { id } = await scene.app.submit('flaky', {})
  await scene.pass(0)
  await scene.pass(30_000)
  expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 2 })
  expect((await scene.lastFailure(id)).decision).toMatchObject({ rule: 'timeout.total' })
})

test('a job that waited for longer than its total fails when it is claimed, and its handler is not called', async () => {
  let calls = 0
  scene.app.job('late', { policy: { timeout: { total: '1m' } }, run: () => calls++ })
  const { id } = await scene.app.submit('late', {})
  scene.clock.block(61_000)
  await (await scene.worker()).tick()
  expect(calls).toBe(0)
  expect(await scene.job(id)).toMatchObject({ status: 'failed', latestFailure: { code: 'TOTAL_TIMEOUT' } })
})

test('an AbortSignal.timeout of the handler itself is classified by its rule, not mistaken for the engine', async () => {
  scene.app.job('fetching', {
    run: () => {
      throw new DOMException('The operation was aborted due to timeout', 'TimeoutError')
    },
  })
  await scene.worker()
  const { id } = await scene.app.submit('fetching', {})
  await scene.pass(0)
  expect(await scene.lastFailure(id)).toMatchObject({ code: 'UNKNOWN', rule: 'no rule matched' })
})

test('jobs stopped at their limit do not hold up a worker of one slot', async () => {
  const done: number[] = []
  scene.app.job('mixed', {
    policy: { timeout: { attempt: '1s' } },
    run: (n: number) => (n % 2 === 0 ? never() : void done.push(n)),
  })
  await scene.worker({ concurrency: 1 })
  await scene.app.submitMany('mixed', [0, 1, 2, 3, 4, 5])
  await scene.pass(0)
  for (let i = 0; i < 4; i++) await scene.pass(1_000)
  expect(done).toEqual([1, 3, 5])
})
