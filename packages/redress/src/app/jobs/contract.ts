import { RedressError } from '../../core/errors.ts'
import { checkRules, type Rule } from '../../core/failure/classify.ts'
import { type EngineCode, failureCodes, type Taxonomy, withEngineCodes } from '../../core/failure/taxonomy.ts'
import type { DeletedJob } from '../../core/job/deleted.ts'
import { checkPolicyCodes, policy as makePolicy, type Policy, type PolicyInput } from '../../core/policy/policy.ts'
import { isName } from '../../core/text/names.ts'
import { optionNames, refuseUnknownOptions } from '../../core/text/options.ts'
import type { Schema } from '../../core/text/schema.ts'
import type { FailedBefore, RetryMode } from '../../operations/jobs/admit-retry.ts'
import type { LastSeenJob } from '../../operations/operation.ts'
import type { Attempt, AttemptFailOptions } from '../../worker/attempt/attempt.ts'

/**
 * Everything of a job type that is not handler code. `Stored` is what is submitted, `Input` what the schema makes of it.
 * `Returned` is what `run` must return, `Kept` what the `output` schema makes of it.
 */
export interface JobDeclaration<Input, Stored, Codes extends string, Returned, Kept> {
  /** Any Standard Schema (zod, valibot, arktype), or `typed<T>()`; checked at submission and again before each run. */
  input?: Schema<Stored, Input>
  /**
   * Any Standard Schema, or `typed<T>()`. The worker checks the output of `run` after `verify`, and stores what the schema
   * makes of it. An output that does not fit fails the attempt with OUTPUT_INVALID.
   */
  output?: Schema<Returned, Kept>
  codes?: Taxonomy<Codes>
  /**
   * The code from `codes` that owners see for every failure that `codes` does not list: a lost worker, a mark-failed,
   * a time limit of the engine. Operators see the engine's own code. When left out, owners see it too.
   */
  ownersSee?: NoInfer<Codes>
  policy?: Policy | PolicyInput
  /** Ordered: the first rule that matches gives the code. */
  classify?: readonly Rule<NoInfer<Codes> | EngineCode>[]
  /** Named group of types, shown and paused together; 'default' when left out. */
  queue?: string
  /** The failure log's (`audit: 'write-ahead'`) name for the state before a dispatch; 'queued' when left out. */
  queuedAs?: string
  /** Computes the limit key from the input. Jobs of one key share `concurrency.perKey` or a rate. Wins over the submit option. */
  limitKey?(input: Input): string | undefined | Promise<string | undefined>
}

/**
 * The handler code of a job type. Only `run` is needed. `Ran` is what `run` returns. It is a type of its own, because the
 * compiler would otherwise accept an output that lacks fields of the declared one.
 */
export interface JobImplementation<
  Input,
  Codes extends string,
  Returned,
  Locals extends object = object,
  Ran extends Returned = Returned,
> {
  /** Asked before the rules of the declaration, where both have some. */
  classify?: readonly Rule<NoInfer<Codes> | EngineCode>[]
  /** Runs at submission, after the schema. A throw (or `submission.fail`) refuses the job before any dispatch. */
  admit?(input: Input, submission: Submission<Codes | EngineCode>): unknown
  /**
   * Runs before a person retries or replays a failed job, where this program implements the type: does the source still
   * exist, and can it succeed with the same input? A throw (or `retry.fail`) refuses it with RETRY_REFUSED, and nothing is changed. Also asked when a job is
   * shown, to say whether it can be retried; so it must change nothing itself.
   */
  admitRetry?(input: Input, retry: Retry<Codes | EngineCode>): unknown
  /**
   * Where a job stood when its worker was lost, read from what its attempt left behind. It goes into the record when
   * a person marks the job as failed. Called only if this process implements the type. If it throws, the error is
   * recorded instead.
   */
  lastSeen?(
    input: Input,
    job: LastSeenJob,
  ): Readonly<Record<string, unknown>> | Promise<Readonly<Record<string, unknown>>>
  /**
   * How many jobs of this type one worker may run at once, called before each claim. Use it for a resource of the
   * machine, or for the current capacity of a service. The other jobs stay queued at no cost. When left out, the
   * number of slots of the worker. `concurrency` in the policy limits all workers together.
   */
  slotsMax?(): number
  /**
   * Runs after the claim and before the attempt begins: gets hold of what it needs, a lock or a machine. A throw is a
   * dispatch failure, of a job that never started. What it gives back is called when the attempt is over, however it
   * ended, and before its outcome is recorded.
   */
  acquire?(input: Input, attempt: Attempt<Codes | EngineCode>): Release | Promise<Release>
  run(input: Input, attempt: Attempt<Codes | EngineCode, Locals>): Ran | PromiseLike<Ran>
  /**
   * Removes the files of a job that a person deleted (`jobs.delete`). It runs as a job of its own, which is retried until it
   * succeeds, so it can run more than once: a file that is gone already is no error. Leave it out if jobs own no files.
   */
  removeFiles?(job: DeletedJob, attempt: Attempt<Codes | EngineCode>): unknown
  /** A throw here is a verification failure, never an execution one. */
  verify?(output: NoInfer<unknown extends Returned ? Ran : Returned>, attempt: Attempt<Codes | EngineCode>): unknown
}

