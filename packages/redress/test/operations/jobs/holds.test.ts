import { expect, test } from 'vitest'
import { testKit } from '../../../src/testing/index.ts'

const about = { by: 'workers', name: 'report', until: null }

test('a job without a worker is held, and the hold names the last worker', async () => {
  await using kit = testKit()
  const report = kit.app.job('report', { run: () => undefined })
  const { id } = await report.submit({})
  const held = async () => (await kit.app.jobs.find(id))?.held
  expect(await held()).toEqual([{ ...about, why: 'none has been here yet' }])
  expect(await kit.app.explain(id)).toContain('No worker runs report: none has been here yet.')

  const worker = await kit.app.makeWorker({ id: 'night-shift' })
  await worker.enlist()
  expect(await held(), 'a worker that runs it is at work').toEqual([])
  await worker.stop()
  await kit.clock.advance(90_000)
  expect(await held()).toEqual([{ ...about, why: 'the last one, night-shift, stopped 1 m 30 s ago' }])
})

test('silent workers and workers of other types do not serve a job', async () => {
  await using kit = testKit()
  const report = kit.app.job('report', { run: () => undefined })
  const { id } = await report.submit({})
  const store = await kit.app.store()
  await store.enlist({ id: 'silent', host: 'here', pid: 1, types: ['report'] })
  await kit.clock.advance(60_000)
  await store.enlist({ id: 'other', host: 'here', pid: 2, types: ['mail'] })
  expect((await kit.app.jobs.find(id))?.held).toEqual([
    { ...about, why: 'the last one, silent, was last seen 1 m ago' },
  ])
})
