import type { FastifyInstance, FastifyRequest } from 'fastify'
import { RedressError } from '../../core/errors.ts'
import type { Caller } from '../../operations/caller.ts'
import type { OperationName } from '../../operations/catalog.ts'
import { fieldsOf } from '../../operations/field-specs.ts'
import { OPERATIONS } from '../../operations/table.ts'
import { type FindCaller, neededCaller } from '../callers/callers.ts'

export interface RouteOptions {
  findCaller: FindCaller
  perform(caller: Caller, name: OperationName, input: Values): Promise<unknown>
  /** Throws unless this caller may run the operation and its subject exists for them. */
  refuseUnseen(caller: Caller, name: OperationName, input: Values): Promise<void>
}

type Values = Readonly<Record<string, unknown>>

export interface TableRoute {
  name: OperationName
  method: 'GET' | 'POST' | 'PUT'
  /** With `:name` for parameters. */
  url: string
}

/** Every route that the table of operations gives. */
export const TABLE_ROUTES: readonly TableRoute[] = Object.entries(OPERATIONS).map(([name, { http }]) => {
  const [method, url] = http.split(' ') as [TableRoute['method'], string]
  return { name: name as OperationName, method, url }
})

export function addTableRoutes(server: FastifyInstance, { findCaller, perform, refuseUnseen }: RouteOptions): void {
  for (const { name, method, url } of TABLE_ROUTES) {
    const { creates } = OPERATIONS[name] as { creates?: boolean }
    const read = inputReader(name)
    server.route({
      method,
      url,
      // Problems of the body are reported only to callers who may act on an existing subject. This includes invalid
      // JSON.
      async errorHandler(error, request) {
        if (!(error instanceof RedressError) || error instanceof Unread) {
          await refuseUnseen(await neededCaller(findCaller, request), name, request.params as Values)
        }
        throw error
      },
      async handler(request, reply) {
        const caller = await neededCaller(findCaller, request)
        const output = await perform(caller, name, read(request))
        const isNew = creates === true && (output as { isDone?: boolean }).isDone !== false
        return reply
          .code(isNew ? 201 : 200)
          .header('cache-control', 'no-store')
          .send(output)
      },
    })
  }
}

/** Path parameters override fields of the query and the body. */
function inputReader(name: OperationName): (request: FastifyRequest) => Values {
  const kinds = new Map(fieldsOf(OPERATIONS[name].input).map(({ field, kind }) => [field, kind]))
  // Query values are text and are converted by the kind of their field.
  const fromText = (values: Values): Values =>
    Object.fromEntries(
      Object.entries(values).map(([field, value]) => {
        if (Array.isArray(value)) throw invalid(`${field} is given twice`)
        if (kinds.get(field) === 'flag' && (value === 'true' || value === 'false')) return [field, value === 'true']
        if (kinds.get(field) === 'json') return [field, readJson(field, String(value))]
        return [field, value]
      }),
    )
  return ({ method, query, params, body, headers }) => {
    const path = fromText(params as Values)
    if (method === 'GET' || method === 'HEAD') return { ...fromText(query as Values), ...path }
    if (Object.keys(query as Values).length > 0) throw invalid(`fields of a ${method} must be in the body`)
    // An empty body counts as no body, whatever its declared type: `curl -d ''` declares a form.
    if (body === undefined || body === null || headers['content-length'] === '0') return path
    // Content types that a form of another site could send are refused (CSRF).
    if (!/^application\/(?:[\w.-]+\+)?json\b/.test(headers['content-type'] ?? '')) throw notJson()
    if (typeof body !== 'object' || Array.isArray(body)) throw invalid('the body must be a JSON object')
    return { ...(body as Values), ...path }
  }
}

function readJson(field: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalid(`${field} is not JSON`)
  }
}

/** The request has not been parsed yet. */
class Unread extends RedressError {}

const notJson = (): RedressError => new Unread('MEDIA_TYPE_UNSUPPORTED', 'This route takes application/json.')

const invalid = (problem: string): RedressError => new Unread('REQUEST_INVALID', `Invalid request: ${problem}.`)
