import { afterEach, beforeEach, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { unpackSpent } from '../../../src/core/policy/budget.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

test('a snoozed job comes back after the delay and has spent none of its attempts', async () => {
  scene.app.job('later', {
    policy: { retry: { max: 2, unknown: 'transient' } },
    run: (_: unknown, attempt) => {
      if (attempt.number <= 5) attempt.snooze('1m', 'the quota is used up')
      return attempt.number
    },
  })
  await scene.worker()
  const { id } = await scene.app.submit('later', {})
  await scene.pass(0)
  for (let attempt = 1; attempt <= 5; attempt++) {
    const job = await scene.job(id)
    expect(job).toMatchObject({ status: 'queued', attempt, dueAtMs: scene.clock.nowMs() + 60_000 })
    expect(unpackSpent(job.spent)).toMatchObject({ failures: 0, snoozes: attempt })
    expect(await scene.app.jobs.find(id)).toMatchObject({ attemptCount: 0 })
    await scene.pass(59_000)
    expect((await scene.job(id)).attempt).toBe(attempt)
    await scene.pass(1_000)
  }
  expect(await scene.job(id)).toMatchObject({ status: 'complete', result: '6' })
  expect(await scene.app.jobs.find(id)).toMatchObject({ attemptCount: 1 })
  expect(await scene.failures(id)).toEqual([])
  const [first] = (await scene.store.events({ id })).filter((event) => event.kind === 'snoozed')
  expect(first?.data.reason).toBe('the quota is used up')
})

test('a snooze of a job that only goes forward is refused with its own code', async () => {
  scene.app.job('once', { policy: { forwardOnly: true }, run: (_: unknown, attempt) => attempt.snooze('1m') })
  await scene.worker()
  const { id } = await scene.app.submit('once', {})
  await scene.pass(0)
  expect(await scene.job(id)).toMatchObject({
    status: 'failed',
    latestFailure: { code: 'SNOOZE_REFUSED', fault: 'code' },
  })
})

test.each([-1, Number.NaN, 'soon', Number.POSITIVE_INFINITY])(
  'a snooze of %j is a mistake of the handler and fails the job',
  async (delay) => {
    scene.app.job('later', { run: (_: unknown, attempt) => attempt.snooze(delay) })
    await scene.worker()
    const { id } = await scene.app.submit('later', {})
    await scene.pass(0)
    const failure = await scene.lastFailure(id)
    expect(failure.detail).toMatch(/snooze/)
  },
)

test('a snooze for nothing is due at once, and a worker with two slots still gets on with the rest', async () => {
  let snoozes = 0
  scene.app.job('restless', { run: (_: unknown, attempt) => (snoozes++ < 50 ? attempt.snooze(0) : 'done') })
  scene.app.job('honest', { run: () => 'done' })
  await scene.worker({ concurrency: 2, prefetchMax: 0 })
  const restless = await scene.app.submit('restless', {})
  const honest = await scene.app.submitMany('honest', Array(10).fill({}))
  for (let i = 0; i < 60; i++) await scene.pass(100)
  for (const { id } of honest) expect(await scene.status(id)).toBe('complete')
  expect(await scene.job(restless.id)).toMatchObject({ status: 'complete', attempt: 51 })
})

test('a snooze that was asked for after cancellation ends as cancelled', async () => {
  const gate = Promise.withResolvers<void>()
  scene.app.job('later', {
    run: async (_: unknown, attempt) => {
      await gate.promise
      attempt.snooze('1m')
    },
  })
  await scene.worker()
  const { id } = await scene.app.submit('later', {})
  await scene.pass(0)
  const expectSeen = { status: 'processing', attempt: 1 } as const
  await scene.store.intervene({
    id,
    actor: 'ann',
    reason: 'not needed',
    expect: expectSeen,
    act: { kind: 'request-cancel' },
  })
  gate.resolve()
  await scene.pass(100)
  expect(await scene.status(id)).toBe('cancelled')
})
