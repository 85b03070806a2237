import { expect, onTestFinished, test } from 'vitest'
import { type Act, act, look, scratchFile } from '../../../../test/support/processes/processes.ts'
import { until } from '../../../../test/support/until.ts'
import { App } from '../../src/app/app.ts'
import type { BatchOutcome } from '../../src/core/batch.ts'
import { systemClock } from '../../src/runtime/clock.ts'

const BATCHES = 200
/** Long enough for both processes to have claimed everything. */
const BEFORE_MS = 1_500
const BETWEEN_MS = 10

const types = { left: {}, right: {}, settled: {} }

test('jobs that end at the same moment in two processes settle their batch once, with one job that follows', async () => {
  const file = scratchFile()
  const store = look(file)
  const app = new App({ store: `sqlite:${file}` })
  onTestFinished(() => app.stop())
  for (const name of Object.keys(types)) app.job(name, { run: () => undefined })

  const worker = { concurrency: BATCHES, pollMs: 20 }
  const actors = (['left', 'right'] as const).map((type) => act({ file, types: { [type]: {} }, worker }))
  for (const actor of actors) await actor.says({ said: 'ready' })

  const firstMs = systemClock.nowMs() + BEFORE_MS
  const made = await Promise.all(
    Array.from({ length: BATCHES }, (_, i) => {
      const atMs = firstMs + i * BETWEEN_MS
      // Of the ways to close an attempt, success has one of its own.
      const input: Act = { do: 'until', atMs, throws: i % 3 === 0 }
      const jobs = ['left', 'right'].map((type) => ({ type, input }))
      return app.batches.create(`batch ${i}`, { jobs, onSettled: { job: 'settled' } })
    }),
  )

  await until('all batches are settled', async () => (await store.batches({ state: 'open', limit: 1 })).length === 0)
  for (const [i, { id }] of made.entries()) {
    const isFailing = i % 3 === 0
    expect(await store.batch({ id })).toMatchObject({
      state: isFailing ? 'failed' : 'complete',
      settlements: 1,
      ...{ total: 2, unfinished: 0, complete: isFailing ? 0 : 2, failed: isFailing ? 2 : 0 },
    })
    expect((await store.batchEvents({ id })).map(({ kind }) => kind)).toEqual(['settled'])
  }
  const followers = await store.jobs({ type: 'settled', limit: 2 * BATCHES })
  const told = followers.map(({ payload }) => (JSON.parse(payload) as { batch: BatchOutcome }).batch.id)
  expect(told.toSorted()).toEqual(made.map(({ id }) => id).toSorted())
  // Each process did its half, and nothing of the other's.
  for (const actor of actors) expect(actor.said.filter(({ said }) => said === 'begun')).toHaveLength(BATCHES)
})
