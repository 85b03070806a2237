import type { Held, JobKey } from '../store.ts'

/**
 * A worker tells of a start, renews a lease, and closes the attempt a moment later. Each goes by a connection of its own,
 * and the close could come first: then what was sent before it would be refused, as if a zombie had sent it. So a close
 * waits for what is under way about its job. Nothing else waits.
 */
export function openInOrder() {
  const underWay = new Map<JobKey, Promise<unknown>>()

  return {
    /** Sends something that must not be overtaken. */
    async first<T>(attempts: readonly Held[], send: () => Promise<T>): Promise<T> {
      const sent = send()
      const before = attempts.map(({ key }) => underWay.get(key))
      const all = Promise.allSettled([sent, ...before])
      for (const { key } of attempts) underWay.set(key, all)
      void all.then(() => {
        for (const { key } of attempts) if (underWay.get(key) === all) underWay.delete(key)
      })
      return sent
    },

    /** Resolves when nothing is under way that was sent before. */
    async after(attempts: readonly Held[]): Promise<void> {
      if (underWay.size === 0) return
      const before = new Set(attempts.map(({ key }) => underWay.get(key)))
      before.delete(undefined)
      if (before.size > 0) await Promise.all(before)
    },
  }
}
