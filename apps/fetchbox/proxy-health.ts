import type { FastifyInstance } from 'fastify'
import { Gauge } from 'prom-client'
import type { App } from 'redress'
import type { MountTools } from 'redress/http'
import { neededCaller } from './access.ts'
import { refusal } from './refusals.ts'
import type { ProxyState } from './transfer/proxies.ts'

/** What is known of the proxies in this process. */
export type SeeProxies = () => readonly ProxyState[]

const STATES = ['healthy', 'out', 'probing'] as const

/** For those who run it: which proxies are in use, and why the others are not. */
export function addProxyRoute(server: FastifyInstance, tools: MountTools, seeProxies: SeeProxies): void {
  server.get('/fetchbox/proxies', async (request, reply) => {
    const { role } = await neededCaller(tools, request, 'read')
    if (role === 'owner') throw refusal('AUTH_ROLE', { said: 'It needs the role viewer or operator.' })
    const proxies = seeProxies().map(({ outUntilMs, ...shown }) => ({
      ...shown,
      outUntil: outUntilMs === null ? null : new Date(outUntilMs).toISOString(),
    }))
    return reply.header('cache-control', 'no-store').send({ proxies })
  })
}

/** One line for each state of a proxy, 1 for that it is in: as the breakers of the engine are told. */
export async function addProxyMetric(app: App, seeProxies: SeeProxies): Promise<void> {
  if (seeProxies().length === 0) return
  const registry = await app.metrics.registry()
  new Gauge({
    name: 'fetchbox_proxies',
    help: 'How a proxy stands in this process: 1 for the state it is in.',
    labelNames: ['pool', 'proxy', 'state'],
    registers: [registry],
    collect() {
      for (const { name: proxy, state } of seeProxies()) {
        const pool = proxy.slice(0, proxy.lastIndexOf('#'))
        for (const each of STATES) this.set({ pool, proxy, state: each }, each === state ? 1 : 0)
      }
    },
  })
}
