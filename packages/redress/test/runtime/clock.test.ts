import { expect, onTestFinished, test, vi } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'

const DAY_MS = 86_400_000

test('a timer of 60 days, longer than one timer of Node, fires after 60 days and not before, and can be cancelled', () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const wake = vi.fn()
  systemClock.setTimer(60 * DAY_MS, wake)
  const cancelled = systemClock.setTimer(60 * DAY_MS, wake)
  vi.advanceTimersByTime(60 * DAY_MS - 1)
  expect(wake).not.toHaveBeenCalled()
  cancelled.cancel()
  vi.advanceTimersByTime(1)
  expect(wake).toHaveBeenCalledTimes(1)
})
