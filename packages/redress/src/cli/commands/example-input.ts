import type { Schema } from '../../core/text/schema.ts'

/** The parts of JSON Schema that an example needs. */
interface JsonSchema {
  type?: string
  format?: string
  const?: unknown
  enum?: readonly unknown[]
  examples?: readonly unknown[]
  default?: unknown
  anyOf?: readonly JsonSchema[]
  oneOf?: readonly JsonSchema[]
  properties?: Readonly<Record<string, JsonSchema>>
  required?: readonly string[]
  items?: JsonSchema
  prefixItems?: readonly JsonSchema[]
  minItems?: number
  minLength?: number
  maxLength?: number
  minimum?: number
  exclusiveMinimum?: number
  maximum?: number
  multipleOf?: number
}

/** A schema that can describe itself (standardschema.dev): zod and arktype have this. */
interface DescribedSchema {
  readonly jsonSchema?: { readonly input: (options: { target: string }) => object }
}

const EXAMPLE_CHARS_MAX = 200
const DEPTH_MAX = 8

const FORMATS: Readonly<Record<string, string>> = {
  email: 'a@example.org',
  uri: 'https://example.org',
  uuid: '3f2b8c1e-5d4a-4e6f-8a7b-9c0d1e2f3a4b',
  date: '2026-01-31',
  'date-time': '2026-01-31T12:00:00Z',
  time: '12:00:00',
  duration: 'PT1H',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
}

/** An input for a job type as JSON that its schema accepts; null if none is found. */
export function exampleInput(schema: Schema | undefined): string | null {
  if (schema === undefined) return '{}'
  for (const candidate of [() => describedExample(schema), () => ({})]) {
    try {
      const json = JSON.stringify(candidate())
      if (json.length <= EXAMPLE_CHARS_MAX && accepts(schema, JSON.parse(json))) return json
    } catch {
      // The schema cannot be described, or its own code throws.
    }
  }
  return null
}

function accepts(schema: Schema, input: unknown): boolean {
  const checked = schema['~standard'].validate(input)
  if (!(checked instanceof Promise)) return checked.issues === undefined
  // It may ask a server. The introduction does not wait for it.
  checked.catch(() => undefined)
  return false
}

function describedExample(schema: Schema): unknown {
  const { jsonSchema } = schema['~standard'] as DescribedSchema
  return jsonSchema === undefined ? {} : exampleOf(jsonSchema.input({ target: 'draft-2020-12' }), 0)
}

function exampleOf(schema: JsonSchema, depth: number): unknown {
  if (depth > DEPTH_MAX) return null
  if (schema.const !== undefined) return schema.const
  const [given] = [...(schema.examples ?? []), schema.default, ...(schema.enum ?? [])].filter(
    (one) => one !== undefined,
  )
  if (given !== undefined) return given
  const [variant] = schema.anyOf ?? schema.oneOf ?? []
  if (variant !== undefined) return exampleOf(variant, depth + 1)
  switch (schema.type) {
    case 'string':
      return exampleText(schema)
    case 'number':
    case 'integer':
      return exampleNumber(schema)
    case 'boolean':
      return true
    case 'null':
      return null
    case 'array':
      return exampleList(schema, depth)
    default:
      return Object.fromEntries(
        (schema.required ?? []).map((key) => [key, exampleOf(schema.properties?.[key] ?? {}, depth + 1)]),
      )
  }
}

function exampleText({ format = '', minLength = 0, maxLength = Number.POSITIVE_INFINITY }: JsonSchema): string {
  return FORMATS[format] ?? 'text'.padEnd(Math.min(minLength, EXAMPLE_CHARS_MAX), 'x').slice(0, maxLength)
}

function exampleNumber({ minimum, exclusiveMinimum, maximum, multipleOf = 1 }: JsonSchema): number {
  const least = Math.max(minimum ?? 0, exclusiveMinimum === undefined ? 0 : exclusiveMinimum + multipleOf)
  return Math.min(Math.max(multipleOf, Math.ceil(least / multipleOf) * multipleOf), maximum ?? Number.POSITIVE_INFINITY)
}

function exampleList({ items = {}, prefixItems = [], minItems = 0 }: JsonSchema, depth: number): unknown[] {
  const listed = prefixItems.map((item) => exampleOf(item, depth + 1))
  const more = Math.max(0, Math.min(minItems, EXAMPLE_CHARS_MAX) - listed.length)
  return [...listed, ...Array.from({ length: more }, () => exampleOf(items, depth + 1))]
}
