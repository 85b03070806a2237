import { afterEach, beforeEach, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import type { Store } from '../../../src/store/contract/store.ts'
import type { AttemptReport } from '../../../src/worker/options.ts'

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

test('every outcome is reported once, with its decision', async () => {
  scene.app.job('mixed', {
    policy: { retry: { max: 2, backoff: { table: ['1m'] }, unknown: 'transient' } },
    run: (what: string, attempt) => {
      if (what === 'snooze' && attempt.number === 1) attempt.snooze('1m')
      if (what === 'throw') throw new Error('no')
      return what
    },
  })
  const told: AttemptReport[] = []
  await scene.worker({ onOutcome: (outcome) => told.push(outcome) })
  const [good, bad, later] = await scene.app.submitMany('mixed', ['good', 'throw', 'snooze'])
  await scene.pass(0)
  await scene.pass(60_000)
  const told1 = told.map(({ jobId, attempt, answer, change }) => [jobId, attempt, answer, change.to].join(' '))
  expect(told1.toSorted()).toEqual(
    [
      `${good?.id} 1 closed complete`,
      `${bad?.id} 1 closed queued`,
      `${bad?.id} 2 closed failed`,
      `${later?.id} 1 closed queued`,
      `${later?.id} 2 closed complete`,
    ].toSorted(),
  )
})

test('an outcome is reported after it is durable: the store already has it', async () => {
  const seen: Promise<string>[] = []
  scene.app.job('any', { run: () => 1 })
  await scene.worker({ onOutcome: ({ jobId }) => seen.push(scene.status(jobId)) })
  await scene.app.submitMany('any', [1, 2, 3])
  await scene.pass(0)
  expect(await Promise.all(seen)).toEqual(['complete', 'complete', 'complete'])
})

test('a listener that throws harms neither the outcome nor the next ones', async () => {
  scene.app.job('any', { run: () => 1 })
  let calls = 0
  const worker = await scene.worker({
    onOutcome: () => {
      calls++
      throw new Error('the listener is broken')
    },
  })
  const jobs = await scene.app.submitMany('any', Array(5).fill({}))
  await scene.pass(0)
  const { id } = await scene.app.submit('any', {})
  await scene.pass(0)
  for (const job of [...jobs, { id }]) expect(await scene.story(job.id)).toBe('queued processing complete')
  expect(calls).toBe(6)
  expect(worker.held).toBe(0)
  await worker.stop({ graceMs: 0 })
})

test('a listener may submit the next job, and stop the worker', async () => {
  scene.app.job('any', { run: (n: number) => n })
  const submitted: Promise<{ id: string }>[] = []
  const worker = await scene.worker({
    onOutcome: () => {
      if (submitted.length === 0) submitted.push(scene.app.submit('any', 2))
      else void worker.stop({ graceMs: 0 })
    },
  })
  await scene.app.submit('any', 1)
  await scene.pass(0)
  await scene.pass(100)
  const next = await submitted[0]
  expect(await scene.status(String(next?.id))).toBe('complete')
})

test('a worker without its lease gets a report that its outcome does not count', async () => {
  const store: Store = { ...scene.store, close: async ({ closes }) => closes.map(() => 'lost' as const) }
  const app = scene.newApp({ store })
  app.job('any', { run: () => 1 })
  const told: AttemptReport[] = []
  const worker = await scene.worker({ onOutcome: (outcome) => told.push(outcome) }, app)
  await app.submit('any', {})
  await worker.tick()
  expect(told).toEqual([expect.objectContaining({ answer: 'lost' })])
  expect(scene.log.lines).toContainEqual(
    expect.objectContaining({ level: 'warn', message: expect.stringContaining('does not count') }),
  )
})
