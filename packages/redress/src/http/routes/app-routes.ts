import type { FastifyInstance } from 'fastify'
import { z } from 'zod'

/** How the OpenAPI document describes a route of an app. Stands beside the route: `{ config: { api: { summary } } }`. */
export interface RouteDescription {
  summary: string
  /** Required role and other notes for callers. */
  description?: string
  /** Anyone may call it, without signing in. */
  isPublic?: boolean
  query?: z.ZodObject
  /** Request headers that it reads: what each is for. */
  headers?: Readonly<Record<string, string>>
  body?: Content
  /** By status. Refusals need not be named: they have the usual shape. */
  answers?: Readonly<Record<number, Content & { description: string }>>
}

/** A body: JSON of a schema, other media types, or both. */
interface Content {
  json?: z.ZodType
  types?: readonly string[]
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** How `/openapi.json` describes a route of an app. */
    api?: RouteDescription
  }
}

export type Schema = Record<string, unknown> & { properties?: Record<string, object>; required?: string[] }

export function schemaOf(schema: z.ZodType, io: 'input' | 'output'): Schema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Schema
  return rest
}

/** The paths of an app in the OpenAPI document, collected while the app adds its routes. */
export type AppPaths = Record<string, Record<string, object>>

export function collectRoutes(scope: FastifyInstance, paths: AppPaths): void {
  scope.addHook('onRoute', ({ method, url, config }) => {
    const path = url.replaceAll(/:([a-zA-Z]+)/g, '{$1}').replace('*', '{path}')
    for (const one of [method].flat()) {
      // Fastify adds HEAD to every GET by itself.
      if (one === 'HEAD') continue
      paths[path] = { ...paths[path], [one.toLowerCase()]: operationObject(one, path, config?.api) }
    }
  })
}

function operationObject(
  method: string,
  path: string,
  api: RouteDescription = { summary: `${method} ${path}` },
): object {
  const parameters = [
    ...[...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => parameter('path', String(name), { type: 'string' }, true)),
    ...queryOf(api),
    ...Object.entries(api.headers ?? {}).map(([name, description]) => ({
      ...parameter('header', name, { type: 'string' }, false),
      description,
    })),
  ]
  return {
    operationId: [method.toLowerCase(), ...(path.match(/\w+/g) ?? [])].join('-'),
    summary: api.summary,
    ...(api.description !== undefined && { description: api.description }),
    ...(api.isPublic && { security: [] }),
    tags: [path.split('/').find((part) => part !== '' && part !== 'api') ?? 'app'],
    ...(parameters.length > 0 && { parameters }),
    ...(api.body !== undefined && { requestBody: { required: true, content: contentOf(api.body, 'input') } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(api.answers ?? {}).map(([status, { description, ...content }]) => [
          status,
          { description, content: contentOf(content, 'output') },
        ]),
      ),
      default: { $ref: '#/components/responses/AppRefused' },
    },
  }
}

function queryOf({ query }: RouteDescription): object[] {
  if (query === undefined) return []
  const { properties = {}, required = [] } = schemaOf(query, 'input')
  return Object.entries(properties).map(([name, schema]) => parameter('query', name, schema, required.includes(name)))
}

const parameter = (place: 'path' | 'query' | 'header', name: string, schema: object, required: boolean) => ({
  name,
  in: place,
  required,
  schema,
})

const contentOf = ({ json, types = [] }: Content, io: 'input' | 'output'): object => ({
  ...(json !== undefined && { 'application/json': { schema: schemaOf(json, io) } }),
  ...Object.fromEntries(types.map((type) => [type, { schema: {} }])),
})
