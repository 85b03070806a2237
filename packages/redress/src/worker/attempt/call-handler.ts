import type { Rule } from '../../core/failure/classify.ts'
import type { Taxonomy } from '../../core/failure/taxonomy.ts'
import type { Policy } from '../../core/policy/policy.ts'
import { Attempt } from './attempt.ts'
import type { AnyMiddleware } from './middleware.ts'
import type { StageTry, StageWork } from './stage.ts'

/** What is known of a job type without its handler code. */
export interface TypeFacts {
  readonly type: string
  readonly queue: string
  readonly policy: Policy
  readonly codes: Taxonomy
  readonly rules: readonly Rule<string>[]
  /** Reads a stored payload; a throw (or rejection) is a dispatch failure: the handler never saw it. */
  readInput(payload: unknown): unknown
}

/** What a worker must know to run one job type. Made by `app.job`. */
export interface Handler extends TypeFacts {
  /** How many slots of each worker are for this type alone; null = it shares the worker's slots with other types. */
  readonly ownSlots: number | null
  /**
   * How many jobs of this type the worker may hold at once, called before each claim; null = as many as it has slots.
   */
  readonly slotsMax: (() => number) | null
  /** Before the attempt begins; a throw is a dispatch failure. What it gives back is called when the attempt is over. */
  readonly acquire: ((input: unknown, attempt: Attempt) => unknown) | null
  /** The middleware around `run`, the outermost first. The app adds to this list; an attempt that has begun keeps its own. */
  readonly around: readonly AnyMiddleware[]
  run(input: unknown, attempt: Attempt): unknown
  readonly verify: ((output: unknown, attempt: Attempt) => unknown) | null
  /** Checks an output with the type's schema and gives back what is stored; null = the output itself is stored. */
  readonly checkOutput: ((output: unknown) => unknown) | null
  /**
   * Its own threads or processes, if it has any. A worker that starts checks its module. The idle ones are ended when a
   * worker stops, all of them with the app.
   */
  readonly isolated: { check(type: string): Promise<void>; end(what: 'idle' | 'everything'): Promise<void> } | null
}

/**
 * The one place where the author's code is entered. Stacks are cut at this file (see `boundedStack` in core/failure/facts.ts):
 * what lies below is the engine's and explains nothing about the failure.
 */
export function callHandler(handler: Handler, input: unknown, attempt: Attempt): unknown {
  return handler.around.length === 0
    ? handler.run(input, attempt)
    : callThrough({ handler, input, attempt, around: [...handler.around] }, 0)
}

interface Chain {
  readonly handler: Handler
  readonly input: unknown
  readonly attempt: Attempt
  readonly around: readonly AnyMiddleware[]
}

/** Calls the middleware at this place, which calls the rest with `next`. */
async function callThrough(chain: Chain, at: number): Promise<unknown> {
  const { handler, input, attempt, around } = chain
  const middleware = around[at]
  if (middleware === undefined) return handler.run(input, attempt)
  const name = middleware.name === '' ? `${at + 1} of ${around.length}` : middleware.name
  let rest: Promise<unknown> | null = null
  let state: 'before' | 'within' | 'after' | 'over' = 'before'
  const next = (added: object = {}): Promise<unknown> => {
    if (state !== 'before') throw new MiddlewareMisused(name, state === 'over' ? CALLED_LATE : CALLED_TWICE)
    // A time limit, a cancel or a lost lease ended the attempt: its handler must not begin any more.
    const stopReason = Attempt.stopReasonOf(attempt)
    if (stopReason !== undefined) throw stopReason
    Attempt.addLocals(attempt, added)
    state = 'within'
    rest = callThrough(chain, at + 1)
    const ended = () => {
      if (state === 'within') state = 'after'
    }
    // Also marks a rejection as handled: the middleware may await it later, and a process ends on an unhandled one.
    rest.then(ended, ended)
    return rest
  }
  try {
    const returned = await middleware(attempt, next)
    // The compiler does not see that `next` changes it.
    switch (state as 'before' | 'within' | 'after') {
      case 'before':
        if (returned === undefined) throw new MiddlewareMisused(name, NO_OUTPUT)
        return returned
      case 'within':
        // The handler must not run beside the next attempt.
        await Promise.allSettled([rest])
        throw new MiddlewareMisused(name, NOT_AWAITED)
      case 'after':
        return returned === undefined ? await rest : returned
    }
  } finally {
    state = 'over'
  }
}

class MiddlewareMisused extends Error {
  override readonly name = 'MiddlewareMisused'
  constructor(middleware: string, what: string) {
    super(`Middleware ${middleware} ${what}`)
  }
}

const CALLED_TWICE = 'called next() twice. Call it once: a retry by policy runs the handler again.'
const CALLED_LATE = 'called next() after it had returned. Await everything before you return.'
const NO_OUTPUT = 'neither called next() nor returned an output. Return null if the job has no output.'
const NOT_AWAITED = 'returned before its next() had ended. Write `return await next(...)`.'

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
