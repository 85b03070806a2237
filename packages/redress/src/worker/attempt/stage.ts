import { AttemptFailed, type AttemptFailOptions, failWith, StageTimeout } from '../../core/failure/attempt-failed.ts'
import { type Captured, captureFailure } from '../../core/failure/capture.ts'
import { checkRules, type Rule } from '../../core/failure/classify.ts'
import { asAttemptFailed, chainOf, isInstance } from '../../core/failure/facts.ts'
import {
  type CheckedStage,
  checkStage,
  countCode,
  decideStage,
  type GaveUp,
  LAST_ERRORS_MAX,
  StageLog,
  type StageOptions,
  type StageRecord,
  type StageSummary,
  TRY_CHARS_MAX,
  type TryRecord,
} from '../../core/failure/stage.ts'
import { clip, redactValue } from '../../core/text/redact.ts'
import type { Chance } from '../../runtime/chance.ts'
import type { Clock } from '../../runtime/clock.ts'
import { Snoozed } from './attempt.ts'
import { callStage, type Handler } from './call-handler.ts'

export type StageWork<T, Code extends string> = (stage: StageTry<Code>) => T

/** The surrounding of a stage: the attempt, or a try of another stage. */
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
  const stage = checkStage(name, options, book.host.handler.codes)
  const rules = rulesOf(options, book.host.handler)
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
        if (delayMs > 0) await pause(book.runtime.clock, delayMs, around.signal())
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
  const { clock } = around.book.runtime
  const timeUp = new AbortController()
  const tried = new StageTry<Code>(open, around, timeUp)
  return new Promise<Awaited<T>>((resolve, reject) => {
    const timer = clock.setTimer(timeoutMs, () => {
      const timeout = new StageTimeout(open.stage.name, timeoutMs)
      // The limit rejects first: work that stops at once on the signal must not win the race against it.
      reject(timeout)
      timeUp.abort(timeout)
    })
    void callStage(work, tried)
      .then(resolve, reject)
      .finally(() => timer.cancel())
  })
}

