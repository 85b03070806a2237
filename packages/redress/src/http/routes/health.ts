import type { FastifyInstance } from 'fastify'

export interface Readiness {
  isReady: boolean
  /** For the log and the page; without anything secret. */
  why: string
}

/**
 * `/healthz`: the process answers. `/readyz`: it can do its work, so that a balancer may send it some. Both say no more
 * than that, for they are open to everybody who reaches the server.
 */
export function addHealth(server: FastifyInstance, ready: () => Promise<Readiness>): void {
  server.get('/healthz', async (_request, reply) => reply.header('cache-control', 'no-store').send({ status: 'ok' }))
  server.get('/readyz', async (_request, reply) => {
    const { isReady } = await ready()
    return reply
      .code(isReady ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({ status: isReady ? 'ready' : 'not ready' })
  })
}
