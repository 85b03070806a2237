import type { Claimed, JobKey, WorkerKey } from '../../contract/store.ts'

/** The claims of one worker. */
interface Claims {
  /** The database's time of the last answer. */
  answeredAtMs: number
  /** The last answers: one may have arrived while a claim of the same moment was lost. */
  recent: Claimed[]
  /** A claim after this time may have been committed without an answer. */
  lostAfterMs: number | null
  /** A search for lost claims that is under way. */
  search: Promise<unknown> | null
}

/** Finding a lease from an older answer is harmless: a worker recognizes a lease that it holds. */
const RECENT_MAX = 4

/**
 * Claims whose answer was lost with the connection. The jobs are leased to a worker that does not know of them. They would
 * wait until their leases expire and then look like jobs of a dead worker. So the next claim of the worker finds them.
 */
export function openLostClaims() {
  const byWorker = new Map<WorkerKey, Claims>()

  return {
    answered(worker: WorkerKey, claimed: Claimed): void {
      const claims = byWorker.get(worker)
      if (claims === undefined) {
        byWorker.set(worker, { answeredAtMs: claimed.nowMs, recent: [claimed], lostAfterMs: null, search: null })
        return
      }
      claims.answeredAtMs = Math.max(claims.answeredAtMs, claimed.nowMs)
      if (claimed.leases.length === 0) return
      claims.recent.push(claimed)
      if (claims.recent.length > RECENT_MAX) claims.recent.shift()
    },

    /** A claim that begins now is committed after this time; null if the worker has had no answer yet. */
    answeredAtMs: (worker: WorkerKey): number | null => byWorker.get(worker)?.answeredAtMs ?? null,

    lost(worker: WorkerKey, afterMs: number | null): void {
      const claims = byWorker.get(worker)
      // Without any answer yet, leases of an earlier process with the same worker name cannot be told apart.
      if (claims === undefined || afterMs === null) return
      claims.lostAfterMs = Math.min(claims.lostAfterMs ?? afterMs, afterMs)
    },

    /**
     * Finds the jobs of lost claims; null if there are none. Searches run one at a time, and the worker claims nothing
     * meanwhile: jobs that were just claimed would look lost.
     */
    async find(
      worker: WorkerKey,
      look: (sought: { afterMs: number; known: JobKey[] }) => Promise<Claimed>,
    ): Promise<Claimed | null> {
      const claims = byWorker.get(worker)
      if (claims === undefined) return null
      while (claims.search !== null) await claims.search.catch(() => undefined)
      if (claims.lostAfterMs === null) return null
      const afterMs = claims.lostAfterMs
      const search = look({ afterMs, known: claims.recent.flatMap(({ leases }) => leases.map(({ key }) => key)) })
      claims.search = search
      try {
        const claimed = await search
        claims.lostAfterMs = null
        return claimed.leases.length === 0 ? null : claimed
      } finally {
        claims.search = null
      }
    },
  }
}