/** A job type as its author writes it in one piece. Only `run` is needed. */
export interface JobDefinition<
  Input,
  Stored,
  Codes extends string,
  Returned,
  Locals extends object = object,
  Kept = Returned,
  Ran extends Returned = Returned,
> extends JobDeclaration<Input, Stored, Codes, Returned, Kept>,
    JobImplementation<Input, Codes, Returned, Locals, Ran> {}

/** Lets go of what `acquire` got hold of. */
type Release = () => unknown

interface Submission<Codes extends string> {
  readonly type: string
  readonly owner: string | null
  fail(code: Codes, options?: AttemptFailOptions): never
}

/** A failed job that a person wants to retry. */
interface Retry<Codes extends string> {
  readonly jobId: string
  readonly type: string
  readonly owner: string | null
  /** null when the job is only shown. */
  readonly actor: string | null
  readonly mode: RetryMode
  /**
   * The last failure with the same input, so that a type can refuse a retry that cannot succeed. Null if the input
   * was edited.
   */
  readonly failure: FailedBefore | null
  fail(code: Codes, options?: AttemptFailOptions): never
}

/**
 * A job type without an app and without handler code, made by `jobType()`: what the programs that submit its jobs and
 * those that run them share. The first three types are those of the `JobType` that `app.job` makes of it.
 */
export interface JobContract<
  // biome-ignore lint/suspicious/noExplicitAny: a contract without an input schema takes everything
  Stored = any,
  Kept = unknown,
  Codes extends string = string,
  Input = Stored,
  Returned = Kept,
> {
  readonly name: string
  readonly input: Schema<Stored, Input> | undefined
  readonly output: Schema<Returned, Kept> | undefined
  readonly codes: Taxonomy<Codes>
  readonly ownersSee: Codes | undefined
  readonly policy: Policy
  readonly classify: readonly Rule<Codes | EngineCode>[]
  readonly queue: string
  readonly queuedAs: string | undefined
  readonly limitKey: ((input: Input) => string | undefined | Promise<string | undefined>) | undefined
}

// biome-ignore lint/suspicious/noExplicitAny: it takes every job type; what its handler takes is checked where `job` is called
export type AnyContract = JobContract<any, any, any, any, any>
// biome-ignore lint/suspicious/noExplicitAny: see above
export type AnyImplementation = JobImplementation<any, any, any, any>
// biome-ignore lint/suspicious/noExplicitAny: see above
export type AnyDefinition = JobDefinition<any, any, any, any, any, any>

// biome-ignore lint/suspicious/noExplicitAny: only the names of its fields count
const DECLARATION_OPTIONS = optionNames<JobDeclaration<any, any, any, any, any>>({
  input: true,
  output: true,
  codes: true,
  ownersSee: true,
  policy: true,
  classify: true,
  queue: true,
  queuedAs: true,
  limitKey: true,
})
const IMPLEMENTATION_OPTIONS = optionNames<AnyImplementation>({
  classify: true,
  admit: true,
  admitRetry: true,
  lastSeen: true,
  slotsMax: true,
  acquire: true,
  removeFiles: true,
  run: true,
  verify: true,
})

/** Known across copies of this package: a shared file may have a copy of its own. */
const IS_CONTRACT = Symbol.for('redress.jobType')

/**
 * Declares a job type in a file that producers and workers share: name, input, output, failure codes and policy, without
 * handler code. `app.job(contract)` submits its jobs; `app.job(contract, { run })` also runs them.
 */
