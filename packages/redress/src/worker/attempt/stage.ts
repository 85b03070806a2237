import { AttemptFailed, type AttemptFailOptions, failWith, StageTimeout } from '../../core/failure/attempt-failed.ts'
import type { Captured } from '../../core/failure/capture.ts'
import { checkRules, type Rule } from '../../core/failure/classify.ts'
import { asAttemptFailed, isInstance } from '../../core/failure/facts.ts'
import {
  type CheckedStage,
  checkStage,
  countCode,
  decideStage,
  type GaveUp,
  type StageOptions,
} from '../../core/failure/stage.ts'
import type { Clock } from '../../runtime/clock.ts'
import { callStage } from './call-handler.ts'
import { Snoozed } from './signals.ts'
import type { GivenUp, OpenStage, StageBook } from './stage-book.ts'

export type StageWork<T, Code extends string> = (stage: StageTry<Code>) => T

/** What a stage is part of: the attempt, or a try of another stage. */
interface Around {
  readonly book: StageBook
  readonly path: string
  signal(): AbortSignal
}

/** One try of a stage, as the author's code sees it. */
export class StageTry<Code extends string = string> {
  readonly name: string
  /** Which try this is, from 1. */
  readonly number: number
  readonly max: number
  readonly #open: OpenStage
  readonly #around: Around
  readonly #timeUp: AbortController | null
  #signal: AbortSignal | null = null
  #context: Record<string, unknown> | null = null

  constructor(open: OpenStage, around: Around, timeUp: AbortController | null) {
    this.name = open.stage.name
    this.number = open.number
    this.max = open.stage.max
    this.#open = open
    this.#around = around
    this.#timeUp = timeUp
  }

  /** Aborted with the attempt's, and when the time of this try is over. */
  get signal(): AbortSignal {
    this.#signal ??=
      this.#timeUp === null ? this.#around.signal() : AbortSignal.any([this.#around.signal(), this.#timeUp.signal])
    return this.#signal
  }

