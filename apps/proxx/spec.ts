import { isAbsolute } from 'node:path'
import { z } from 'zod'
import type { Code } from './codes.ts'
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

const jobSpec = z.strictObject({
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

/**
 * Reads a spec strictly: what it does not know it refuses. Everything that is wrong is told at once. What was dropped and
 * could not even be read says so itself, as `unreadable`.
 */
export function readSpec(given: unknown): { spec: JobSpec; problems: [] } | { spec: null; problems: Problem[] } {
  const { unreadable } = (given ?? {}) as { unreadable?: unknown }
  if (typeof unreadable === 'string')
    return { spec: null, problems: [invalid('', unreadable.slice(0, UNREADABLE_CHARS_MAX))] }
  const read = jobSpec.safeParse(given)
  if (!read.success) {
    const problems = read.error.issues.map(({ path, message }) => invalid(path.join('.'), inPlainWords(message)))
    return { spec: null, problems }
  }
  const { sources, output } = read.data
  const wrong = namingProblem(output.naming, sources.length)
  if (wrong !== null) return { spec: null, problems: [invalid('output.naming', wrong)] }
  return { spec: read.data, problems: [] }
}

/** Who left a field out need not know what it was compared with. */
const inPlainWords = (message: string): string =>
  message
    .replace(/^Invalid input: expected \w+, received undefined$/, 'is missing')
    .replace(/^Invalid input: expected (\w+), received (\w+)$/, 'must be of type $1, not $2')
    .replace(/^Invalid input: expected (\d+)$/, 'must be $1')

const invalid = (path: string, message: string): Problem => ({ code: 'SPEC_INVALID', path, message })
