import { expect, onTestFinished, test } from 'vitest'
import { failureCodes, redress } from '../../src/index.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import { refusal, WHO } from './bench.ts'

/** An app whose gateway fails when it is told to, once per second. */
async function makeGateway() {
  const clock = new VirtualClock()
  const app = redress({ store: 'sqlite::memory:', clock, chance: () => 0.5 })
  const call = app.job('call', {
    codes: failureCodes({ GW_5XX: { fault: 'dependency', retry: 'never', message: 'It failed.' } }),
    policy: { breaker: { guards: 'gateway', minCalls: 40, windowCalls: 40, cooldown: '1m' } },
    run: ({ fails }: { fails: boolean }, attempt) => (fails ? attempt.fail('GW_5XX') : 'done'),
  })
  const worker = await app.makeWorker()
  onTestFinished(async () => {
    worker.crash()
    await app.stop()
  })
  const callEachSecond = async (fails: readonly boolean[]) => {
    for (const one of fails) {
      await call.submit({ fails: one })
      for (let i = 0; i < 3; i++) await worker.tick()
      await clock.advance(1_000)
    }
    for (let i = 0; i < 3; i++) await worker.tick()
  }
  return { app, callEachSecond, show: () => app.perform('breakers.show', { name: 'gateway' }) }
}

test('breakers.show has what the list has, the thresholds, and the last 20 calls by the second', async () => {
  const { app, callEachSecond, show } = await makeGateway()
  await callEachSecond(Array.from({ length: 24 }, (_, i) => i % 2 === 1))
  const shown = await show()
  const [listed] = (await app.perform('breakers.list', {})).breakers
  expect(shown).toMatchObject({ ...listed, history: [] })
  expect(shown.policy).toEqual({
    ...{ windowCalls: 40, windowMs: 120_000, minCalls: 40, ratio: 0.5 },
    ...{ cooldownMs: 60_000, halfOpenProbes: 1, probesToClose: 3, rampMs: 30_000 },
  })
  expect(shown.calls).toHaveLength(20)
  expect(shown.calls.map(({ at }) => at)).toEqual(shown.calls.map(({ at }) => at).toSorted())
  expect(shown.calls.slice(-2)).toMatchObject([
    { succeeded: 1, failed: 0 },
    { succeeded: 0, failed: 1 },
  ])
})

test('the history of a breaker has actors and reasons, newest first', async () => {
  const { app, show } = await makeGateway()
  await app.perform('breakers.open', { name: 'gateway', for: '5m', ...WHO })
  await app.perform('breakers.release', { name: 'gateway', ...WHO })
  const { history } = await show()
  expect(history).toMatchObject([
    { kind: 'released', status: 'closed', ...WHO, until: null },
    { kind: 'forced', status: 'open', ...WHO, until: expect.stringMatching(/Z$/) },
  ])
})

test('an unknown breaker is refused with the known names', async () => {
  const { app } = await makeGateway()
  expect(await refusal(app.perform('breakers.show', { name: 'bank' }))).toMatchObject({
    code: 'BREAKER_NOT_FOUND',
    message: expect.stringContaining('known breakers: gateway'),
  })
})