async function measured<T>({ host, runtime }: StageBook, { line }: OpenStage, work: Promise<T>): Promise<T> {
  const beganMonoMs = runtime.clock.monoMs()
  try {
    return await work
  } finally {
    runtime.onTry?.(host.handler.type, line.name, runtime.clock.monoMs() - beganMonoMs)
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
  const nowMonoMs = book.runtime.clock.monoMs()
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
            leftMs: book.host.deadlineMonoMs - nowMonoMs,
          },
          book.host.handler.policy.retry.unknown,
          book.runtime.chance(),
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

/** The facts about an attempt that its stages need. A flight is one. */
export interface StageHost {
  readonly handler: Handler
  readonly deadlineMonoMs: number
  /** `run` has ended, and `verify` has the attempt. */
  readonly isVerifying: boolean
  readonly runtime: StageRuntime
  storeNowMs(monoMs: number): number
}

export interface StageRuntime {
  readonly clock: Clock
  readonly chance: Chance
  /** The largest result that the worker keeps. */
  readonly resultBytesMax: number
  /** Called when a try has ended, either way. */
  readonly onTry?: ((type: string, stage: string, ms: number) => void) | undefined
}

/** A stage that gave up: what is known about the error it gave up with. */
export interface GivenUp {
  /** null when a time limit stopped it. */
  why: GaveUp | null
  record: StageRecord
  context: Readonly<Record<string, unknown>>
  /** The rules that gave the error its code, so that the attempt gives it the same one. */
  rules: readonly Rule[]
  /** Why it ends the job, if it does. */
  final: { rule: string; because: string } | null
}

/** A stage on its way. */
export interface OpenStage {
  readonly stage: CheckedStage
  /** With the names of the stages around it. */
  readonly path: string
  readonly line: StageSummary
  readonly lastErrors: TryRecord[]
  number: number
  /** The context that the handler added to the current try. */
  context: Record<string, unknown> | null
}

const TRY_CONTEXT_BOUNDS = { depthMax: 3, keysMax: 20, itemsMax: 20, textCharsMax: 200, totalCharsMax: 600 }

/** The record of an attempt's stages; made when it first enters one. */
export class StageBook {
  readonly host: StageHost
  readonly runtime: StageRuntime
  readonly #log = new StageLog()
  readonly #open = new Set<OpenStage>()
  /** By the very error that was thrown, so that the author's code meets errors as they are, never a wrapper. */
  readonly #byError = new WeakMap<object, GivenUp>()
  /** For what is not an object; only the newest can be told apart. */
  #byValue: { thrown: unknown; givenUp: GivenUp } | null = null

  constructor(host: StageHost) {
    this.host = host
    this.runtime = host.runtime
  }

  begin(stage: CheckedStage, path: string): OpenStage {
    const open = { stage, path, line: this.#log.begun(stage), lastErrors: [], number: 0, context: null }
    this.#open.add(open)
    return open
  }

  end(open: OpenStage): void {
    this.#open.delete(open)
  }

  /** Named by the same rules that would name it if it ended the attempt. */
  capture(thrown: unknown, rules: readonly Rule[], nowMonoMs: number): Captured {
    const { handler, isVerifying } = this.host
    const phase = isVerifying ? 'verification' : 'execution'
    const { type, codes } = handler
    return captureFailure({ thrown, phase, type, codes, rules, nowMs: this.host.storeNowMs(nowMonoMs) })
  }

  /** Adds a failed try to the record of its stage. Answers with what it said, in one short line. */
  failed({ lastErrors, number, context }: OpenStage, { failure }: Captured): string {
    const said = clip(failure.detail.split('\n', 1)[0] ?? '', TRY_CHARS_MAX)
    const { httpStatus } = failure.context
    lastErrors.push({
      try: number,
      code: failure.code,
      said,
      ...(typeof httpStatus === 'number' && { httpStatus }),
      ...(context !== null && { context: redactValue(context, TRY_CONTEXT_BOUNDS) }),
    })
    if (lastErrors.length > LAST_ERRORS_MAX) lastErrors.shift()
    return said
  }

  gaveUp(open: OpenStage, thrown: unknown, why: GaveUp, rules: readonly Rule[], final: GivenUp['final']): void {
    // The stage nearest to the error describes it; a stage around it adds only what that one does not say.
    const inner = this.#find(thrown)
    const givenUp: GivenUp = {
      why,
      record: inner?.record ?? recordOf(open, why),
      context: { ...open.context, ...inner?.context },
      rules: inner?.rules ?? rules,
      final: inner?.final ?? final,
    }
    if (typeof thrown === 'object' && thrown !== null) this.#byError.set(thrown, givenUp)
    else this.#byValue = { thrown, givenUp }
  }

  /** The stage that gave up with this error, or with what it was caused by. */
  givenUpWith(thrown: unknown): GivenUp | null {
    for (const link of chainOf(thrown)) {
      const found = this.#find(link)
      if (found !== null) return found
    }
    return null
  }

  /** The stage that a time limit of the whole attempt cut short: the newest, when there are several. */
  cutShort(): GivenUp | null {
    const open = [...this.#open].at(-1)
    if (open === undefined) return null
    const record = recordOf(open, 'stopped')
    return { why: null, record, context: { ...open.context }, rules: this.host.handler.rules, final: null }
  }

  summary(): StageSummary[] | null {
    return this.#log.summary()
  }

  #find(thrown: unknown): GivenUp | null {
    if (typeof thrown === 'object' && thrown !== null) return this.#byError.get(thrown) ?? null
    return this.#byValue !== null && Object.is(this.#byValue.thrown, thrown) ? this.#byValue.givenUp : null
  }
}

function recordOf({ path, number, stage, lastErrors }: OpenStage, gaveUp: StageRecord['gaveUp']): StageRecord {
  return { name: path, tries: number, max: stage.max, gaveUp, lastErrors: [...lastErrors] }
}
