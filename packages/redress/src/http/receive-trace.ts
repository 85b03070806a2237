import type { FastifyInstance } from 'fastify'
import { withinTrace } from '../tracing/tracing.ts'

/** Where somebody records traces, what a caller asks for becomes a part of the caller's own (W3C traceparent). */
export function receiveTraces(server: FastifyInstance): void {
  server.addHook('onRequest', (request, _reply, done) => {
    const { traceparent } = request.headers
    withinTrace(typeof traceparent === 'string' ? traceparent : undefined, done)
  })
}
