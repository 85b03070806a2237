import { isAbsolute } from 'node:path'
import { z } from 'zod'
import type { Code } from '../codes.ts'
import { NAMING_CHARS_MAX, namingProblem, PLACEHOLDERS } from './naming.ts'

const SOURCES_MAX = 500
const PATH_CHARS_MAX = 4_000
const UNREADABLE_CHARS_MAX = 500
/** No path has one, and a log or a page would obey it. */
const CONTROL = /\p{Cc}/u

const absolutePath = z
  .string()
  .min(1)
  .max(PATH_CHARS_MAX)
  .refine((path) => isAbsolute(path), 'must be an absolute path')
  .refine((path) => !CONTROL.test(path), 'must have no control characters')

export const jobSpec = z.strictObject({
  version: z.literal(1).describe('of this format'),
  sources: z
    .array(absolutePath)
    .min(1, 'must name at least one clip')
    .max(SOURCES_MAX, `must be at most ${SOURCES_MAX}: make several jobs of them`)
    .describe('the clips, in the order in which they are made'),
  profile: z.string().min(1).max(100).describe('the name of a profile'),
  output: z
    .strictObject({
      directory: absolutePath.describe('must exist; nothing in it is ever overwritten'),
      naming: z
        .string()
        .min(1)
        .max(NAMING_CHARS_MAX)
        .describe(`names of the outputs, without extension; ${PLACEHOLDERS.map((one) => `{${one}}`).join(', ')}`),
    })
    .describe('where the outputs go'),
  verify: z
    .strictObject({
      script: z
        .string()
        .max(100)
        .regex(/^[A-Za-z0-9_][A-Za-z0-9._-]*$/, 'must be the name of a program in the folder of scripts')
        .optional()
        .describe('a program of the folder PROXX_SCRIPTS that judges each output'),
    })
    .optional(),
  limits: z
    .strictObject({
      clipMinutes: z.int().min(1).max(1_440).optional().describe('how long ffmpeg may take for one clip'),
    })
    .optional(),
})

export type JobSpec = z.output<typeof jobSpec>

/** As it is published: for editors, and for programs that write specs. */
export const SPEC_SCHEMA: object = {
  title: 'Proxx JobSpec, version 1',
  ...z.toJSONSchema(jobSpec, { target: 'draft-2020-12' }),
}

/** One thing that is wrong with a submission. */
export interface Problem {
  code: Code
  /** Where in the spec: 'sources.2', 'output.naming'. */
  path: string
  message: string
}

export const inOneLine = ({ code, path, message }: Problem): string => `${code} ${path}: ${message}`

/**
 * Reads a spec strictly: unknown fields are refused. Reports all problems at once. A dropped file that could not be
 * read has its problem in `unreadable`.
 */
export function readSpec(given: unknown): { spec: JobSpec; problems: [] } | { spec: null; problems: Problem[] } {
  const { unreadable } = (given ?? {}) as { unreadable?: unknown }
  if (typeof unreadable === 'string')
    return { spec: null, problems: [invalid('', unreadable.slice(0, UNREADABLE_CHARS_MAX))] }
  const read = jobSpec.safeParse(given)
  const { naming, sources } = soundParts(given)
  const wrong = naming === null ? null : namingProblem(naming, sources.length)
  const problems = [
    ...(read.error?.issues ?? []).flatMap(problemsIn),
    ...(wrong === null ? [] : [invalid('output.naming', wrong)]),
  ]
  return problems.length === 0 && read.success ? { spec: read.data, problems: [] } : { spec: null, problems }
}

/** The parts of a spec that can be checked even if others are invalid. Null stands for a missing or invalid part. */
export interface SoundParts {
  sources: readonly (string | null)[]
  directory: string | null
  naming: string | null
  script: string | null
  profile: string | null
}

export function soundParts(given: unknown): SoundParts {
  const { sources, output, profile, verify } = recordOf(given)
  const { directory, naming } = recordOf(output)
  const { shape } = jobSpec
  const sound = <T>(schema: z.ZodType<T>, value: unknown): T | null => schema.safeParse(value).data ?? null
  return {
    sources: (Array.isArray(sources) ? sources : []).slice(0, SOURCES_MAX).map((one) => sound(absolutePath, one)),
    directory: sound(shape.output.shape.directory, directory),
    naming: sound(shape.output.shape.naming, naming),
    script: sound(shape.verify.unwrap().shape.script.unwrap(), recordOf(verify).script),
    profile: sound(shape.profile, profile),
  }
}

const recordOf = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}

/** One problem per unknown field. */
function problemsIn(issue: z.core.$ZodIssue): Problem[] {
  const at = (...more: string[]) => [...issue.path, ...more].join('.')
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => invalid(at(key), 'is not a field of the spec'))
  return [invalid(at(), inPlainWords(issue.message))]
}

/** For a missing field, the expected type is not helpful. */
const inPlainWords = (message: string): string =>
  message
    .replace(/^Invalid input: expected \w+, received undefined$/, 'is missing')
    .replace(/^Invalid input: expected (\w+), received (\w+)$/, 'must be of type $1, not $2')
    .replace(/^Invalid input: expected (\d+)$/, 'must be $1')

const invalid = (path: string, message: string): Problem => ({ code: 'SPEC_INVALID', path, message })