  /** Facts about this try (which proxy, which mirror). If it fails, they are part of the record. */
  context(fields: Record<string, unknown>): void {
    this.#context = { ...this.#context, ...fields }
    // A try that was given up at its time limit may still talk; the record is the next one's by then.
    if (this.#open.number === this.number) this.#open.context = this.#context
  }

  /** Ends this try with a code of the taxonomy; whether there is another try depends on the code. */
  fail(code: Code, options?: AttemptFailOptions): never {
    throw failWith(code, options)
  }

  /** A stage within this one. */
  stage<T>(name: string, options: StageOptions<Code>, work: StageWork<T, Code>): Promise<Awaited<T>> {
    const { book } = this.#around
    return runStage({ book, path: `${this.#open.path}/`, signal: () => this.signal }, name, options, work)
  }
}

/** Tries until it succeeds or gives up. The error it gives up with is the last one, as it was thrown. */
export async function runStage<T, Code extends string>(
  around: Around,
  name: string,
  options: StageOptions<Code>,
  work: StageWork<T, Code>,
): Promise<Awaited<T>> {
  const { book } = around
  const stage = checkStage(name, options, book.ground.handler.codes)
  const rules = rulesOf(options, book.ground.handler)
  around.signal().throwIfAborted()
  const open = book.begin(stage, around.path + name)
  try {
    for (;;) {
      open.number++
      open.line.tries++
      open.context = null
      try {
        const output = await measured(book, open, tryOnce(open, around, work))
        open.line.succeeded++
        return output
      } catch (thrown) {
        const delayMs = afterFailure(open, around, options, rules, thrown)
        if (delayMs > 0) await pause(book.world.clock, delayMs, around.signal())
      }
      around.signal().throwIfAborted()
    }
  } finally {
    book.end(open)
  }
}

const checkedRules = new WeakSet<readonly Rule[]>()

function rulesOf(
  { classify }: StageOptions,
  handler: { rules: readonly Rule[]; codes: Parameters<typeof checkRules>[1] },
): readonly Rule[] {
  if (classify === undefined) return handler.rules
  if (!checkedRules.has(classify)) {
    checkRules(classify, handler.codes)
    checkedRules.add(classify)
  }
  return [...classify, ...handler.rules]
}

async function tryOnce<T, Code extends string>(
  open: OpenStage,
  around: Around,
  work: StageWork<T, Code>,
): Promise<Awaited<T>> {
  const { timeoutMs } = open.stage
  if (timeoutMs === null) return callStage(work, new StageTry<Code>(open, around, null))
  const { clock } = around.book.world
  const timeUp = new AbortController()
  const tried = new StageTry<Code>(open, around, timeUp)
  return new Promise<Awaited<T>>((resolve, reject) => {
    const timer = clock.setTimer(timeoutMs, () => {
      const timeout = new StageTimeout(open.stage.name, timeoutMs)
      // First: work that ends at once when it is told to must not be heard before the limit that ended it.
      reject(timeout)
      timeUp.abort(timeout)
    })
    void callStage(work, tried)
      .then(resolve, reject)
      .finally(() => timer.cancel())
  })
}

async function measured<T>({ ground, world }: StageBook, { line }: OpenStage, trying: Promise<T>): Promise<T> {
  const beganMonoMs = world.clock.monoMs()
  try {
    return await trying
  } finally {
    world.onTry?.(ground.handler.type, line.name, world.clock.monoMs() - beganMonoMs)
  }
}

/** Answers with the wait before the next try, or throws what the stage gives up with. */
function afterFailure<Code extends string>(
  open: OpenStage,
  around: Around,
  options: StageOptions<Code>,
  rules: readonly Rule[],
  thrown: unknown,
): number {
  const { book } = around
  const { stage, line, number } = open
  // The attempt is over, or the handler wants to go on later: neither is a failure of this try.
  if (around.signal().aborted || isInstance(thrown, Snoozed)) throw thrown
  const nowMonoMs = book.world.clock.monoMs()
  const inner = book.givenUpWith(thrown)
  const captured = book.capture(thrown, inner?.rules ?? rules, nowMonoMs)
  const said = book.failed(open, captured)
  countCode(line, captured.failure.code)
  const decision =
    inner !== null && inner.final !== null
      ? ({ kind: 'give-up', why: 'final' } as const)
      : decideStage(
          {
            stage,
            number,
            retry: captured.retry,
            retryAfterMs: captured.retryAfterMs,
            wanted: asked(options, thrown, captured, number),
            leftMs: book.ground.deadlineMonoMs - nowMonoMs,
          },
          book.ground.handler.policy.retry.unknown,
          book.world.chance(),
        )
  if (decision.kind === 'again') return decision.delayMs
  line.failed++
  const { why } = decision
  const last = why === 'exhausted' ? exhaustedWith(stage, number, thrown, said) : thrown
  book.gaveUp(open, last, why, rules, finalOf(stage, number, why))
  throw last
}

/** An author's function that throws has not said yes. */
function asked<Code extends string>(
  { retryIf }: StageOptions<Code>,
  thrown: unknown,
  { failure, retry }: Captured,
  number: number,
): boolean | null {
  if (retryIf === undefined) return null
  try {
    return Boolean(retryIf(thrown, { code: failure.code as Code, retry, number }))
  } catch {
    return false
  }
}

function exhaustedWith({ name, max, exhaustedCode }: CheckedStage, tries: number, thrown: unknown, said: string) {
  if (exhaustedCode === null) return thrown
  const context = asAttemptFailed(thrown)?.context
  return new AttemptFailed(exhaustedCode, {
    detail: `stage ${name} gave up after ${tries} of ${max} tries; the last one: ${said}`,
    cause: thrown,
    ...(context !== undefined && { context: { ...context } }),
  })
}

function finalOf({ name, max, isFinal }: CheckedStage, tries: number, why: GaveUp): GivenUp['final'] {
  if (!isFinal || (why !== 'exhausted' && why !== 'declined')) return null
  const ending = why === 'exhausted' ? `used up its ${max} tries` : `was not to be tried again after try ${tries}`
  return { rule: `stage ${name}: exhausted = fail`, because: `stage ${name} ${ending}, and that ends the job` }
}

/** Waits between two tries, no longer than the attempt counts. */
function pause(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(delayMs, () => {
      signal.removeEventListener('abort', stop)
      resolve()
    })
    const stop = () => {
      timer.cancel()
      reject(signal.reason)
    }
    signal.addEventListener('abort', stop, { once: true })
  })
}
