import type { FastifyInstance } from 'fastify'
import { answerUnreadable } from '../routes/unreadable.ts'

/** The most that a route can ask for. Node has one bound for the whole server, and this is it. */
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
