import { createRequire } from 'node:module'
import type { Answer } from '../world.ts'

export interface Parameter {
  name: string
  in: 'path' | 'query' | 'header'
  required: boolean
  schema: Record<string, unknown>
}

export interface DocumentedOperation {
  operationId: string
  parameters?: Parameter[]
  requestBody?: { content: { 'application/json': { schema: Record<string, unknown> } } }
  responses: Record<string, { content?: Record<string, { schema: object }>; $ref?: string }>
}

export interface OpenApiDocument {
  paths: Record<string, Record<string, DocumentedOperation>>
  components: { schemas: Record<string, object> }
}

type Check = ((value: unknown) => boolean) & { errors?: { instancePath: string; message?: string }[] | null }

// It comes with the validator of the document, and speaks the same dialect of JSON Schema.
const { default: Ajv2020 } = createRequire(import.meta.resolve('@seriousme/openapi-schema-validator'))(
  'ajv/dist/2020.js',
)

/** Says what of an answer is not as the document has it. */
export class Contract {
  readonly document: OpenApiDocument
  readonly #checks = new Map<string, Check>()
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false })

  constructor(document: OpenApiDocument) {
    this.document = document
  }

  problems(method: string, path: string, { status, headers, json, text }: Answer): string[] {
    const responses = this.document.paths[path]?.[method.toLowerCase()]?.responses
    if (responses === undefined) return [`${method} ${path} is not in the document`]
    const said = responses[String(status)]
    if (said === undefined) return this.refusalProblems({ status, headers, json, text })
    const [type, content] = Object.entries(said.content ?? {})[0] ?? []
    if (type !== 'application/json') return []
    if (json === null) return [`${method} ${path} ${status} is not JSON but ${headers['content-type']}`]
    return this.#fit(`${method} ${path} ${status}`, content?.schema ?? {}, json)
  }

  refusalProblems({ status, headers, json, text }: Answer): string[] {
    if (status < 400) return [`a refusal was expected, not ${status}`]
    if (json === null) return [`a refusal is not JSON but ${headers['content-type']}: ${text.slice(0, 100)}`]
    return this.#fit('refusal', this.document.components.schemas.Error ?? {}, json)
  }

  #fit(name: string, schema: object, value: unknown): string[] {
    const check = this.#checks.get(name) ?? (this.#ajv.compile(schema) as Check)
    this.#checks.set(name, check)
    if (check(value)) return []
    return (check.errors ?? []).map(({ instancePath, message }) => `${name}: ${instancePath} ${message}`)
  }
}

/** Its templates as the router writes them. */
export const templateOf = (url: string): string => url.replaceAll(/:([a-zA-Z]+)/g, '{$1}')
