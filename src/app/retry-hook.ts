import { captureFailure } from '../core/capture.ts'
import { RedressError } from '../core/errors.ts'
import type { RetryQuestion, RetryRefusal } from '../operations/admit-retry.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Handler } from '../worker/handler.ts'

/** What a job type says about a retry by a person; a throw refuses it. */
export type RetryHook = (input: unknown, question: RetryQuestion) => unknown

/** Somebody who only looks at a job is not kept waiting; then it is shown as its policy alone would have it. */
const LOOK_MS_MAX = 3_000
const ACT_MS_MAX = 30_000

/** Asks the hook, within bounds: null when it has nothing against it. */
export async function askRetryHook(
  hook: RetryHook,
  handler: Handler,
  question: RetryQuestion,
  clock: Clock,
): Promise<RetryRefusal | null> {
  const isOnlyAsked = question.actor === null
  const boundMs = isOnlyAsked ? LOOK_MS_MAX : ACT_MS_MAX
  try {
    const isAnswered = await within(clock, boundMs, async () => {
      await hook(await handler.readInput(question.input), question)
    })
    if (isAnswered || isOnlyAsked) return null
    return { code: 'TIMEOUT', message: `Its type did not say within ${boundMs / 1000} s whether it may be.` }
  } catch (thrown) {
    if (thrown instanceof RedressError) {
      return { code: thrown.code, message: [thrown.message, ...thrown.problems].join(' ') }
    }
    const { type, codes, rules } = handler
    const { failure } = captureFailure({ thrown, stage: 'pre_dispatch', type, codes, rules, nowMs: clock.nowMs() })
    return { code: failure.code, message: failure.message }
  }
}

/** False when it took longer. */
async function within(clock: Clock, ms: number, run: () => Promise<void>): Promise<boolean> {
  let wake: (isAnswered: boolean) => void = () => undefined
  const isOver = new Promise<boolean>((resolve) => {
    wake = resolve
  })
  const timer = clock.setTimer(ms, () => wake(false))
  try {
    return await Promise.race([run().then(() => true), isOver])
  } finally {
    timer.cancel()
  }
}
