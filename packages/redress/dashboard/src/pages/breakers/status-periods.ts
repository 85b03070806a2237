import type { OutputOf } from '../../../../src/operations/table.ts'

type Status = OutputOf<'breakers.show'>['status']

export interface StatusPeriod {
  status: Status
  fromMs: number
  toMs: number
}

/** How a breaker stood between two moments, from its history (the newest first). Nothing is known: as it stands now. */
export function statusPeriods(
  history: readonly { at: string; status: Status }[],
  status: Status,
  fromMs: number,
  toMs: number,
): StatusPeriod[] {
  const changes = history.map((event) => ({ atMs: Date.parse(event.at), status: event.status })).toReversed()
  const before = changes.findLast(({ atMs }) => atMs <= fromMs)
  const within = changes.filter(({ atMs }) => atMs > fromMs && atMs < toMs)
  const first = before?.status ?? (within.length === 0 ? status : 'closed')
  const points = [{ atMs: fromMs, status: first }, ...within]
  return points
    .map((point, n) => ({ status: point.status, fromMs: point.atMs, toMs: points[n + 1]?.atMs ?? toMs }))
    .filter((period) => period.toMs > period.fromMs)
}