export function jobType<
  // biome-ignore lint/suspicious/noExplicitAny: without a schema, everything may be submitted
  Input = any,
  Stored = Input,
  const Codes extends string = never,
  Returned = unknown,
  Kept = Returned,
>(
  name: string,
  declaration: JobDeclaration<Input, Stored, Codes, Returned, Kept> = {},
): JobContract<Stored, Kept, Codes, Input, Returned> {
  refuseUnknownOptions(`jobType(${JSON.stringify(name)})`, declaration, DECLARATION_OPTIONS)
  return contractOf(name, declaration, declaration.classify ?? [])
}

/** The contract of a job type that is declared with `app.job(name, { run })`. Its rules stay with the handler. */
export function contractIn(name: string, definition: AnyDefinition | null): AnyContract {
  if (typeof definition?.run !== 'function') throw withoutRun(name)
  refuseUnknown(name, definition, [...DECLARATION_OPTIONS, ...IMPLEMENTATION_OPTIONS])
  return contractOf(name, definition, [])
}

export function checkImplementation(name: string, implementation: AnyImplementation): void {
  if (typeof implementation?.run !== 'function') throw withoutRun(name)
  const misplaced = DECLARATION_OPTIONS.find((option) => option !== 'classify' && Object.hasOwn(implementation, option))
  if (misplaced !== undefined) {
    throw new RedressError('OPTION_INVALID', `${misplaced} of the job type ${name} belongs to its jobType().`, {
      action: `Move it there: jobType(${JSON.stringify(name)}, { ${misplaced} }).`,
    })
  }
  refuseUnknown(name, implementation, IMPLEMENTATION_OPTIONS)
}

function refuseUnknown(name: string, given: object, known: readonly string[]): void {
  // An instance of a class may have fields of its own.
  if (Object.getPrototypeOf(given) === Object.prototype) refuseUnknownOptions(`The job type ${name}`, given, known)
}

export const isContract = (value: unknown): value is AnyContract =>
  typeof value === 'object' && value !== null && IS_CONTRACT in value

const withoutRun = (name: string) =>
  new RedressError('OPTION_INVALID', `The job type ${name} has no \`run\`: a function that does the work.`)

/** Checks a declaration; what contradicts itself is refused before it is used. */
function contractOf<Stored, Kept, Codes extends string, Input, Returned>(
  name: string,
  declaration: JobDeclaration<Input, Stored, Codes, Returned, Kept>,
  classify: readonly Rule<Codes | EngineCode>[],
): JobContract<Stored, Kept, Codes, Input, Returned> {
  if (!isName(name))
    throw new RedressError(
      'OPTION_INVALID',
      `${JSON.stringify(name) ?? String(name)} is not a name for a job type: begin with a letter, then letters, digits and . _ : - (at most 100 characters)`,
    )
  const { input, output, queue = 'default', queuedAs, limitKey, ownersSee } = declaration
  return namingType(name, () => {
    const codes = failureCodes((declaration.codes ?? {}) as Taxonomy<Codes>) as Taxonomy<Codes>
    const known = withEngineCodes<string>(codes)
    checkRules(classify, known)
    const policy = makePolicy(declaration.policy)
    checkPolicyCodes(policy, known)
    if (ownersSee !== undefined && !Object.hasOwn(codes, ownersSee)) {
      throw new RedressError('TAXONOMY_INVALID', `ownersSee must be one of the type's own codes; got ${ownersSee}.`)
    }
    checkSchema('input', input)
    checkSchema('output', output)
    const contract = {
      name,
      input,
      output,
      codes,
      ownersSee,
      policy,
      classify: Object.freeze([...classify]),
      queue,
      queuedAs,
      limitKey: limitKey?.bind(declaration),
    }
    Object.defineProperty(contract, IS_CONTRACT, { value: true })
    return Object.freeze(contract)
  })
}

function checkSchema(option: 'input' | 'output', schema: unknown): void {
  if (schema === undefined) return
  const standard = (schema as Partial<Schema> | null)?.['~standard']
  if (typeof standard?.validate === 'function') return
  throw new RedressError('OPTION_INVALID', `${option} must be a Standard Schema (zod, valibot, arktype).`, {
    action: `Use one, or typed<T>() from redress, which checks nothing.`,
  })
}

/** A program declares many types: the error names the one that is wrong. */
export function namingType<T>(name: string, check: () => T): T {
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
