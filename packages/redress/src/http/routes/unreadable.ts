import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { ERRORS, type ErrorCode } from '../../core/errors.ts'
import { SAFE_HEADERS } from '../callers/guard.ts'

const SAID: Readonly<Record<string, [code: ErrorCode, reason: string, message: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: ['REQUEST_TOO_SLOW', 'Request Timeout', 'This request took too long to arrive.'],
  HPE_HEADER_OVERFLOW: ['HEADERS_TOO_LARGE', 'Request Header Fields Too Large', 'The headers are too large.'],
}
const NOT_HTTP = ['REQUEST_INVALID', 'Bad Request', 'This is not a valid HTTP request.'] as const

/**
 * Answers requests that cannot be read: they are too slow or not HTTP. Fastify has no reply for them,
 * so the answer is written to the socket, which is then closed: the start of the next request is unknown.
 */
export function answerUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) {
    socket.destroy()
    return
  }
  const known = Object.hasOwn(SAID, error.code ?? '') ? SAID[error.code as string] : undefined
  const [code, reason, message] = known ?? NOT_HTTP
  const { http, action } = ERRORS[code]
  const body = JSON.stringify({ error: { code, message, action } })
  const headers = {
    ...SAFE_HEADERS,
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  socket.end(`HTTP/1.1 ${http} ${reason}\r\n${lines.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy())
}

/** The maximum of `bodyMs` of a route: Node has one limit for the whole server. */
export const BODY_MS_MAX = 30 * 60_000

/** Ends requests whose body does not arrive in the time of their route. */
export function endSlowBodies(server: FastifyInstance, bodyMs: number): void {
  server.addHook('onRequest', async (request) => {
    const { raw } = request
    if (raw.complete || !hasBody(raw.headers)) return
    const late = setTimeout(
      () => {
        const error = Object.assign(new Error('the body took too long'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
        answerUnreadable(error, raw.socket)
      },
      Math.min(request.routeOptions.config.bodyMs ?? bodyMs, BODY_MS_MAX),
    )
    const clear = () => clearTimeout(late)
    raw.once('end', clear).once('close', clear)
  })
}

const hasBody = (headers: NodeJS.Dict<string | string[]>): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
