import { CATALOG, type OperationName } from './catalog.ts'

/**
 * The HTTP request for an operation: fields that are not in the path go into the query or the body. Every client of
 * ours asks so, the command line and the dashboard; nothing is imported that a browser would have to load.
 */
export function requestOf(name: OperationName, input: object): { method: string; path: string; body: string | null } {
  const [method = '', route = ''] = CATALOG[name].http.split(' ')
  // The server knows the actor by the token.
  const { actor: _, ...rest } = input as Record<string, unknown>
  const path = route.replaceAll(/:([a-zA-Z]+)/g, (_match, field: string) => {
    const value = String(rest[field] ?? '')
    delete rest[field]
    // A browser's address has no such parts: it would be another path.
    if (['', '.', '..'].includes(value)) {
      throw new RangeError(`The input of ${name} is invalid: ${field}: ${JSON.stringify(value)}.`)
    }
    return encodeURIComponent(value)
  })
  if (method !== 'GET') return { method, path, body: JSON.stringify(rest) }
  const asked = Object.entries(rest).filter(([, value]) => value !== undefined)
  const query = String(new URLSearchParams(asked.map(([field, value]): [string, string] => [field, inQuery(value)])))
  return { method, path: query === '' ? path : `${path}?${query}`, body: null }
}

const inQuery = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))
