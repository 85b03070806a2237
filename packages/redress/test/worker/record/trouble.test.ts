import { expect, test } from 'vitest'
import { keepingLog } from '../../../../../test/support/scene.ts'
import { VirtualClock } from '../../../src/runtime/clock.ts'
import { Trouble } from '../../../src/worker/store-calls.ts'

function scene() {
  const clock = new VirtualClock()
  const log = keepingLog()
  return { clock, log, trouble: new Trouble(clock, log) }
}

test('a failing call is logged at once, and then less and less often, with the number of repeats', async () => {
  const { clock, log, trouble } = scene()
  for (let i = 0; i < 600; i++) {
    trouble.failed({ disk: 'full' }, 'it failed')
    await clock.advance(100)
  }
  // In a minute: 100 ms, 200 ms, ... and from then on every five seconds.
  expect(log.lines.length).toBeGreaterThan(10)
  expect(log.lines.length).toBeLessThan(20)
  const told = log.lines.map(({ fields }) => Number(fields.times_since_told ?? 1))
  expect(told[0]).toBe(1)
  expect(told.at(-1)).toBe(50)
  expect(told.reduce((sum, times) => sum + times, 0)).toBeGreaterThan(500)
})

test('a failing call is tried again at once a few times, and then after a wait', async () => {
  const { clock, trouble } = scene()
  for (let i = 0; i < 3; i++) {
    trouble.failed({}, 'it failed')
    expect(trouble.isWaiting).toBe(false)
  }
  trouble.failed({}, 'it failed')
  expect(trouble.isWaiting).toBe(true)
  await clock.advance(800)
  expect(trouble.isWaiting).toBe(false)
  for (let i = 0; i < 100; i++) trouble.failed({}, 'it failed')
  await clock.advance(4_999)
  expect(trouble.isWaiting).toBe(true)
  await clock.advance(1)
  expect(trouble.isWaiting).toBe(false)
})

test('after a success, the next failure is logged at once', () => {
  const { log, trouble } = scene()
  for (let i = 0; i < 10; i++) trouble.failed({}, 'it failed')
  expect(log.lines).toHaveLength(1)
  trouble.ended()
  expect(trouble.isWaiting).toBe(false)
  trouble.failed({}, 'it failed')
  expect(log.lines).toHaveLength(2)
})
