import { redress } from 'redress'

/** The one job type of the kill loop, as its workers and its submitters declare it. */
export interface Work {
  /** How long the handler waits; 0 answers at once. */
  ms: number
  /** Whether its first attempt fails, so that retries are under way too when a process is killed. */
  isFlaky: boolean
}

export const LEASE_MS = 1_000

export function openWork(store: string) {
  const app = redress({ store })
  const work = app.job('work', {
    policy: {
      lease: { ttl: LEASE_MS },
      orphan: { action: 'requeue', maxReclaims: 1000 },
      retry: { max: 1000, backoff: { table: ['10ms'] }, unknown: 'transient' },
    },
    run: ({ ms, isFlaky }: Work, attempt) => {
      if (isFlaky && attempt.number === 1) throw new Error('the first attempt always fails')
      return ms === 0 ? attempt.number : new Promise((resolve) => setTimeout(() => resolve(attempt.number), ms))
    },
  })
  return { app, work }
}
