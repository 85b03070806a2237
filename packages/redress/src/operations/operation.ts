import { z } from 'zod'
import { RedressError } from '../core/errors.ts'
import type { Taxonomy } from '../core/failure/taxonomy.ts'
import type { LimitOption } from '../core/limits/singleton.ts'
import type { MissedRule } from '../core/schedule.ts'
import { unknownOption } from '../core/text/options.ts'
import { problemsOf } from '../core/text/schema.ts'
import type { OwnerCodes } from '../core/views/for-owner.ts'
import type { ScheduleDeclaration } from '../store/contract/schedules.ts'
import type { NewJob, Store } from '../store/contract/store.ts'
import { CATALOG, type CatalogEntry, type OperationName } from './catalog.ts'
import type { RetryQuestion, RetryRefusal } from './jobs/admit-retry.ts'

/** The environment of an operation, given by the program that runs it. */
export interface Context {
  store: Store
  /** Checks a submission as its program would, as far as this one knows the type. */
  prepare(type: string, input: unknown, options: SubmissionOptions): Promise<NewJob>
  /** The failure codes of a type that this program declared. */
  codesOf(type: string): Taxonomy | undefined
  /** How owners see the codes of failures. */
  ownerCodes: OwnerCodes
  /** Asks a type's own `admitRetry` before a person brings a job back; null: nothing against it, or not known here. */
  admitRetry(question: RetryQuestion): Promise<RetryRefusal | null>
  /** Asks a type where its orphaned job stood; undefined if the type is not known here. */
  lastSeen?(job: LastSeenJob): Promise<Readonly<Record<string, unknown>>>
  makeId(): string
  /** Runs a health probe now; null if this program has none for the dependency. */
  probe?(dependency: string): Promise<{ passed: boolean; said: string } | 'busy' | null>
  /** The input of a run of a schedule; undefined where another program makes it. */
  inputOfSchedule?(
    tick: { schedule: string; scheduledFor: string; isTriggered: boolean },
    payload: string | null,
  ): Promise<unknown>
  /** Checks a runtime schedule as its program would, and computes its first tick. */
  planSchedule(name: string, asked: SchedulePlan): Promise<ScheduleDeclaration>
}

/** A runtime schedule as it is asked for. */
export interface SchedulePlan {
  cron?: string
  every?: string | number
  timezone?: string
  from?: string
  until?: string
  jitter?: string | number
  count?: number
  missed?: MissedRule
  job: string
  input?: unknown
  owner?: string
  priority?: number
}

/** An orphan, as far as it is known. */
export interface LastSeenJob {
  id: string
  type: string
  payload: string
  attempt: number
  /** From 0 to 1. */
  progress: number
}

interface SubmissionOptions extends LimitOption {
  owner?: string
  priority?: number
  delay?: string | number
  dedupe?: string
  id?: string
  batch?: string
}

export interface Operation<Fields extends z.ZodObject = z.ZodObject, Output = unknown> extends CatalogEntry {
  name: OperationName
  input: Fields
  /** The schema of its answer: the OpenAPI document is made from it, and a test checks every answer. */
  output: z.ZodType<Output>
  /**
   * Throws unless the subject exists and belongs to the caller. It runs before the input is validated. So a caller
   * learns nothing about the jobs of others, and a wrong id is reported before a missing reason.
   */
  about?(store: Store, given: Readonly<Record<string, unknown>>): Promise<unknown>
  run(context: Context, input: z.output<Fields>): Promise<Output>
}

/** Puts an entry of the catalogue together with how it is done. */
export function operation<Fields extends z.ZodObject, Output>(
  name: OperationName,
  parts: Pick<Operation<Fields, Output>, 'input' | 'output' | 'about' | 'run'>,
): Operation<Fields, Output> {
  return { name, ...CATALOG[name], ...parts }
}

