import type { AuditView } from '../../../src/operations/audit/audit.ts'

/** Something kept jobs back for a while. */
export interface PastHold {
  fromMs: number
  toMs: number
  /** 'breaker converter', 'queue mail' */
  by: string
}

/** When a queue was paused, from what people did to it (the newest first). */
export function pausesOf(queue: string, acts: readonly AuditView[], nowMs: number): PastHold[] {
  const oldestFirst = acts.filter(({ act }) => act === 'queues.pause' || act === 'queues.resume').toReversed()
  return oldestFirst.flatMap(({ act, at, data }, n) => {
    if (act === 'queues.resume') return []
    const next = oldestFirst[n + 1]
    const untilMs = typeof data?.untilMs === 'number' ? data.untilMs : nowMs
    const toMs = Math.min(untilMs, next === undefined ? nowMs : Date.parse(next.at))
    return [{ fromMs: Date.parse(at), toMs, by: `queue ${queue}` }]
  })
}

/** A stretch of waiting, cut where something began or ceased to hold: each piece with what held it, or null. */
export function cutByHolds(
  fromMs: number,
  toMs: number,
  holds: readonly PastHold[],
): { fromMs: number; toMs: number; by: string | null }[] {
  const pieces: { fromMs: number; toMs: number; by: string | null }[] = []
  let atMs = fromMs
  const put = (untilMs: number, by: string | null): void => {
    if (untilMs > atMs) pieces.push({ fromMs: atMs, toMs: untilMs, by })
    atMs = Math.max(atMs, untilMs)
  }
  for (const hold of holds.toSorted((a, b) => a.fromMs - b.fromMs)) {
    put(Math.min(hold.fromMs, toMs), null)
    put(Math.min(hold.toMs, toMs), hold.by)
  }
  put(toMs, null)
  return pieces
}
