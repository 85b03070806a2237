import { RedressError } from '../../core/errors.ts'
import { OutputInvalid } from '../../core/failure/attempt-failed.ts'
import { captureFailure } from '../../core/failure/capture.ts'
import { checkRules } from '../../core/failure/classify.ts'
import { describe } from '../../core/failure/facts.ts'
import { ENGINE_CODES, type Taxonomy, withEngineCodes } from '../../core/failure/taxonomy.ts'
import { problemsOf, type Schema } from '../../core/text/schema.ts'
import type { IsMapped, OwnerCode, OwnerCodes } from '../../core/views/for-owner.ts'
import { isolatedOf } from '../../isolation/isolated.ts'
import type { RetryQuestion, RetryRefusal } from '../../operations/jobs/admit-retry.ts'
import type { LastSeenJob } from '../../operations/operation.ts'
import type { Clock } from '../../runtime/clock.ts'
import { type AttemptFailOptions, failWith } from '../../worker/attempt/attempt.ts'
import type { Handler, TypeFacts } from '../../worker/attempt/call-handler.ts'
import type { AnyMiddleware } from '../../worker/attempt/middleware.ts'
import { type AnyContract, type AnyImplementation, namingType } from './contract.ts'

/** A job type as an app keeps it: what its workers need, and what is asked at submission and before a retry. */
export interface Declared {
  contract: AnyContract
  facts: TypeFacts
  limitKey: ((input: unknown) => unknown) | null
  queuedAs: string | null
  /** The failure codes that the type's author declared, without the engine's codes. */
  ownCodes: Taxonomy
  /** The code that owners see instead of engine codes; null shows them unchanged. */
  ownersSee: OwnerCode | null
  /** null in a program that only submits its jobs. */
  implemented: Implemented | null
}

const NO_MIDDLEWARE: readonly AnyMiddleware[] = []

interface Implemented {
  handler: Handler
  admit: ((input: unknown, owner: string | null) => unknown) | null
  admitRetry: RetryHook | null
  lastSeen: LastSeenHook | null
}