/** Checks the input, then does it. */
export async function perform<Fields extends z.ZodObject, Output>(
  { name, input: fields, about, run }: Operation<Fields, Output>,
  context: Context,
  input: unknown,
): Promise<Output> {
  const read = readInput(fields, input)
  if ('data' in read) return run(context, read.data)
  if (typeof input === 'object' && input !== null) await about?.(context.store, input as Record<string, unknown>)
  throw refusal(name, read.problems, unknownField(fields, input)?.action)
}

function readInput<Fields extends z.ZodObject>(
  fields: Fields,
  input: unknown,
): { data: z.output<Fields> } | { problems: string[] } {
  const wrong = [...deepProblems(input), ...numberProblems(fields, input)]
  if (wrong.length > 0) return { problems: wrong }
  const read = fields.safeParse(input, { error: inWords })
  const problems = read.success ? nulProblems(read.data) : problemsOf(read.error.issues)
  return read.success && problems.length === 0 ? { data: read.data } : { problems }
}

const PROBLEMS_MAX = 20
const PROBLEM_CHARS_MAX = 500

/** Bounds the refusal of a request with very many invalid fields. */
function refusal(name: OperationName, found: readonly string[], action?: string): RedressError {
  const problems = found
    .slice(0, PROBLEMS_MAX)
    .map((problem) => (problem.length > PROBLEM_CHARS_MAX ? `${problem.slice(0, PROBLEM_CHARS_MAX)}…` : problem))
  return new RedressError('OPTION_INVALID', `The input of ${name} is invalid: ${problems.join('; ')}.`, {
    problems,
    ...(action !== undefined && { action }),
  })
}

const unknownField = ({ shape }: z.ZodObject, input: unknown) =>
  typeof input === 'object' && input !== null ? unknownOption('It', input, Object.keys(shape)) : null

const inWords = ({ code, input }: { code?: string; input?: unknown }): string | undefined =>
  code === 'invalid_type' && input === undefined ? 'is missing' : undefined

/** Every part of the program, and every store, has its own depth at which it gives up; this is less than all of them. */
const LEVELS_MAX = 1_000

function deepProblems(input: unknown): string[] {
  if (typeof input !== 'object' || input === null) return []
  return Object.entries(input)
    .filter(([, value]) => isDeep(value))
    .map(([field]) => `${field}: is nested more than ${LEVELS_MAX} levels deep`)
}

/** Level by level and not by recursion, which would end where it is needed; and each thing once, whatever refers to it. */
function isDeep(value: unknown): boolean {
  const seen = new Set<object>()
  let level = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > LEVELS_MAX) return true
    level = level.flatMap((item) => {
      if (!isJsonTree(item) || seen.has(item)) return []
      seen.add(item)
      return Object.values(item)
    })
  }
  return false
}

const isJsonTree = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && (Array.isArray(value) || PLAIN.has(Object.getPrototypeOf(value)))

const PLAIN: ReadonlySet<unknown> = new Set([Object.prototype, null])

/** Addresses and command lines have only text. Coercion would also accept '' or true as numbers. */
function numberProblems(fields: z.ZodObject, input: unknown): string[] {
  if (typeof input !== 'object' || input === null) return []
  return Object.entries(input)
    .filter(([field, value]) => value !== undefined && !isNumber(value) && isCoerced(fields.shape[field]))
    .map(([field]) => `${field}: must be a whole number`)
}

const isNumber = (value: unknown): boolean =>
  typeof value === 'number' || (typeof value === 'string' && /^-?\d+$/.test(value))

function isCoerced(field: z.ZodType | undefined): boolean {
  if (field instanceof z.ZodOptional || field instanceof z.ZodDefault) return isCoerced(field.unwrap() as z.ZodType)
  return field instanceof z.ZodNumber && field.def.coerce === true
}

/** Nothing is called so, and not every store can even look for it. In the input of a job it is kept as JSON keeps it. */
function nulProblems(values: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(values)
    .filter(([, value]) => typeof value === 'string' && value.includes('\0'))
    .map(([field]) => `${field}: has a NUL character in it`)
}
