import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Log } from '../runtime/log.ts'
import type { FindCaller } from './callers/callers.ts'

interface Note {
  caller?: string
  error_code?: string
  incident?: string
}

const notes = new WeakMap<FastifyRequest, Note>()

/** Asked again and again by machines that want to know whether the server is there. */
const PROBES: ReadonlySet<string> = new Set(['/healthz', '/readyz'])

/** What becomes known of a request while it is answered, for its line in the log. */
export function noteOnRequest(request: FastifyRequest, note: Note): void {
  notes.set(request, { ...notes.get(request), ...note })
}

export const notingCaller =
  (find: FindCaller): FindCaller =>
  async (request) => {
    const caller = await find(request)
    if (caller !== null) noteOnRequest(request, { caller: caller.name })
    return caller
  }

/**
 * One line per request when it is answered, always with the same fields. The route is named by its pattern: an address
 * may hold secrets, and a thousand addresses are one route.
 */
export function logRequests(server: FastifyInstance, log: Log): void {
  server.addHook('onResponse', async (request, reply) => {
    const { caller = null, error_code = null, incident = null } = notes.get(request) ?? {}
    const route = request.routeOptions.url ?? null
    const fields = {
      event: 'http_request',
      method: request.method,
      route,
      status: reply.statusCode,
      duration_ms: Math.round(reply.elapsedTime),
      caller,
      error_code,
      incident,
    }
    if (route !== null && PROBES.has(route)) log.debug(fields, 'answered')
    else log.info(fields, 'answered')
  })
}
