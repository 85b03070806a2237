import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import { redress } from '../../src/index.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'

const DAY_MS = 24 * 3_600_000

/** An app on a store that can be made to refuse counts. */
function makeWorld() {
  const clock = new VirtualClock()
  const path = join(temporaryFolder(), 'redress.db')
  const inner = openSqlite({ path, nowMs: () => clock.nowMs() })
  const world = {
    clock,
    path,
    refuses: false,
    calls: 0,
    async complete(): Promise<number> {
      const look = openSqlite({ path, nowMs: () => clock.nowMs() })
      const found = await look.activity({ types: ['step'], sinceMs: 0 })
      await look.stop()
      return found.filter(({ what }) => what === 'complete').reduce((sum, { count }) => sum + count, 0)
    },
    async makeApp() {
      const store: Store = {
        ...inner,
        addActivity(params) {
          world.calls++
          return world.refuses ? Promise.reject(new Error('no')) : inner.addActivity(params)
        },
      }
      const app = redress({ store, clock })
      app.job('step', { run: () => 'done' })
      await app.store()
      onTestFinished(() => app.stop())
      return app
    },
  }
  return world
}

describe('what a process has counted', () => {
  test('is brought to the store every ten seconds, and not with each job', async () => {
    const world = makeWorld()
    const app = await world.makeApp()
    const worker = await app.work({ pollMs: 1_000_000 })
    await app.submitMany('step', [{}, {}, {}])
    await worker.tick()
    expect([await world.complete(), world.calls]).toEqual([0, 0])
    await world.clock.advance(10_000, () => worker.tick())
    await expect.poll(() => world.complete()).toBe(3)
    expect(world.calls).toBe(1)
    // Nothing new: nothing is written.
    await world.clock.advance(60_000, () => worker.tick())
    expect(world.calls).toBe(1)
  })

  test('is there when the process has stopped', async () => {
    const world = makeWorld()
    const app = await world.makeApp()
    const worker = await app.makeWorker()
    await app.submit('step', {})
    await worker.tick()
    await app.stop()
    expect(await world.complete()).toBe(1)
  })

  test('is kept while the store refuses it, and counts in the minute in which it was', async () => {
    const world = makeWorld()
    const app = await world.makeApp()
    const worker = await app.makeWorker()
    world.refuses = true
    await app.submit('step', {})
    await worker.tick()
    await expect(worker.runDuties()).rejects.toThrow('no')
    await world.clock.advance(3 * 60_000)
    await app.submit('step', {})
    await worker.tick()
    world.refuses = false
    const { minutes } = await app.perform('activity.show', { minutes: 4 })
    expect(minutes.map(({ complete }) => complete)).toEqual([1, 0, 0, 1])
  })

  test('is not kept for ever: what the store has not taken for ten minutes is let go', async () => {
    const world = makeWorld()
    const app = await world.makeApp()
    const worker = await app.makeWorker()
    world.refuses = true
    await app.submit('step', {})
    await worker.tick()
    await world.clock.advance(11 * 60_000)
    await expect(worker.runDuties()).rejects.toThrow('no')
    world.refuses = false
    await worker.runDuties()
    expect(await world.complete()).toBe(0)
  })

  test('where there is no worker, what people do is brought there at once, and then every ten seconds at most', async () => {
    const world = makeWorld()
    const app = await world.makeApp()
    const by = { actor: 'olga', reason: 'a test' }
    const ids = (await app.submitMany('step', [{}, {}, {}])).map(({ id }) => id)
    await app.jobs.cancel(String(ids[0]), by)
    await expect.poll(() => world.calls).toBe(1)
    await app.jobs.cancel(String(ids[1]), by)
    expect(world.calls).toBe(1)
    await world.clock.advance(10_000)
    await app.jobs.cancel(String(ids[2]), by)
    await expect.poll(() => world.calls).toBe(2)
    expect(
      (await app.perform('activity.show', { minutes: 2 })).minutes.reduce((sum, one) => sum + one.cancelled, 0),
    ).toBe(3)
  })
})

test('a day is kept, and what is older is removed by the same duty', async () => {
  const world = makeWorld()
  const app = await world.makeApp()
  const worker = await app.makeWorker()
  await app.submit('step', {})
  await worker.tick()
  await worker.runDuties()
  await world.clock.advance(DAY_MS)
  await worker.runDuties()
  expect(await world.complete()).toBe(1)
  await world.clock.advance(2 * 3_600_000)
  await worker.runDuties()
  expect(await world.complete()).toBe(0)
})
