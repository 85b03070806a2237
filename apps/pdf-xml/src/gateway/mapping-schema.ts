import * as z from 'zod'

const PATTERN_CHARS_MAX = 500
const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/

const elementName = z.string().regex(NAME, 'Begin with a letter; use letters, digits, - and _ (64 at most).')
const fieldType = z.enum(['text', 'number', 'date', 'money']).default('text')
const group = z.int().min(0).max(20).default(0).describe('Which bracket of the pattern is the value; 0 is all of it.')
const pattern = z
  .string()
  .min(1)
  .max(PATTERN_CHARS_MAX)
  .superRefine((text, context) => {
    const problem = patternProblem(text)
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
  })
const coordinate = z.number().min(0).max(20_000)
const label = z.string().trim().min(1).max(200)

const locator = z.union(
  [
    z.strictObject({
      label: label.describe('The words before or above the value, as the document shows them.'),
      where: z.enum(['right', 'below', 'either']).default('either'),
      pattern: pattern.optional().describe('What of the text at the label is the value.'),
      group,
    }),
    z.strictObject({ pattern: pattern.describe('Looked for in the lines of each page.'), group }),
    z.strictObject({
      region: z
        .strictObject({
          page: z.int().min(1),
          x: coordinate,
          y: coordinate,
          width: coordinate.positive(),
          height: coordinate.positive(),
        })
        .describe('In points, from the upper left corner of the page.'),
    }),
  ],
  { error: 'Give one of { "label" }, { "pattern" } or { "region" }, and only its own properties.' },
)

const field = z.strictObject({
  element: elementName.describe('The name of the field in the XML.'),
  type: fieldType,
  required: z.boolean().default(false).describe('A document without it is refused.'),
  many: z.boolean().default(false).describe('All that are found, not only the first.'),
  find: locator,
})

const rows = z
  .strictObject({
    element: elementName,
    header: z.array(label).min(1).max(30).describe('The words above the columns, from left to right.'),
    columns: z
      .array(z.strictObject({ element: elementName, type: fieldType }))
      .min(1)
      .max(30),
    until: label.optional().describe('The row that begins with this is none of them any more.'),
  })
  .refine(({ header, columns }) => header.length === columns.length, {
    message: 'There must be as many columns as there are words in the header.',
    path: ['columns'],
  })

export const mappingSchema = z
  .strictObject({
    $schema: z.string().optional(),
    name: elementName,
    version: z.int().min(1).max(1_000_000),
    title: z.string().min(1).max(200),
    description: z.string().max(1_000).default(''),
    dateOrder: z.enum(['dmy', 'mdy', 'ymd']).default('dmy').describe('How 1/2/2024 is meant.'),
    fields: z.array(field).min(1).max(200),
    rows: rows.optional(),
  })
  .superRefine(({ fields }, context) => {
    const seen = new Set<string>()
    for (const [i, { element }] of fields.entries()) {
      if (seen.has(element)) {
        context.addIssue({
          code: 'custom',
          message: `The field ${element} is defined twice.`,
          path: ['fields', i, 'element'],
        })
      }
      seen.add(element)
    }
  })

/** For editors: they show while writing what would be refused. */
export const mappingJsonSchema = (): object => z.toJSONSchema(mappingSchema, { io: 'input', target: 'draft-2020-12' })

/**
 * The problem of a regular expression; undefined if it has none. Rejects expressions that do not compile and nested
 * repetitions ('(a+)*'), which can take exponential time. Other slow patterns are ended by the time limit of the
 * document.
 */
export function patternProblem(pattern: string): string | undefined {
  try {
    new RegExp(pattern, 'gmu')
  } catch (error) {
    return (error as Error).message
  }
  return nestsRepetitions(pattern)
    ? 'a repetition inside a repetition can take forever: write it without the inner one'
    : undefined
}

/** '+', '*' and '{2,}' have no end of their own. */
const UNBOUNDED = /^(?:[*+]|\{\d+,\})/

function nestsRepetitions(pattern: string): boolean {
  // For each group that is open: is there a repetition in it?
  const open: boolean[] = [false]
  for (let i = 0; i < pattern.length; i++) {
    const char = pattern[i]
    if (char === '\\') i++
    else if (char === '[') i = endOfClass(pattern, i)
    else if (char === '(') open.push(false)
    else if (char === ')') {
      const inner = open.pop() ?? false
      const isRepeated = UNBOUNDED.test(pattern.slice(i + 1))
      if (inner && isRepeated) return true
      open[open.length - 1] = open.at(-1) === true || inner || isRepeated
    } else if (UNBOUNDED.test(pattern.slice(i))) open[open.length - 1] = true
  }
  return false
}

function endOfClass(pattern: string, start: number): number {
  for (let i = start + 1; i < pattern.length; i++) {
    if (pattern[i] === '\\') i++
    else if (pattern[i] === ']') return i
  }
  return pattern.length
}
