import { describe, expect, test } from 'vitest'
import { redress } from '../../src/index.ts'
import { makeBench, refusal, WHO } from './bench.ts'

const NO_FAULTS = { caller: 0, dependency: 0, system: 0, code: 0, operator: 0, unknown: 0 }

describe('activity.show', () => {
  test('shows every minute of the last hour, including empty ones', async () => {
    const { app, clock, submit, worker } = await makeBench()
    await submit(['ok'])
    await worker.tick()
    await clock.advance(2 * 60_000)
    const shown = await app.perform('activity.show', {})
    expect(shown.minutes).toHaveLength(60)
    expect(shown).toMatchObject({
      from: shown.minutes[0]?.at,
      to: new Date(clock.nowMs()).toISOString(),
      notCounted: [],
    })
    expect(shown.minutes.map(({ complete }) => complete).slice(-4)).toEqual([0, 1, 0, 0])
    expect(shown.minutes.at(-1)).toEqual({
      ...{ at: shown.to.replace(/:\d\d\.\d+Z$/, ':00.000Z'), complete: 0, failed: 0, cancelled: 0 },
      ...{ faults: NO_FAULTS, waitP50Ms: null, waitP95Ms: null },
    })
  })

  test('counts failed attempts by fault, and jobs by outcome', async () => {
    const { app, submit, finish } = await makeBench({ retry: { max: 3 }, reject: 'record' })
    await finish(['GW_5XX', 'GW_5XX', 'ok'])
    await finish(['GW_5XX', 'GW_4XX'])
    await app.jobs.cancel(await submit(['ok'], { delay: '1h' }), WHO)
    await app.jobs.markFailed(await submit(['ok'], { delay: '1h' }), WHO)
    await app.submit('step', { outcomes: 'none' })
    const { minutes } = await app.perform('activity.show', { minutes: 120 })
    const sum = (of: (minute: (typeof minutes)[number]) => number) => minutes.reduce((all, one) => all + of(one), 0)
    expect({
      complete: sum(({ complete }) => complete),
      failed: sum(({ failed }) => failed),
      cancelled: sum(({ cancelled }) => cancelled),
      dependency: sum(({ faults }) => faults.dependency),
      caller: sum(({ faults }) => faults.caller),
      operator: sum(({ faults }) => faults.operator),
    }).toEqual({ complete: 1, failed: 3, cancelled: 1, dependency: 3, caller: 2, operator: 1 })
  })

  test('shows how long jobs waited from when they were due', async () => {
    const { app, clock, submit, worker } = await makeBench({ retry: { max: 2, backoff: { table: ['5s'] } } })
    await submit(['GW_5XX', 'ok'])
    await clock.advance(100)
    await worker.tick()
    const last = async () => (await app.perform('activity.show', { minutes: 1 })).minutes[0]
    // In the bucket from 64 to 128 ms.
    expect((await last())?.waitP50Ms).toBeGreaterThanOrEqual(64)
    expect((await last())?.waitP50Ms).toBeLessThan(128)
    // Five seconds of backoff, and then one second in which nobody came.
    await clock.advance(6_000)
    await worker.tick()
    expect((await last())?.waitP95Ms).toBeGreaterThanOrEqual(512)
    expect((await last())?.waitP95Ms).toBeLessThan(1_024)
    expect((await last())?.waitP50Ms).toBeLessThan(128)
  })

  test('can be limited to a type or a queue', async () => {
    const { app, finish } = await makeBench()
    await finish(['ok'])
    const complete = async (input: { type?: string; queue?: string }) =>
      (await app.perform('activity.show', { minutes: 100, ...input })).minutes.reduce(
        (sum, one) => sum + one.complete,
        0,
      )
    expect(await complete({ type: 'step' })).toBe(1)
    expect(await complete({ queue: 'default' })).toBe(1)
    expect(await complete({ type: 'step', queue: 'elsewhere' })).toBe(0)
    expect(await complete({ type: 'nothing' })).toBe(0)
  })

  test('activity shows no rates for a type without aggregates [P60]', async () => {
    const { app, finish, store } = await makeBench({ aggregates: false })
    await finish(['GW_4XX'])
    await finish(['ok'])
    const shown = await app.perform('activity.show', { minutes: 1_440 })
    expect(shown.notCounted).toEqual(['step'])
    expect(
      shown.minutes.every(({ complete, failed, waitP50Ms }) => complete + failed === 0 && waitP50Ms === null),
    ).toBe(true)
    expect(await store.activity({ types: ['step'], sinceMs: 0 })).toEqual([])
    expect((await app.perform('activity.show', { type: 'other' })).notCounted).toEqual([])
  })

  test('shows at most one day', async () => {
    const { app } = await makeBench()
    for (const minutes of [0, 1_441, 1.5]) {
      expect(await refusal(app.perform('activity.show', { minutes }))).toMatchObject({ code: 'OPTION_INVALID' })
    }
  })
})

test('other processes see counts after they are stored', async () => {
  const { store, clock, submit, worker } = await makeBench()
  const other = redress({ store, clock })
  const complete = async () => (await other.perform('activity.show', { minutes: 1 })).minutes[0]?.complete
  await submit(['ok'])
  await worker.tick()
  expect(await complete()).toBe(0)
  await worker.runDuties()
  expect(await complete()).toBe(1)
  await worker.runDuties()
  expect(await complete()).toBe(1)
})
