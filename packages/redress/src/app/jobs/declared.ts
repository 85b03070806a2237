import { RedressError } from '../../core/errors.ts'
import { captureFailure } from '../../core/failure/capture.ts'
import { checkRules } from '../../core/failure/classify.ts'
import { describe } from '../../core/failure/facts.ts'
import { ENGINE_CODES, failureCodes, type Taxonomy, withEngineCodes } from '../../core/failure/taxonomy.ts'
import { checkPolicyCodes, policy as makePolicy } from '../../core/policy/policy.ts'
import { isName } from '../../core/text/names.ts'
import { problemsOf, type Schema } from '../../core/text/schema.ts'
import type { IsMapped, OwnerCode, OwnerCodes } from '../../core/views/for-owner.ts'
import type { RetryQuestion, RetryRefusal } from '../../operations/jobs/admit-retry.ts'
import type { LastSeenJob } from '../../operations/operation.ts'
import type { Clock } from '../../runtime/clock.ts'
import { type AttemptFailOptions, failWith } from '../../worker/attempt/attempt.ts'
import type { Handler } from '../../worker/attempt/call-handler.ts'
import type { JobDefinition } from './job-type.ts'

/** A job type as an app keeps it: what its workers need, and what is asked at submission and before a retry. */
export interface Declared {
  handler: Handler
  admit: ((input: unknown, owner: string | null) => unknown) | null
  limitKey: ((input: unknown) => unknown) | null
  admitRetry: RetryHook | null
  lastSeen: LastSeenHook | null
  queuedAs: string | null
  /** The failure codes that the type's author declared, without the engine's codes. */
  ownCodes: Taxonomy
  /** The code that owners see instead of engine codes; null shows them unchanged. */
  ownersSee: OwnerCode | null
}

// biome-ignore lint/suspicious/noExplicitAny: it takes every job type, and what its handler says of it is not its business
export type AnyDefinition = JobDefinition<any, any, any, any>

/** The job types that a program declares. */
export class DeclaredTypes {
  readonly #clock: Clock
  readonly #byName = new Map<string, Declared>()
  readonly codes = codesOf(this.#byName)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get names(): string[] {
    return [...this.#byName.keys()]
  }

  get handlers(): Handler[] {
    return [...this.#byName.values()].map(({ handler }) => handler)
  }

  get(type: string): Declared | undefined {
    return this.#byName.get(type)
  }

  declare(name: string, definition: AnyDefinition, ownSlots: number | null): Declared {
    if (!isName(name))
      throw new RedressError(
        'OPTION_INVALID',
        `${JSON.stringify(name)} is not a name for a job type: begin with a letter, then letters, digits and . _ : -`,
      )
    if (this.#byName.has(name))
      throw new RedressError('TYPE_DECLARED_TWICE', `The job type ${name} was declared already.`)
    if (typeof definition?.run !== 'function')
      throw new RedressError('OPTION_INVALID', `The job type ${name} has no \`run\`: a function that does the work.`)
    const declared = namingType(name, () => declaredOf(name, definition, ownSlots))
    this.#byName.set(name, declared)
    return declared
  }

  /** Asks the type's own `admitRetry`; null when it has no objection, or this program does not declare the type. */
  async admitRetry(question: RetryQuestion): Promise<RetryRefusal | null> {
    const declared = this.#byName.get(question.type)
    if (declared === undefined || declared.admitRetry === null) return null
    return askRetryHook(declared.admitRetry, declared.handler, question, this.#clock)
  }

  /** Asks the type's own `lastSeen`. */
  async lastSeen(job: LastSeenJob): Promise<Readonly<Record<string, unknown>>> {
    const declared = this.#byName.get(job.type)
    if (declared === undefined || declared.lastSeen === null) return {}
    return askLastSeen(declared.lastSeen, declared.handler, job, this.#clock)
  }
}

/** A program declares many types: the error names the one that is wrong. */
function namingType<T>(name: string, check: () => T): T {
  try {
    return check()
  } catch (error) {
    if (!(error instanceof RedressError)) throw error
    const { code, message, action, problems } = error
    throw new RedressError(code, `The job type ${name} cannot be declared. ${message}`, {
      action,
      problems,
      cause: error,
    })
  }
}

/** Checks a definition; what contradicts itself is refused before it is used. */
function declaredOf(name: string, definition: AnyDefinition, ownSlots: number | null): Declared {
  const ownCodes: Taxonomy = failureCodes(definition.codes ?? {})
  const codes: Taxonomy = withEngineCodes<string>(ownCodes)
  const rules = definition.classify ?? []
  checkRules(rules, codes)
  const policy = makePolicy(definition.policy)
  checkPolicyCodes(policy, codes)
  const { admit, admitRetry, limitKey, slotsMax, lastSeen, queuedAs, acquire, verify } = definition
  return {
    ownCodes,
    ownersSee: definition.ownersSee === undefined ? null : shownAs(definition.ownersSee, ownCodes),
    admit:
      admit === undefined
        ? null
        : (input, owner) =>
            admit(input as never, {
              type: name,
              owner,
              fail: (code, options) => {
                throw failWith(code, options)
              },
            }),
    limitKey: limitKey?.bind(definition) ?? null,
    lastSeen: lastSeen?.bind(definition) ?? null,
    queuedAs: queuedAs ?? null,
    admitRetry:
      admitRetry === undefined
        ? null
        : (input, { jobId, type, owner, actor, mode, failure }) => {
            const fail = (code: string, options?: AttemptFailOptions): never => {
              throw failWith(code, options)
            }
            const before = failure === null ? null : { code: failure.code, context: failure.context }
            return admitRetry(input as never, { jobId, type, owner, actor, mode, failure: before, fail })
          },
    handler: {
      type: name,
      queue: definition.queue ?? 'default',
      policy,
      codes,
      ownSlots,
      rules,
      readInput: (payload) => readInput(name, definition.input, payload),
      slotsMax: slotsMax?.bind(definition) ?? null,
      // Bound, not wrapped: a wrapper would stand in every stack.
      acquire: (acquire?.bind(definition) as Handler['acquire'] | undefined) ?? null,
      run: definition.run.bind(definition) as Handler['run'],
      verify: (verify?.bind(definition) as Handler['verify'] | undefined) ?? null,
    },
  }
}

function shownAs(code: string, codes: Taxonomy): OwnerCode {
  const spec = Object.hasOwn(codes, code) ? codes[code] : undefined
  if (spec === undefined) {
    throw new RedressError('TAXONOMY_INVALID', `ownersSee must be one of the type's own codes; got ${code}.`)
  }
  return { code, message: spec.message, waiting: spec.waiting ?? spec.message }
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
  const checked = schema['~standard'].validate(value)
  return checked instanceof Promise
    ? checked.then((answer) => acceptedValue(type, answer))
    : acceptedValue(type, checked)
}

function acceptedValue(type: string, checked: Awaited<ReturnType<Schema['~standard']['validate']>>): unknown {
  if (checked.issues === undefined) return checked.value
  throw new RedressError('INPUT_INVALID', `The input does not fit ${type}.`, { problems: problemsOf(checked.issues) })
}
