import { z } from 'zod'
import type { Command } from './commands.ts'
import type { OptionSpec } from './parse.ts'

/** The options of an operation are the fields of its input that have no place of their own. */
export function optionsOf(command: Command, input: z.ZodObject): OptionSpec[] {
  return fieldsOf(input).filter(({ field }) => !command.positionals.some(({ name }) => name === field))
}

export function fieldsOf(input: z.ZodObject): OptionSpec[] {
  // The output side: a coerced number is a number there, and anything at all on the way in.
  const { properties = {} } = z.toJSONSchema(input, { io: 'output', unrepresentable: 'any' })
  return Object.entries(properties).map(([field, schema]) => {
    const { enum: choices, description, default: fallback } = schema as Described
    return {
      field,
      option: field.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
      kind: kindOf(schema as Described),
      choices: choices ?? [],
      description: description ?? '',
      fallback: fallback === undefined || fallback === '' || fallback === false ? null : JSON.stringify(fallback),
    }
  })
}

interface Described {
  type?: string | string[]
  anyOf?: unknown[]
  enum?: string[]
  description?: string
  default?: unknown
}

function kindOf({ type, enum: choices, anyOf }: Described): OptionSpec['kind'] {
  if (choices !== undefined) return 'choice'
  if (type === 'boolean') return 'flag'
  if (type === 'integer' || type === 'number') return 'number'
  // A union, such as that of a duration, has the kinds of its parts: text is one of them.
  return type === 'string' || Array.isArray(type) || anyOf !== undefined ? 'text' : 'json'
}
