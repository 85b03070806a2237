import { RedressError } from '../../src/core/errors.ts'
import type { Store } from '../../src/store/contract/store.ts'

/** `refused`: nothing was done, and the caller hears so. `unknown`: it was done, and the caller hears that it was not. */
export type Fault = 'refused' | 'unknown' | null

const WRITES: ReadonlySet<PropertyKey> = new Set<keyof Store>([
  ...(['enlist', 'dismiss', 'submit', 'claim', 'start', 'renew', 'close', 'reclaim', 'intervene', 'prune'] as const),
])

/** A store whose writes fail when they are told to, one by one. */
export function faultyStore(store: Store, nextFault: () => Fault): Store {
  return new Proxy(store, {
    get(target, name) {
      const method = Reflect.get(target, name)
      if (!WRITES.has(name) || typeof method !== 'function') return method
      return async (params: unknown) => {
        const fault = nextFault()
        const failed = () => new RedressError('STORE_BUSY', `the store failed at ${String(name)} (${fault})`)
        if (fault === 'refused') throw failed()
        const answer = await method.call(target, params)
        if (fault === 'unknown') throw failed()
        return answer
      }
    },
  })
}
