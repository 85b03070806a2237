import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { RedressError } from 'redress'
import { noteOnRequest, type RouteDescription } from 'redress/http'

export interface Refusal {
  status: number
  code: string
  message: string
  action: string
  /** One line for each thing that is wrong, where there may be several. */
  problems?: readonly string[]
  headers?: Readonly<Record<string, string>>
}

/** A refusal of an app's own route, in the format of all refusals of the server. */
export class Refused extends Error {
  override readonly name = 'Refused'
  readonly refusal: Refusal

  constructor(refusal: Refusal) {
    super(refusal.message)
    this.refusal = refusal
  }
}

/** Shows a refusal as a page, for browsers. */
interface RefusalPage {
  isFor(request: FastifyRequest): boolean
  show(request: FastifyRequest, reply: FastifyReply, refusal: Refusal): unknown
}

export function answerRefusals(server: FastifyInstance, onPage: RefusalPage | null = null): void {
  server.setErrorHandler((error, request, reply) => {
    const refusal = refusalOf(error)
    if (refusal === null) throw error
    const { status, code, message, action, problems, headers = {} } = refusal
    const isOurs = error instanceof Refused
    // The server answers refusals of the engine, except on a page.
    if (!isOurs && onPage?.isFor(request) !== true) throw error
    noteOnRequest(request, { error_code: code })
    void reply.code(status).headers({ 'cache-control': 'no-store', ...headers })
    if (onPage?.isFor(request)) return onPage.show(request, reply, refusal)
    return reply.send({ error: { code, message, action, ...(problems !== undefined && { problems }) } })
  })
}

/** Errors of the server itself are not included: the server decides how much of them is shown. */
function refusalOf(error: unknown): Refusal | null {
  if (error instanceof Refused) return error.refusal
  if (!(error instanceof RedressError) || error.httpStatus >= 500) return null
  const { httpStatus, code, message, action } = error
  return { status: httpStatus, code, message, action }
}

/** A client that is still sending does not read the answer, so the rest of the body is read and discarded. */
export function discardBody({ raw }: FastifyRequest): void {
  raw.unpipe()
  raw.resume()
}

/** Whether the form parser failed because of the client: too many parts, no form, or a form that ends early. */
export function isFormInvalid(error: unknown, { raw }: FastifyRequest): boolean {
  const { statusCode = 500 } = (error ?? {}) as { statusCode?: number }
  // A client that disconnected will not read the answer, but the error is not the server's.
  return (statusCode >= 400 && statusCode < 500) || raw.destroyed || /unexpected end|boundary/i.test(String(error))
}

/** The options of a route, with its description for the OpenAPI document. */
export const described = (api: RouteDescription, more: { bodyMs?: number } = {}) => ({ config: { ...more, api } })

export const HTML = 'text/html'
