import { setTimeout as wait } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Fault, type Faults, faultSchema } from './faults.ts'
import { Refusal } from './refusals.ts'
import { drain } from './upload.ts'

const BEGUN = '<?xml version="1.0" encoding="UTF-8"?>\n<document'

/** Only with the option: whoever can ask for faults can stop the service. */
export function addFaults(server: FastifyInstance, faults: Faults): void {
  server.post('/faults', async (request, reply) => {
    const fault = faultSchema.safeParse(request.body)
    if (!fault.success) {
      const [issue] = fault.error.issues
      throw new Refusal('REQUEST_INVALID', [issue?.path.join('.'), issue?.message].filter(Boolean).join(': '))
    }
    faults.set(fault.data)
    return reply.status(201).send(faults.state)
  })
  server.get('/faults', async () => faults.state)
  server.delete('/faults', async (_request, reply) => {
    faults.clear()
    return reply.status(204).send()
  })
  server.addHook('onRequest', async (request, reply) => {
    const path = request.routeOptions.url
    if (path !== '/process' && path !== '/health') return
    const fault = faults.strike(path === '/health')
    if (fault !== undefined) await meet(fault, request, reply)
  })
}

async function meet(fault: Fault, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  if (fault.delayMs !== undefined) {
    const gone = new AbortController()
    const leave = () => gone.abort()
    request.raw.socket.once('close', leave)
    await wait(fault.delayMs, undefined, { signal: gone.signal, ref: false }).catch(() => undefined)
    // The next request may come over the same connection.
    request.raw.socket.off('close', leave)
  }
  if (fault.drop !== undefined) {
    reply.hijack()
    if (fault.drop === 'before') request.raw.socket.destroy()
    else {
      reply.raw.writeHead(200, { 'content-type': 'application/xml; charset=utf-8', 'content-length': 100_000 })
      reply.raw.write(BEGUN, () => request.raw.socket.destroy())
    }
  } else if (fault.status !== undefined) {
    drain(request.raw)
    throw new Refusal('FAULT', 'This fault was asked for.', { status: fault.status })
  }
}
