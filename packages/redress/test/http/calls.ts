import type { TableRoute } from '../../src/http/routes/routes.ts'
import type { Asking } from './world.ts'

/** How an operation is asked for over HTTP: what is in the path goes there, the rest into the query or the body. */
export function callOf(
  { method, url }: Pick<TableRoute, 'method' | 'url'>,
  input: Readonly<Record<string, unknown>>,
): { path: string; asking: Asking } {
  const rest = { ...input }
  const path = url.replaceAll(/:([a-zA-Z]+)/g, (_, field: string) => {
    const value = rest[field]
    delete rest[field]
    return encodeURIComponent(String(value))
  })
  if (method !== 'GET') return { path, asking: { method, body: rest } }
  const query = new URLSearchParams()
  for (const [field, value] of Object.entries(rest)) query.set(field, String(value))
  return { path: query.size === 0 ? path : `${path}?${query}`, asking: { method } }
}
