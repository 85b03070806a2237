import type { Claimed, JobKey, WorkerKey } from '../../contract/store.ts'

/** What is known of one worker's claims. */
interface Claims {
  /** The database's time of the last answer. */
  answeredAtMs: number
  /** The last answers: one may have come while another claim, of the same moment, was lost. */
  recent: Claimed[]
  /** A claim that was made after this time may have been committed, and was not answered. */
  lostAfterMs: number | null
  /** Somebody looks for what was lost. */
  search: Promise<unknown> | null
}

/** Finding a lease from an older answer is harmless: a worker recognizes a lease that it holds. */
const RECENT_MAX = 4

/**
 * Claims whose answer was lost with the connection. The jobs are leased to a worker that does not know of them; they
 * would wait until their leases run out, and then be taken for jobs of a worker that died. But it lives, and has never
 * heard of them: so its next claim finds them.
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

    /** When a claim that begins now cannot have been made before; null where nothing is known. */
    answeredAtMs: (worker: WorkerKey): number | null => byWorker.get(worker)?.answeredAtMs ?? null,

    lost(worker: WorkerKey, afterMs: number | null): void {
      const claims = byWorker.get(worker)
      // Of a worker that was never answered it cannot be told which leases are of a former life.
      if (claims === undefined || afterMs === null) return
      claims.lostAfterMs = Math.min(claims.lostAfterMs ?? afterMs, afterMs)
    },

    /**
     * Looks for what was lost, if something was; null where nothing is found. One looks at a time, and nobody claims
     * for this worker meanwhile: what was claimed just now would look as if it was lost.
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
