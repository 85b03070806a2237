import type { Hold } from '../core/hold.ts'
import type { JobRow, Store } from '../store/store.ts'
import { heldByAbsence } from './absence-holds.ts'
import { heldByBreakers } from './breaker-holds.ts'
import { heldByConcurrency, heldByQueues, heldByRates } from './limit-holds.ts'

/** Reads once what may hold jobs like these, and then says of each job what holds it. */
export type FindHolds = (
  store: Store,
  queued: readonly JobRow[],
  nowMs: number,
) => Promise<(job: JobRow) => Hold | null>

/** What can hold a job that is due: everything here is read from the store's state, nothing from the job's own row. */
const FINDERS: readonly FindHolds[] = [heldByAbsence, heldByQueues, heldByBreakers, heldByConcurrency, heldByRates]

/** What holds each of these jobs. A job that runs, has ended, or waits for its own time is held by nothing. */
export async function holdsOf(store: Store, jobs: readonly JobRow[]): Promise<(job: JobRow) => Hold[]> {
  const queued = jobs.filter(({ status }) => status === 'queued')
  if (queued.length === 0) return () => []
  const nowMs = await store.nowMs()
  const finders = await Promise.all(FINDERS.map((find) => find(store, queued, nowMs)))
  return (job) => {
    const isDue = job.status === 'queued' && (job.dueAtMs ?? 0) <= nowMs
    return isDue ? finders.flatMap((find) => find(job) ?? []) : []
  }
}
