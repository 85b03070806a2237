import { formatMs } from '../core/duration.ts'
import type { StoredWorker } from '../store/store.ts'
import type { FindHolds } from './holds.ts'
import { standingOf } from './worker-standing.ts'

/** Nobody who knows the type is at work: the most common reason why nothing happens, and the last one people think of. */
export const heldByAbsence: FindHolds = async (store, _queued, nowMs) => {
  const newest = new Map<string, StoredWorker>()
  const served = new Set<string>()
  for (const worker of await store.workers()) {
    for (const type of worker.types) {
      if (standingOf(worker, nowMs) === 'working') served.add(type)
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
