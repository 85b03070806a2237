/**
 * A job that must not run beside another one has a limit key of its own kind: the claim lets one job of such a key run
 * at a time, whatever the policy of its type says. The first character tells it from the keys that people choose.
 */
const MARK = '\u0001'

/** `key`: null for all singletons of the type. */
export const singletonLimitKey = (key: string | null): string => `${MARK}${key ?? ''}`

export const isSingletonKey = (limitKey: string | null): boolean => limitKey?.startsWith(MARK) === true

/** The submit option that gives another job the limit key of this one. */
export function limitOptionOf(limitKey: string | null): LimitOption {
  if (limitKey === null) return {}
  if (!isSingletonKey(limitKey)) return { limitKey }
  const key = singletonOf(limitKey)
  return { singleton: key === '' ? 'running' : { key, of: 'running' } }
}

export interface LimitOption {
  limitKey?: string
  singleton?: 'running' | { key: string; of: 'running' }
}

/** For people: the key of the singleton, '' if it has none. */
export const singletonOf = (limitKey: string): string => limitKey.slice(MARK.length)
