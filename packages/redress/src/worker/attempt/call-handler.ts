import type { Attempt } from './attempt.ts'
import type { Handler } from './handler.ts'
import type { StageTry, StageWork } from './stage.ts'

/**
 * The one place where the author's code is entered. Stacks are cut at this file (see `boundedStack` in core/facts.ts):
 * what lies below is the engine's and explains nothing about the failure.
 */
export function callHandler(handler: Handler, input: unknown, attempt: Attempt): unknown {
  return handler.run(input, attempt)
}

export async function callAcquire(
  acquire: NonNullable<Handler['acquire']>,
  input: unknown,
  attempt: Attempt,
): Promise<unknown> {
  return await acquire(input, attempt)
}

export function callVerify(verify: NonNullable<Handler['verify']>, output: unknown, attempt: Attempt): unknown {
  return verify(output, attempt)
}

export async function callStage<T, Code extends string>(
  work: StageWork<T, Code>,
  stage: StageTry<Code>,
): Promise<Awaited<T>> {
  return await work(stage)
}
