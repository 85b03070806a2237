import { z } from 'zod'

type FieldKind = 'text' | 'number' | 'flag' | 'choice' | 'json'

/** A field of an operation's input, as a door that gets nothing but text has to know it. */
export interface FieldSpec {
  field: string
  kind: FieldKind
  choices: readonly string[]
  description: string
  /** Default value as JSON; null if there is none. */
  fallback: string | null
  /** Several values may be given, with commas between them. */
  isList?: true
}

export function fieldsOf(input: z.ZodObject): FieldSpec[] {
  // The output side: a coerced number is a number there, and anything at all on the way in.
  const { properties = {} } = z.toJSONSchema(input, { io: 'output', unrepresentable: 'any' })
  return Object.entries(properties).map(([field, schema]) => {
    const { enum: choices, description, default: fallback } = schema as Described
    return {
      field,
      kind: kindOf(schema as Described),
      choices: choices ?? [],
      description: description ?? '',
      fallback: fallback === undefined || fallback === '' || fallback === false ? null : JSON.stringify(fallback),
      ...(hasList(schema as Described) && { isList: true as const }),
    }
  })
}

interface Described {
  type?: string | string[]
  anyOf?: Described[]
  enum?: string[]
  description?: string
  default?: unknown
}

const hasList = ({ anyOf = [] }: Described): boolean => anyOf.some(({ type }) => type === 'array')

function kindOf({ type, enum: choices, anyOf }: Described): FieldKind {
  if (choices !== undefined) return 'choice'
  if (type === 'boolean') return 'flag'
  if (type === 'integer' || type === 'number') return 'number'
  // A union, such as that of a duration, has the kinds of its parts: text is one of them.
  return type === 'string' || Array.isArray(type) || anyOf !== undefined ? 'text' : 'json'
}
