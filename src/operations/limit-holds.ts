import { formatMs } from '../core/duration.ts'
import type { Hold } from '../core/hold.ts'
import type { TypeLoad } from '../store/queues.ts'
import type { JobRow, Store } from '../store/store.ts'
import type { FindHolds } from './holds.ts'

/** Somebody paused the queue. */
export const heldByQueues: FindHolds = async (store, _queued, nowMs) => {
  const paused = new Map((await store.queues()).flatMap((queue) => (queue.paused ? [[queue.name, queue.paused]] : [])))
  return ({ queue }) => {
    const pause = paused.get(queue)
    if (pause === undefined) return null
    const { by, reason, untilMs } = pause
    const end = untilMs === null ? 'until somebody resumes it' : `it goes on in ${formatMs(untilMs - nowMs)}`
    return { by: 'queue', name: queue, why: `paused by ${by} (${reason}); ${end}`, untilMs }
  }
}

/** As many are under way as may be, of the type or of the job's key. */
export const heldByConcurrency: FindHolds = async (store, queued) => {
  const isLimited = ({ policy: { concurrency } }: JobRow) => concurrency.max !== null || concurrency.perKey !== null
  const loads = await loadsOf(store, queued.filter(isLimited))
  return (job) => {
    const load = loads(job)
    if (load === undefined) return null
    const { max, perKey } = job.policy.concurrency
    const hold = (name: string, allowed: number, field: string): Hold => {
      // An orphan keeps its slot until somebody decides, and nobody would guess that.
      const orphans = load.orphaned === 0 ? '' : `; ${load.orphaned} of this type waits for a person as an orphan`
      return { by: 'concurrency', name, why: `${allowed} under way, which is ${field}${orphans}`, untilMs: null }
    }
    if (max !== null && load.underWay >= max) return hold(job.type, load.underWay, 'concurrency.max')
    if (perKey === null || job.limitKey === null || load.underWayOfKey < perKey) return null
    return hold(`${job.type} ${job.limitKey}`, load.underWayOfKey, 'concurrency.perKey')
  }
}

/** Enough were dispatched lately. */
export const heldByRates: FindHolds = async (store, queued, nowMs) => {
  const loads = await loadsOf(
    store,
    queued.filter(({ policy }) => policy.rate !== null),
  )
  return (job) => {
    const { rate } = job.policy
    const untilMs = loads(job)?.rateOpensAtMs ?? null
    if (rate === null || untilMs === null) return null
    const name = rate.scope === 'key' ? `${job.type} ${job.limitKey}` : job.type
    const why = `${rate.max} in ${formatMs(rate.perMs)} at most; one more may go in ${formatMs(untilMs - nowMs)}`
    return { by: 'rate', name, why, untilMs }
  }
}

/** Asked once for each type and key. */
async function loadsOf(store: Store, jobs: readonly JobRow[]): Promise<(job: JobRow) => TypeLoad | undefined> {
  const idOf = ({ type, limitKey }: JobRow) => `${type} ${limitKey ?? ''}`
  const asked = new Map(jobs.map((job) => [idOf(job), job]))
  const loads = new Map<string, TypeLoad>()
  for (const [id, { type, limitKey }] of asked) loads.set(id, await store.load({ type, limitKey }))
  return (job) => loads.get(idOf(job))
}
