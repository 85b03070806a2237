import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { rule } from '../../../src/core/failure/classify.ts'
import { failureCodes } from '../../../src/core/failure/taxonomy.ts'
import { exponential, table } from '../../../src/core/policy/backoff.ts'
import { unpackSpent } from '../../../src/core/policy/budget.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

const codes = failureCodes({
  BUSY: { fault: 'dependency', retry: 'transient', message: 'It stayed busy.', waiting: 'It is busy.' },
  WRONG: { fault: 'caller', retry: 'never', message: 'It is wrong.' },
  BROKEN: { fault: 'code', retry: 'dead-letter', message: 'It is broken.' },
})

describe('a failed attempt', () => {
  test('is retried after the delay of its policy, not before, and each delay is in the record', async () => {
    scene.app.job('flaky', {
      codes,
      policy: { retry: { max: 4, backoff: table(['1s', '5s', '30s']) } },
      run: (_: unknown, attempt) => attempt.fail('BUSY'),
    })
    await scene.worker()
    const { id } = await scene.app.submit('flaky', {})
    await scene.pass(0)
    for (const [n, delayMs] of [1_000, 5_000, 30_000].entries()) {
      expect(await scene.job(id)).toMatchObject({
        status: 'queued',
        attempt: n + 1,
        dueAtMs: scene.clock.nowMs() + delayMs,
      })
      await scene.pass(delayMs - 1)
      expect((await scene.job(id)).attempt).toBe(n + 1)
      await scene.pass(1)
      expect((await scene.job(id)).attempt).toBe(n + 2)
    }
    expect(await scene.job(id)).toMatchObject({ status: 'failed', dueAtMs: null, attempt: 4 })
    expect(await scene.rebuilt(id)).toEqual(await scene.standing(id))
  })

  test('without a backoff is retried at once', async () => {
    scene.app.job('flaky', { codes, policy: { retry: { max: 3 } }, run: (_: unknown, attempt) => attempt.fail('BUSY') })
    const worker = await scene.worker()
    const { id } = await scene.app.submit('flaky', {})
    for (let i = 0; i < 3; i++) await worker.tick()
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 3 })
  })

  test("waits as long as the other side asked, whatever the backoff says, up to the policy's bound", async () => {
    scene.app.job('polite', {
      codes,
      policy: { retry: { max: 3, backoff: table(['1s']), retryAfterMax: '10m' } },
      run: (_: unknown, attempt) => attempt.fail('BUSY', { retryAfter: attempt.number === 1 ? '2m' : '1h' }),
    })
    await scene.worker()
    const { id } = await scene.app.submit('polite', {})
    await scene.pass(0)
    expect((await scene.job(id)).dueAtMs).toBe(scene.clock.nowMs() + 120_000)
    await scene.pass(120_000)
    expect((await scene.job(id)).dueAtMs).toBe(scene.clock.nowMs() + 600_000)
    expect((await scene.lastFailure(id)).decision).toMatchObject({ rule: 'error.retryAfter' })
  })

  test('of a code that is never retried ends the job at once, whatever is left', async () => {
    scene.app.job('flaky', {
      codes,
      policy: { retry: { max: 9 } },
      run: (_: unknown, attempt) => attempt.fail('WRONG'),
    })
    await scene.worker()
    const { id } = await scene.app.submit('flaky', {})
    await scene.pass(0)
    expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 1 })
    expect(await scene.lastFailure(id)).toMatchObject({ message: 'It is wrong.', fault: 'caller' })
  })

  test('of a code that is dead-lettered is set aside with its payload', async () => {
    scene.app.job('flaky', {
      codes,
      policy: { retry: { max: 9 }, deadLetter: 'queue' },
      run: (_: unknown, attempt) => attempt.fail('BROKEN'),
    })
    await scene.worker()
    const { id } = await scene.app.submit('flaky', { page: 7 })
    await scene.pass(0)
    expect(await scene.store.deadLetters({ afterOffset: 0, limit: 10 })).toEqual([
      expect.objectContaining({
        jobId: id,
        payload: '{"page":7}',
        attempts: 1,
        failure: expect.objectContaining({ code: 'BROKEN' }),
      }),
    ])
  })

  test('with a code that its own taxonomy does not have is a fault of the code', async () => {
    scene.app.job('flaky', {
      codes,
      policy: { retry: { max: 9 } },
      run: (_: unknown, attempt) => attempt.fail('BUZY' as 'BUSY'),
    })
    await scene.worker()
    const { id } = await scene.app.submit('flaky', {})
    await scene.pass(0)
    expect(await scene.lastFailure(id)).toMatchObject({ code: 'CODE_UNDECLARED', fault: 'code', to: 'failed' })
  })

  test('says why it was decided so, in words and in numbers', async () => {
    scene.app.job('flaky', {
      codes,
      classify: [rule.errno('ECONNRESET', 'BUSY')],
      policy: { retry: { max: 2, backoff: table(['7s']) } },
      run: () => {
        throw Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' })
      },
    })
    await scene.worker()
    const { id } = await scene.app.submit('flaky', {})
    await scene.pass(0)
    await scene.pass(7_000)
    const [first, second] = await scene.failures(id)
    expect(first?.rule).toBe('errno ECONNRESET')
    expect(first?.decision).toMatchObject({
      because: 'BUSY is transient; failure 1 of 2; next attempt in 7 s',
      budget: { name: 'retry.max', before: 0, after: 1, max: 2 },
    })
    expect(second?.decision.because).toBe('BUSY is transient; failure 2 of 2; no attempt is left')
  })
})

