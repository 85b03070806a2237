import type { Held, JobKey } from '../../contract/store.ts'

/**
 * A worker reports a start, renews a lease, and closes the attempt a moment later. Each call uses its own connection, so
 * the close could arrive first, and the earlier call would be refused like that of a lost worker. So a close waits for the
 * earlier calls about its job. Nothing else waits.
 */
export function openOrderedSends() {
  const underWay = new Map<JobKey, Promise<unknown>>()

  return {
    /** Sends a call that a later close must not overtake. */
    async send<T>(attempts: readonly Held[], send: () => Promise<T>): Promise<T> {
      const sent = send()
      const before = attempts.map(({ key }) => underWay.get(key))
      const all = Promise.allSettled([sent, ...before])
      for (const { key } of attempts) underWay.set(key, all)
      void all.then(() => {
        for (const { key } of attempts) if (underWay.get(key) === all) underWay.delete(key)
      })
      return sent
    },

    /** Resolves when the earlier calls about these jobs have ended. */
    async settled(attempts: readonly Held[]): Promise<void> {
      if (underWay.size === 0) return
      const before = new Set(attempts.map(({ key }) => underWay.get(key)))
      before.delete(undefined)
      if (before.size > 0) await Promise.all(before)
    },
  }
}
