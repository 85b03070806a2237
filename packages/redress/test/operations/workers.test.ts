import { expect, test } from 'vitest'
import { makeBench } from './bench.ts'

test('workers are working, silent or stopped', async () => {
  const { app, worker, clock } = await makeBench()
  await worker.tick()
  const states = async (all: boolean) => (await app.perform('workers.list', { all })).workers.map(({ state }) => state)
  expect(await states(false)).toEqual(['working'])
  await clock.advance(40_000)
  expect([await states(false), await states(true)]).toEqual([[], ['silent']])
  await worker.stop()
  expect(await states(true)).toEqual(['stopped'])
})
