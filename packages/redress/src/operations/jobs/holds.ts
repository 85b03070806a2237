import type { Hold } from '../../core/job/hold.ts'
import { callsAllowed, effectiveStatus, nextChangeAtMs, whyHeld } from '../../core/limits/breaker.ts'
import { isSingletonKey, singletonOf } from '../../core/limits/singleton.ts'
import { formatMs } from '../../core/text/duration.ts'
import type { StoredBreaker } from '../../store/contract/breakers.ts'
import type { TypeLoad } from '../../store/contract/queues.ts'
import type { JobRow, Store, StoredWorker } from '../../store/contract/store.ts'
import { workerState } from '../workers/workers.ts'

/** Reads the state of the store once, then finds the hold of each job. */
type FindHolds = (store: Store, queued: readonly JobRow[], nowMs: number) => Promise<(job: JobRow) => Hold | null>

/** The holds of each job. A running or finished job, or one that is not due, has none. */
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

/** No worker runs the type: the most common reason why nothing happens, and the last one people think of. */
const heldByAbsence: FindHolds = async (store, _queued, nowMs) => {
  const newest = new Map<string, StoredWorker>()
  const served = new Set<string>()
  for (const worker of await store.workers()) {
    for (const type of worker.types) {
      if (workerState(worker, nowMs) === 'working') served.add(type)
      if ((newest.get(type)?.seenAtMs ?? 0) <= worker.seenAtMs) newest.set(type, worker)
    }
  }
  return ({ type }) => {
    if (served.has(type)) return null
    const last = newest.get(type)
    const why = last === undefined ? 'none has been here yet' : `the last one, ${last.id}, ${goneSince(last, nowMs)}`
    return { by: 'workers', name: type, why, untilMs: null }
  }
}

const goneSince = ({ stoppedAtMs, seenAtMs }: StoredWorker, nowMs: number): string =>
  stoppedAtMs === null
    ? `was last seen ${formatMs(nowMs - seenAtMs)} ago`
    : `stopped ${formatMs(nowMs - stoppedAtMs)} ago`

/** Jobs whose breaker lets no more of them through. Where they fail fast, only the ramp holds them. */
const heldByBreakers: FindHolds = async (store, queued, nowMs) => {
  const isAnyGuarded = queued.some(({ policy }) => policy.breaker !== null)
  const breakers = new Map((isAnyGuarded ? await store.breakers() : []).map((breaker) => [breaker.name, breaker]))
  return ({ policy }) => {
    const breaker = policy.breaker === null ? undefined : breakers.get(policy.breaker.guards)
    if (breaker === undefined || !breakerHolds(breaker, policy.breaker?.mode ?? 'hold', nowMs)) return null
    const { name } = breaker
    return { by: 'breaker', name, why: whyHeld(breaker, nowMs), untilMs: nextChangeAtMs(breaker, nowMs) }
  }
}

/** Whether jobs of a type with this mode wait for the breaker. */
export function breakerHolds(breaker: StoredBreaker, mode: 'hold' | 'fail-fast', nowMs: number): boolean {
  if (effectiveStatus(breaker, nowMs) !== 'closed') return mode === 'hold'
  const allowed = callsAllowed(breaker, nowMs)
  return allowed !== null && breaker.underWay >= allowed
}

/** The queue is paused. */
const heldByQueues: FindHolds = async (store, _queued, nowMs) => {
  const paused = new Map((await store.queues()).flatMap((queue) => (queue.paused ? [[queue.name, queue.paused]] : [])))
  return ({ queue }) => {
    const pause = paused.get(queue)
    if (pause === undefined) return null
    const { by, reason, untilMs } = pause
    const end = untilMs === null ? 'until a person resumes it' : `it goes on in ${formatMs(untilMs - nowMs)}`
    return { by: 'queue', name: queue, why: `paused by ${by} (${reason}); ${end}`, untilMs }
  }
}

/** As many are under way as may be, of the type or of the job's key. */
const heldByConcurrency: FindHolds = async (store, queued) => {
  const isLimited = ({ policy: { concurrency }, limitKey }: JobRow) =>
    concurrency.max !== null || concurrency.perKey !== null || isSingletonKey(limitKey)
  const loads = await loadsOf(store, queued.filter(isLimited))
  return (job) => {
    const load = loads(job)
    if (load === undefined) return null
    const { max, perKey } = job.policy.concurrency
    const hold = (name: string, allowed: number, field: string): Hold => {
      // An orphan keeps its slot until a person decides, so the hold must name it.
      const orphans = load.orphaned === 0 ? '' : `; ${load.orphaned} of this type waits for a person as an orphan`
      return { by: 'concurrency', name, why: `${allowed} under way, which is ${field}${orphans}`, untilMs: null }
    }
    if (max !== null && load.underWay >= max) return hold(job.type, load.underWay, 'concurrency.max')
    if (job.limitKey !== null && isSingletonKey(job.limitKey)) {
      const key = singletonOf(job.limitKey)
      const name = key === '' ? job.type : `${job.type} ${key}`
      return load.underWayOfKey < 1 ? null : hold(name, load.underWayOfKey, 'all that its singleton allows')
    }
    if (perKey === null || job.limitKey === null || load.underWayOfKey < perKey) return null
    return hold(`${job.type} ${job.limitKey}`, load.underWayOfKey, 'concurrency.perKey')
  }
}

/** Enough were dispatched lately. */
const heldByRates: FindHolds = async (store, queued, nowMs) => {
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

/** What can hold a job that is due: everything here is read from the store's state, nothing from the job's own row. */
const FINDERS: readonly FindHolds[] = [heldByAbsence, heldByQueues, heldByBreakers, heldByConcurrency, heldByRates]
