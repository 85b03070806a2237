import { captureFailure } from '../core/capture.ts'
import { describe } from '../core/describe.ts'
import { RedressError } from '../core/errors.ts'
import type { RetryQuestion, RetryRefusal } from '../operations/admit-retry.ts'
import type { LastSeenJob } from '../operations/operation.ts'
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

/** The answer of a job type's `lastSeen`. */
export type LastSeenHook = (
  input: unknown,
  job: LastSeenJob,
) => Readonly<Record<string, unknown>> | Promise<Readonly<Record<string, unknown>>>

/**
 * A type that cannot say where the job stood does not stop a person from ending it. The reason is recorded instead.
 */
export async function askLastSeen(
  declared: { lastSeen: LastSeenHook | null; handler: Handler } | undefined,
  job: LastSeenJob,
  clock: Clock,
): Promise<Readonly<Record<string, unknown>>> {
  if (declared === undefined || declared.lastSeen === null) return {}
  const { lastSeen: hook, handler } = declared
  let seen: Readonly<Record<string, unknown>> = {}
  try {
    const isAnswered = await within(clock, LOOK_MS_MAX, async () => {
      seen = await hook(await handler.readInput(JSON.parse(job.payload)), job)
    })
    return isAnswered ? seen : { lastSeen: `its type did not answer within ${LOOK_MS_MAX / 1000} s` }
  } catch (thrown) {
    return { lastSeen: `its type failed to answer: ${describe(thrown)}` }
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
