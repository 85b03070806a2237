import type { Claimed, Lease } from '../../contract/store.ts'
import type { Gating, LaneGate } from '../limits/gates.ts'
import { earliest, leftOf, opensAtMs, takePermits } from '../limits/permits.ts'
import type { Script } from '../tx/script.ts'
import type { KnownType } from './types.ts'

/** The parts of a claim that do not depend on the driver. */

/** How many waiting jobs one claim may move to the ready line; a larger number would make a long transaction. */
export const PROMOTIONS_MAX = 5_000

export interface KnownLane {
  type: KnownType
  ttlMs: number
}

/** A lane in one claim: free, or bounded by what its gate allows. */
export interface OpenLane extends KnownLane {
  gate: LaneGate | null
}

/** Arrays, because a claim of 500 rows is the hot path. Both drivers select these columns first and in this order. */
export type LeaseColumns = [
  key: number,
  type: number,
  attempt: number,
  spent: string | null,
  queuedAtMs: number,
  priority: number,
  id: string,
  payload: string,
  owner: string | null,
  createdAtMs: number,
  retriedFrom: string | null,
  forwardOnly: number,
  batch: number | null,
  trace: string | null,
  dueSinceMs: number,
  expiresAtMs: number | null,
]

export const leaseOf = (row: readonly [...LeaseColumns, ...unknown[]], type: string): Lease => ({
  key: row[0],
  type,
  attempt: row[2],
  spent: row[3],
  queuedAtMs: row[4],
  priority: row[5],
  id: row[6],
  payload: row[7],
  owner: row[8],
  createdAtMs: row[9],
  retriedFrom: row[10],
  isForwardOnly: row[11] === 1,
  batch: row[12],
  trace: row[13],
  dueSinceMs: row[14],
  expiresAtMs: row[15],
})

/** The jobs that a lane may be claimed from: all that are ready, the first few, or those that its gate chose. */
export type LaneChoice =
  | { kind: 'free'; type: number }
  | { kind: 'bounded'; type: number; max: number }
  | { kind: 'chosen'; keys: readonly number[] }
export type LaneKind = LaneChoice['kind']

export function* choicesOf(lanes: readonly OpenLane[], max: number): Script<LaneChoice[]> {
  const choices: LaneChoice[] = []
  for (const { type, gate } of lanes) {
    if (gate === null) {
      choices.push({ kind: 'free', type: type.key })
      continue
    }
    const most = Math.min(max, leftOf(gate))
    if (gate.candidates === null) choices.push({ kind: 'bounded', type: type.key, max: most })
    else choices.push({ kind: 'chosen', keys: yield* gate.candidates(most) })
  }
  return choices
}

/** The values of the choices, in order. A driver binds a list of keys as one value. */
export const valuesOf = (
  choices: readonly LaneChoice[],
  listOf: (keys: readonly number[]) => string,
): (number | string)[] =>
  choices.flatMap((choice): (number | string)[] => {
    if (choice.kind === 'chosen') return [listOf(choice.keys)]
    return choice.kind === 'free' ? [choice.type] : [choice.type, choice.max]
  })

/**
 * The picked jobs that get their permits. Lanes may share a permit, and each lane was read as if it had the permit for
 * itself. `unkeyed`: jobs that are older than the limit of their type; without a limit key they would not be counted.
 */
export function withPermits<Row>(
  rows: readonly Row[],
  lanes: readonly OpenLane[],
  of: (row: Row) => { key: number; type: number; limitKey: string | null },
): { taken: Row[]; unkeyed: number[] } {
  const gateOf = new Map(lanes.map(({ type, gate }) => [type.key, gate]))
  const unkeyed: number[] = []
  const taken = rows.filter((row) => {
    const { key, type, limitKey } = of(row)
    const gate = gateOf.get(type) ?? null
    if (gate === null) return true
    if (!takePermits(gate, limitKey)) return false
    if (limitKey === null) unkeyed.push(key)
    return true
  })
  return { taken, unkeyed }
}

/** The answer to a claim: a gate that is shut now may open later. */
export function claimedBy(
  gating: Gating,
  lanes: readonly OpenLane[],
  { leases, nowMs, nextAtMs }: { leases: Lease[]; nowMs: number; nextAtMs: number | null },
): Claimed {
  const opening = lanes.map(({ gate }) => (gate === null ? null : opensAtMs(gate)))
  const breakers = gating.standings()
  const claimed = { nowMs, leases, nextDueAtMs: opening.reduce(earliest, nextAtMs) }
  return breakers.length === 0 ? claimed : { ...claimed, breakers }
}
