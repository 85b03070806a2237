import { afterEach, beforeEach, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { failureCodes } from '../../../src/core/failure/taxonomy.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

test('a throw while verifying is a verification failure, never an execution one', async () => {
  scene.app.job('encode', {
    run: () => ({ bytes: 0 }),
    verify: ({ bytes }) => {
      if (bytes === 0) throw new Error('the output is empty')
    },
  })
  await scene.worker()
  const { id } = await scene.app.submit('encode', {})
  await scene.pass(0)
  expect(await scene.job(id)).toMatchObject({ status: 'failed', result: null })
  expect(await scene.lastFailure(id)).toMatchObject({
    phase: 'verification',
    layer: 'worker',
    code: 'VERIFICATION_FAILED',
    detail: expect.stringContaining('the output is empty'),
  })
})

test('a job that passes its check is complete with the output of the run, not of the check', async () => {
  scene.app.job('encode', { run: async () => 'the output', verify: async () => 'what the check says' })
  await scene.worker()
  const { id } = await scene.app.submit('encode', {})
  await scene.pass(0)
  expect(await scene.job(id)).toMatchObject({ status: 'complete', result: '"the output"' })
})

test('a rejected promise counts like a throw', async () => {
  scene.app.job('encode', { run: () => 1, verify: () => Promise.reject(new Error('codec differs')) })
  await scene.worker()
  const { id } = await scene.app.submit('encode', {})
  await scene.pass(0)
  expect(await scene.lastFailure(id)).toMatchObject({ phase: 'verification', detail: expect.stringContaining('codec') })
})

test('is not retried by itself, and is where the taxonomy says so', async () => {
  const codes = failureCodes({ BAD_OUTPUT: { fault: 'code', retry: 'transient', message: 'The output is damaged.' } })
  scene.app.job('final', {
    policy: { retry: { max: 3, unknown: 'transient' } },
    run: () => 1,
    verify: () => Promise.reject(1),
  })
  scene.app.job('again', {
    codes,
    policy: { retry: { max: 3 } },
    run: (_: unknown, attempt) => attempt.number,
    verify: (output, attempt) => {
      if (output < 3) attempt.fail('BAD_OUTPUT')
    },
  })
  await scene.worker()
  const final = await scene.app.submit('final', {})
  const again = await scene.app.submit('again', {})
  for (let i = 0; i < 4; i++) await scene.pass(100)
  expect(await scene.job(final.id)).toMatchObject({ status: 'failed', attempt: 1 })
  expect(await scene.job(again.id)).toMatchObject({ status: 'complete', attempt: 3, result: '3' })
  expect((await scene.failures(again.id)).map(({ phase, code }) => `${phase} ${code}`)).toEqual([
    'verification BAD_OUTPUT',
    'verification BAD_OUTPUT',
  ])
})

test('is not asked when the run failed', async () => {
  let checks = 0
  scene.app.job('encode', {
    run: () => {
      throw new Error('no output')
    },
    verify: () => checks++,
  })
  await scene.worker()
  const { id } = await scene.app.submit('encode', {})
  await scene.pass(0)
  expect(checks).toBe(0)
  expect(await scene.lastFailure(id)).toMatchObject({ phase: 'execution' })
})

test('takes part in the time limit of the attempt, and the signal reaches it', async () => {
  let signal: AbortSignal | undefined
  scene.app.job('encode', {
    policy: { timeout: { attempt: '10s' } },
    run: () => 1,
    verify: (_output, attempt) => {
      signal = attempt.signal
      return new Promise(() => undefined)
    },
  })
  await scene.worker()
  const { id } = await scene.app.submit('encode', {})
  await scene.pass(0)
  await scene.pass(10_000)
  expect(signal?.aborted).toBe(true)
  expect(await scene.job(id)).toMatchObject({ status: 'failed', latestFailure: { code: 'TIMEOUT' } })
})

test('may snooze or change nothing of the output that is kept', async () => {
  scene.app.job('encode', {
    run: () => ({ list: [1] }),
    verify: (output, attempt) => {
      if (attempt.number === 1) attempt.snooze('1m')
      return { list: output.list.length }
    },
  })
  await scene.worker()
  const { id } = await scene.app.submit('encode', {})
  await scene.pass(0)
  expect(await scene.status(id)).toBe('queued')
  await scene.pass(60_000)
  expect((await scene.job(id)).result).toBe('{"list":[1]}')
})

test('an output that cannot be kept is found after it was verified, and is no verification failure', async () => {
  scene.app.job('encode', { run: () => 1n, verify: () => undefined })
  await scene.worker()
  const { id } = await scene.app.submit('encode', {})
  await scene.pass(0)
  expect(await scene.lastFailure(id)).toMatchObject({ phase: 'execution', code: 'RESULT_INVALID' })
})
