import type { FastifyInstance } from 'fastify'

/** Says by which methods a path is served; none where there is no such path. To be asked for before routes are added. */
export function knowMethods(server: FastifyInstance): (path: string) => string[] {
  const served = new Map<string, { pattern: RegExp; methods: Set<string> }>()
  server.addHook('onRoute', ({ url, method }) => {
    const known = served.get(url) ?? { pattern: patternOf(url), methods: new Set() }
    for (const name of [method].flat()) known.methods.add(name)
    served.set(url, known)
  })
  return (path) => {
    const fitting = [...served.values()].filter(({ pattern }) => pattern.test(path))
    return [...new Set(fitting.flatMap(({ methods }) => [...methods]))].sort()
  }
}

/** `/api/jobs/:id`, and `/files/*` of an app. */
function patternOf(url: string): RegExp {
  const parts = url.split('/').map((part) => {
    if (part.startsWith(':')) return '[^/]+'
    return part.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*')
  })
  return new RegExp(`^${parts.join('/')}$`)
}