test('jitter is drawn by chance: two jobs that fail together do not come back together', async () => {
  const draws = [0, 0.5, 0.999]
  const app = scene.newApp({ chance: () => draws.shift() ?? 0 })
  app.job('flaky', {
    codes,
    policy: { retry: { max: 2, backoff: exponential('10s', { jitter: '10s' }) } },
    run: (_: unknown, attempt) => attempt.fail('BUSY'),
  })
  const worker = await scene.worker({}, app)
  const jobs = await app.submitMany('flaky', [1, 2, 3])
  await worker.tick()
  const rows = await Promise.all(jobs.map(({ id }) => scene.job(id)))
  const delays = rows.map((row) => (row.dueAtMs ?? 0) - scene.clock.nowMs())
  expect(delays).toEqual([10_000, 15_000, 19_990])
})

test('budgets are counted by cause and never mixed', async () => {
  let mode: 'fail' | 'snooze' | 'hang' = 'fail'
  scene.app.job('all', {
    codes,
    policy: {
      retry: { max: 3 },
      orphan: { action: 'requeue', maxReclaims: 2 },
      lease: { ttl: '1s' },
      timeout: { attempt: null },
    },
    run: (_: unknown, attempt) => {
      if (mode === 'fail') attempt.fail('BUSY')
      if (mode === 'snooze') attempt.snooze(0)
      return new Promise(() => undefined)
    },
  })
  const { id } = await scene.app.submit('all', {})
  const turn = async (next: typeof mode) => {
    mode = next
    const worker = await scene.app.makeWorker()
    await worker.tick()
    if (next === 'hang') {
      await scene.clock.advance(100)
      await worker.tick()
      worker.crash()
      scene.clock.block(2_000)
      await (await scene.app.makeWorker()).maintain()
    } else worker.crash()
  }
  await turn('fail')
  await turn('hang')
  await turn('snooze')
  await turn('fail')
  await turn('hang')
  expect(unpackSpent((await scene.job(id)).spent)).toMatchObject({ failures: 2, reclaims: 2, snoozes: 1 })
  expect(await scene.job(id)).toMatchObject({ status: 'queued', attempt: 5 })
  await turn('fail')
  expect(await scene.job(id)).toMatchObject({ status: 'failed', attempt: 6, latestFailure: { code: 'BUSY' } })
})

test('a retry that is waiting survives the worker, the app and a clock that stood still', async () => {
  scene.app.job('flaky', {
    codes,
    policy: { retry: { max: 2, backoff: table(['1h']) } },
    run: (_: unknown, attempt) => (attempt.number === 1 ? attempt.fail('BUSY') : 'done'),
  })
  const first = await scene.worker()
  const { id } = await scene.app.submit('flaky', {})
  await first.tick()
  first.crash()
  scene.clock.block(7_200_000)
  const second = await scene.worker()
  await second.tick()
  expect(await scene.status(id)).toBe('complete')
})
