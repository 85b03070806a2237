import type { Rule } from '../../core/failure/classify.ts'
import type { Taxonomy } from '../../core/failure/taxonomy.ts'
import type { Policy } from '../../core/policy/policy.ts'
import type { Attempt } from './attempt.ts'
import type { StageTry, StageWork } from './stage.ts'

/** What a worker must know to run one job type. Made by `app.job`. */
export interface Handler {
  readonly type: string
  readonly queue: string
  readonly policy: Policy
  readonly codes: Taxonomy
  /** How many slots of each worker are for this type alone; null = it shares the worker's slots with other types. */
  readonly ownSlots: number | null
  readonly rules: readonly Rule<string>[]
  /** Reads a stored payload; a throw (or rejection) is a dispatch failure: the handler never saw it. */
  readInput(payload: unknown): unknown
  /**
   * How many jobs of this type the worker may hold at once, called before each claim; null = as many as it has slots.
   */
  readonly slotsMax: (() => number) | null
  /** Before the attempt begins; a throw is a dispatch failure. What it gives back is called when the attempt is over. */
  readonly acquire: ((input: unknown, attempt: Attempt) => unknown) | null
  run(input: unknown, attempt: Attempt): unknown
  readonly verify: ((output: unknown, attempt: Attempt) => unknown) | null
}

/**
 * The one place where the author's code is entered. Stacks are cut at this file (see `boundedStack` in core/failure/facts.ts):
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