/** The job types that a program declares. */
export class DeclaredTypes {
  readonly #clock: Clock
  readonly #byName = new Map<string, Declared>()
  readonly #around: AnyMiddleware[] = []
  readonly codes = codesOf(this.#byName)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get names(): string[] {
    return [...this.#byName.keys()]
  }

  /** All types, also those that this program only submits. */
  get facts(): TypeFacts[] {
    return [...this.#byName.values()].map(({ facts }) => facts)
  }

  /** The types that the workers of this program run. */
  get handlers(): Handler[] {
    return [...this.#byName.values()].flatMap(({ implemented }) => implemented?.handler ?? [])
  }

  get(type: string): Declared | undefined {
    return this.#byName.get(type)
  }

  /** Adds a middleware, inside those that are there. Attempts that begin from now on have it, of every type of the app. */
  use(middleware: AnyMiddleware): void {
    if (typeof middleware !== 'function') {
      throw new RedressError(
        'OPTION_INVALID',
        `app.use() takes a function such as async (attempt, next) => next({ db }); got ${typeof middleware}.`,
      )
    }
    this.#around.push(middleware)
  }

  /** Adds a type, or the handler of one that was declared without. Answers whether anything is new. */
  declare(contract: AnyContract, implementation: AnyImplementation | null, ownSlots: number | null): boolean {
    const { name } = contract
    const earlier = this.#byName.get(name)
    if (earlier !== undefined) {
      const isSame = earlier.contract === contract
      if (isSame && implementation === null) return false
      if (!isSame || earlier.implemented !== null) throw declaredTwice(name, isSame)
    }
    const declared = namingType(name, () => declaredOf(contract, implementation, ownSlots, this.#around))
    this.#byName.set(name, declared)
    return true
  }

  /** Asks the type's own `admitRetry`; null when it has no objection, or this program does not implement the type. */
  async admitRetry(question: RetryQuestion): Promise<RetryRefusal | null> {
    const implemented = this.#byName.get(question.type)?.implemented ?? null
    if (implemented === null || implemented.admitRetry === null) return null
    return askRetryHook(implemented.admitRetry, implemented.handler, question, this.#clock)
  }

  /** Asks the type's own `lastSeen`. */
  async lastSeen(job: LastSeenJob): Promise<Readonly<Record<string, unknown>>> {
    const implemented = this.#byName.get(job.type)?.implemented ?? null
    if (implemented === null || implemented.lastSeen === null) return {}
    return askLastSeen(implemented.lastSeen, implemented.handler, job, this.#clock)
  }
}

function declaredTwice(name: string, isSame: boolean): RedressError {
  const what = isSame ? 'was implemented already' : 'was declared already'
  return new RedressError('TYPE_DECLARED_TWICE', `The job type ${name} ${what}.`)
}

function declaredOf(
  contract: AnyContract,
  implementation: AnyImplementation | null,
  ownSlots: number | null,
  around: readonly AnyMiddleware[],
): Declared {
  const { name, queue, policy, codes: ownCodes, limitKey, queuedAs, ownersSee, classify } = contract
  const facts: TypeFacts = {
    type: name,
    queue,
    policy,
    codes: withEngineCodes<string>(ownCodes),
    rules: classify,
    readInput: (payload) => readInput(name, contract.input, payload),
  }
  return {
    contract,
    facts,
    limitKey: limitKey ?? null,
    queuedAs: queuedAs ?? null,
    ownCodes,
    ownersSee: ownersSee === undefined ? null : shownAs(ownersSee, ownCodes),
    implemented: implementation === null ? null : implementedOf(facts, contract, implementation, ownSlots, around),
  }
}

function implementedOf(
  facts: TypeFacts,
  { output, classify }: AnyContract,
  implementation: AnyImplementation,
  ownSlots: number | null,
  around: readonly AnyMiddleware[],
): Implemented {
  const { type } = facts
  const { admit, admitRetry, slotsMax, lastSeen, acquire, verify, classify: ownRules = [] } = implementation
  checkRules(ownRules, facts.codes)
  const isolated = isolatedOf(implementation.run)
  return {
    admit:
      admit === undefined
        ? null
        : (input, owner) =>
            admit.call(implementation, input as never, {
              type,
              owner,
              fail: (code, options) => {
                throw failWith(code, options)
              },
            }),
    lastSeen: lastSeen?.bind(implementation) ?? null,
    admitRetry:
      admitRetry === undefined
        ? null
        : (input, { jobId, type, owner, actor, mode, failure }) => {
            const fail = (code: string, options?: AttemptFailOptions): never => {
              throw failWith(code, options)
            }
            const before = failure === null ? null : { code: failure.code, context: failure.context }
            const question = { jobId, type, owner, actor, mode, failure: before, fail }
            return admitRetry.call(implementation, input as never, question)
          },
    handler: {
      ...facts,
      rules: [...ownRules, ...classify],
      ownSlots,
      slotsMax: slotsMax?.bind(implementation) ?? null,
      // Bound, not wrapped: a wrapper would stand in every stack.
      acquire: (acquire?.bind(implementation) as Handler['acquire'] | undefined) ?? null,
      // The engine's own types deliver notices and have nothing to do with the program's middleware.
      around: ownSlots === null ? around : NO_MIDDLEWARE,
      run: isolated?.run ?? (implementation.run.bind(implementation) as Handler['run']),
      verify: (verify?.bind(implementation) as Handler['verify'] | undefined) ?? null,
      checkOutput: output === undefined ? null : (value) => checkOutput(type, output, value),
      isolated,
    },
  }
}

function shownAs(code: string, codes: Taxonomy): OwnerCode {
  const { message, waiting } = codes[code] as Taxonomy[string]
  return { code, message, waiting: waiting ?? message }
}

/** Lookups that HTTP and the CLI make about the codes of the declared job types. */
export interface DeclaredCodes {
  /**
   * Returns null for the type's own codes, and if the type declares no `ownersSee`: owners then see the code
   * unchanged.
   */
  forOwner: OwnerCodes
  isMapped: IsMapped
  /** The message of a code in the type's own table; null if the table does not list it. */
  messageOf(type: string, code: string): string | null
}

function codesOf(all: ReadonlyMap<string, Declared>): DeclaredCodes {
  const own = (type: string, code: string) => {
    const codes = all.get(type)?.ownCodes ?? {}
    return Object.hasOwn(codes, code) ? codes[code] : undefined
  }
  return {
    forOwner: (type, code) => (own(type, code) === undefined ? (all.get(type)?.ownersSee ?? null) : null),
    isMapped: (code) =>
      [...all.values()].some(
        ({ ownersSee, ownCodes }) =>
          ownersSee !== null &&
          (ownersSee.code === code || (Object.hasOwn(ENGINE_CODES, code) && !Object.hasOwn(ownCodes, code))),
      ),
    messageOf: (type, code) => own(type, code)?.message ?? null,
  }
}

/** What a job type says about a retry by a person; a throw refuses it. */
type RetryHook = (input: unknown, question: RetryQuestion) => unknown

/** A page that only shows a job does not wait for a slow hook; it shows what the policy alone allows. */
const LOOK_MS_MAX = 3_000
const ACT_MS_MAX = 30_000

/** Asks the hook, within bounds: null when it has nothing against it. */
async function askRetryHook(
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
    const { failure } = captureFailure({ thrown, phase: 'pre_dispatch', type, codes, rules, nowMs: clock.nowMs() })
    return { code: failure.code, message: failure.message }
  }
}

/** The answer of a job type's `lastSeen`. */
type LastSeenHook = (
  input: unknown,
  job: LastSeenJob,
) => Readonly<Record<string, unknown>> | Promise<Readonly<Record<string, unknown>>>

/**
 * A type that cannot say where the job stood does not stop a person from ending it. The reason is recorded instead.
 */
async function askLastSeen(
  hook: LastSeenHook,
  handler: Handler,
  job: LastSeenJob,
  clock: Clock,
): Promise<Readonly<Record<string, unknown>>> {
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

/** Checks a value against a job type's schema; answers at once where the schema does, for the hot path's sake. */
function readInput(type: string, schema: Schema | undefined, value: unknown): unknown {
  if (schema === undefined) return value
  return checkedWith(schema, value, (problems) => {
    return new RedressError('INPUT_INVALID', `The input does not fit ${type}.`, { problems })
  })
}

function checkOutput(type: string, schema: Schema, value: unknown): unknown {
  return checkedWith(schema, value, (problems) => new OutputInvalid(type, problems))
}

function checkedWith(schema: Schema, value: unknown, refusal: (problems: string[]) => Error): unknown {
  const accepted = (checked: Awaited<ReturnType<Schema['~standard']['validate']>>): unknown => {
    if (checked.issues === undefined) return checked.value
    throw refusal(problemsOf(checked.issues))
  }
  const checked = schema['~standard'].validate(value)
  return checked instanceof Promise ? checked.then(accepted) : accepted(checked)
}
