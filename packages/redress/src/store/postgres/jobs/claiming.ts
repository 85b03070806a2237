import { RedressError } from '../../../core/errors.ts'
import type { Claimed, JobKey, Lane, Lease, WorkerKey } from '../../contract/store.ts'
import {
  choicesOf,
  claimedBy,
  type KnownLane,
  leaseOf,
  type OpenLane,
  valuesOf,
  withPermits,
} from '../../scripts/jobs/claiming.ts'
import { isGated } from '../../scripts/jobs/types.ts'
import type { Gates } from '../../scripts/limits/gates.ts'
import { addsToBudget } from '../../scripts/limits/meters.ts'
import { earliest, guarded } from '../../scripts/limits/permits.ts'
import { awaiting } from '../../scripts/tx/script.ts'
import type { Sql, Tx } from '../connection/client.ts'
import type { PgContext, RetryMeters } from '../connection/context.ts'
import { isUnknown } from '../connection/errors.ts'
import { lockNames, tryLockNames } from '../connection/locks.ts'
import { numbers } from '../connection/values.ts'
import {
  FIND_LOST_SQL,
  LEASE_PICKED_SQL,
  type LeasedRow,
  LOOK_SQL,
  type PlainStateRow,
  PROMOTE_SQL,
  pickSql,
  plainSql,
  type StateRow,
} from './claim-sql.ts'
import { type LinePlace, openLinePlaces } from './line-places.ts'
import { openLostClaims } from './lost-claims.ts'

interface Claim {
  worker: WorkerKey
  lanes: readonly Lane[]
  max: number
}

/** The lanes of a claim with their types, and the version of the types that was known when it began. */
interface Served {
  lanes: readonly KnownLane[]
  version: number
}

/** What a claim reads before the jobs. */
interface State {
  nowMs: number
  version: number
  isDue: boolean
  /** The next time at which a job becomes due or a pause ends. */
  nextAtMs: number | null
  paused: readonly string[]
  ready: readonly number[]
}

/** A claim that left lanes to another one may try again after this time. */
const AGAIN_MS = 5
/** Another process has declared types: the lanes must be read again. */
const STALE = Symbol('the types have changed')
/** Types are declared when programs start, so this many changes during one claim are an error. */
const STALE_MAX = 20

export function openClaiming(context: PgContext, gates: Gates, retries: RetryMeters) {
  const { types, txOf, read, write, once, givenNowMs, wakes } = context
  const lostClaims = openLostClaims()
  /** Answers to claims whose second statement may have leased jobs that are missing from the answer. */
  const restInDoubt = new WeakSet<Claimed>()
  const line = openLinePlaces()
  const texts = new Map<string, string>()
  const cached = (shape: string, make: () => string): string => {
    const text = texts.get(shape) ?? make()
    texts.set(shape, text)
    return text
  }
  /** The last promotion moved jobs, so there are probably more: the next claim promotes first. */
  let isMoving = false

  const knownLanes = (lanes: readonly Lane[]): KnownLane[] =>
    lanes.flatMap(({ type: name, ttlMs }) => {
      const type = types.knownByName(name)
      return type === undefined ? [] : [{ type, ttlMs }]
    })

  const promote = async (sql: Sql, nowMs: number | null): Promise<void> => {
    const { count } = await sql.unsafe(PROMOTE_SQL, [nowMs], PREPARED)
    isMoving = count > 0
  }

  const look = async (sql: Sql, lanes: readonly KnownLane[]): Promise<State> => {
    const wanted = numbers(lanes.map(({ type }) => type.key))
    const [row] = (await sql.unsafe(LOOK_SQL, [givenNowMs(), wanted], PREPARED).values()) as unknown as [StateRow]
    const [nowMs, version, isDue, nextDueAtMs, nextResumeAtMs, paused, ready] = row
    return { nowMs, version, isDue, nextAtMs: earliest(nextDueAtMs, nextResumeAtMs), paused, ready }
  }

  const fromLeased = (row: LeasedRow): Lease => leaseOf(row, types.knownByKey(row[1])?.name as string)

  // ---- lanes that nothing limits ------------------------------------------------------------------------------------

  /** One statement, which writes nothing if there is no job. */
  const plainOnce = async (
    sql: Sql,
    { worker, max }: Claim,
    { lanes, version: served }: Served,
    waitsForDue: boolean,
  ) => {
    const typeKeys = lanes.map(({ type }) => type.key)
    const places = line.of(typeKeys)
    const text = cached(`plain ${lanes.length} ${places !== null}`, () => plainSql(lanes.length, places !== null))
    const values = [
      givenNowMs(),
      served,
      worker,
      numbers(typeKeys),
      numbers(lanes.map(({ ttlMs }) => ttlMs)),
      lanes.map(({ type }) => type.queue),
      max,
      waitsForDue,
      ...(places === null ? [] : columnsOf(places)),
    ]
    const rows = (await sql.unsafe(text, values, PREPARED).values()) as unknown as PlainRows
    const leased = rows.slice(1, -1) as LeasedRow[]
    const [, version, isDue, , nowMs, nextDueAtMs, , , , nextResumeAtMs, , , looked] = rows[0]
    line.claimed(leased, ((rows.at(-1) as LeasedRow)[12] as number) - looked, places === null)
    const nextAtMs = earliest(nextDueAtMs, nextResumeAtMs)
    return { isStale: version !== served, isDue: isDue === 1, nowMs, nextAtMs, leased, isAfter: places !== null }
  }

  const claimPlain = async (
    sql: Sql,
    claim: Claim,
    served: Served,
  ): Promise<(Claimed & { isAfter: boolean }) | typeof STALE> => {
    const isFirst = isMoving
    if (isFirst) await promote(sql, givenNowMs())
    let found = await plainOnce(sql, claim, served, !isFirst)
    if (found.isDue && !isFirst && !found.isStale) {
      await promote(sql, givenNowMs())
      found = await plainOnce(sql, claim, served, false)
    }
    const { isStale, nowMs, nextAtMs, isAfter, leased } = found
    if (isStale) return STALE
    return { nowMs, leases: leased.map(fromLeased).sort(byTurn), nextDueAtMs: nextAtMs, isAfter }
  }

  /**
   * Looks for jobs that came in before the positions reached so far. Jobs are already leased by now. If this
   * statement fails, the worker must still get them, or they would wait until their leases expire.
   */
  const claimRest = async (claim: Claim, served: Served, first: Claimed): Promise<Claimed> => {
    line.restart()
    const rest = { ...claim, max: claim.max - first.leases.length }
    try {
      const { leased } = await once('claiming', (sql) => plainOnce(sql, rest, served, false), null, AT_ONCE)
      return { ...first, leases: [...first.leases, ...leased.map(fromLeased)].sort(byTurn) }
    } catch (error) {
      if (first.leases.length === 0) throw error
      if (isUnknown(error)) restInDoubt.add(first)
      return first
    }
  }

  // ---- lanes of which some are limited ------------------------------------------------------------------------------

  /** null if a claim may find a job; else the answer without one. An idle worker must lock nothing. */
  const idleAnswer = async (sql: Sql, { lanes, version: served }: Served): Promise<Claimed | null | typeof STALE> => {
    const { nowMs, version, isDue, nextAtMs, paused, ready } = await look(sql, lanes)
    if (version !== served) return STALE
    const shut = await Promise.all(lanes.map(({ type }) => awaiting(gates.shutBy(txOf(sql), type, nowMs))))
    const open = lanes.filter(({ type }, i) => shut[i] === null && !paused.includes(type.queue))
    if (open.length > 0 && (isDue || open.some(({ type }) => ready.includes(type.key)))) return null
    const opening = shut.map((permit) => permit?.opensAtMs ?? null)
    return { nowMs, leases: [], nextDueAtMs: opening.reduce(earliest, nextAtMs) }
  }

  /**
   * Takes the locks of the lanes. Lanes that another claim is counting now are left to it, so that limited lanes do not hold
   * up the others. If no lane is left, the claim waits for its turn.
   */
  const hold = async (tx: Tx, lanes: readonly KnownLane[]) => {
    const locks = lanes.flatMap(({ type }) => gates.locksOf(type))
    // The clock is read under the locks: otherwise jobs that others claimed meanwhile would seem to be of the future.
    const [free, state] = await Promise.all([tryLockNames(tx, locks), look(tx, lanes)])
    const held = lanes.filter(({ type }) => gates.locksOf(type).every((name) => free.has(name)))
    if (held.length > 0) return { lanes: held, isAll: held.length === lanes.length, state }
    const [, later] = await Promise.all([lockNames(tx, locks), look(tx, lanes)])
    return { lanes, isAll: true, state: later }
  }

  const claimLimited = async (tx: Tx, claim: Claim, served: Served): Promise<Claimed | typeof STALE> => {
    const { lanes, isAll, state } = await hold(tx, served.lanes)
    const { nowMs, version, isDue, paused } = state
    const nextAtMs = isAll ? state.nextAtMs : earliest(state.nextAtMs, nowMs + AGAIN_MS)
    if (version !== served.version) return STALE
    if (isDue) await promote(tx, nowMs)
    const gating = gates.begin(txOf(tx), nowMs)
    const open: OpenLane[] = []
    for (const lane of lanes) {
      if (!paused.includes(lane.type.queue)) open.push({ ...lane, gate: await awaiting(gating.gateOf(lane.type)) })
    }
    const taken = open.length === 0 ? [] : await pick(tx, open, claim.max)
    const leases = taken.length === 0 ? [] : await lease(tx, claim.worker, open, taken, nowMs)
    if (leases.length > 0) {
      await awaiting(gating.settle())
      const leasedTypes = open.map(({ type }) => type)
      await retries.depositFor(tx, leases, leasedTypes, nowMs)
    }
    return claimedBy(gating, open, { leases, nowMs, nextAtMs })
  }

  /** The jobs that may be claimed, locked, in the order of the queue. */
  const pick = async (tx: Tx, lanes: readonly OpenLane[], max: number): Promise<JobKey[]> => {
    const choices = await awaiting(choicesOf(lanes, max))
    const values = valuesOf(choices, numbers)
    const kinds = choices.map(({ kind }) => kind)
    const text = cached(kinds.join(), () => pickSql(kinds))
    const rows = (await tx.unsafe(text, [max, ...values], PREPARED).values()) as unknown as PickedRow[]
    const { taken, unkeyed } = withPermits(rows, lanes, ([key, type, limitKey]) => ({ key, type, limitKey }))
    if (unkeyed.length > 0) {
      await tx`UPDATE jobs SET limit_key = '' WHERE key = ANY (${numbers(unkeyed)}::bigint[]) AND limit_key IS NULL`
    }
    return taken.map(([key]) => key)
  }

  const lease = async (
    tx: Tx,
    worker: WorkerKey,
    lanes: readonly OpenLane[],
    taken: readonly JobKey[],
    nowMs: number,
  ): Promise<Lease[]> => {
    const typeKeys = numbers(lanes.map(({ type }) => type.key))
    const values = [nowMs, numbers(taken), worker, typeKeys, numbers(lanes.map(({ ttlMs }) => ttlMs))]
    const rows = (await tx.unsafe(LEASE_PICKED_SQL, values, PREPARED).values()) as unknown as LeasedRow[]
    const gateOf = new Map(lanes.map(({ type, gate }) => [type.name, gate]))
    const leases = rows.map(fromLeased).sort(byTurn)
    return leases.map((one) => guarded(one, gateOf.get(one.type) ?? null))
  }

  const isSpecial = ({ type }: KnownLane): boolean => isGated(type) || addsToBudget(type)

  const tryToClaim = async (claim: Claim): Promise<Claimed | typeof STALE> => {
    const served: Served = { lanes: claim.max > 0 ? knownLanes(claim.lanes) : [], version: types.version() }
    if (served.lanes.length > 0 && !served.lanes.some(isSpecial)) {
      const found = await once('claiming', (sql) => claimPlain(sql, claim, served), null, AT_ONCE)
      if (found === STALE) return STALE
      const { isAfter, ...first } = found
      const claimed = isAfter && first.leases.length < claim.max ? await claimRest(claim, served, first) : first
      if (claimed.leases.length > 0) wakes.committed(false)
      return claimed
    }
    const idle = await read('looking for work', (sql) => idleAnswer(sql, served), AT_ONCE)
    return idle ?? write('claiming', (tx) => claimLimited(tx, claim, served), undefined, AT_ONCE)
  }

  /** Jobs that earlier claims leased to this worker without an answer. */
  const findLost = async (worker: WorkerKey, sought: { afterMs: number; known: JobKey[] }): Promise<Claimed> => {
    await read('reading job types', () => types.refresh(), AT_ONCE)
    const known = types.known()
    const ttls = numbers(known.map(({ policy }) => policy.lease.ttlMs))
    const values = [givenNowMs(), worker, numbers(known.map(({ key }) => key)), ttls]
    return write(
      'looking for lost claims',
      async (tx, nowMs) => {
        const all = [...values, sought.afterMs, numbers(sought.known)]
        const rows = (await tx.unsafe(FIND_LOST_SQL, all, PREPARED).values()) as unknown as LeasedRow[]
        return { nowMs, leases: rows.map(fromLeased).sort(byTurn), nextDueAtMs: null }
      },
      undefined,
      AT_ONCE,
    )
  }

  const claimAnew = async (claim: Claim): Promise<Claimed> => {
    for (let tries = 1; tries <= STALE_MAX; tries++) {
      const claimed = await tryToClaim(claim)
      if (claimed !== STALE) return claimed
      await read('reading job types', () => types.refresh(), AT_ONCE)
    }
    throw new RedressError('STORE_BUSY', 'The job types changed again and again while claiming.')
  }

  return {
    async claim(claim: Claim): Promise<Claimed> {
      const { worker } = claim
      const afterMs = lostClaims.answeredAtMs(worker)
      try {
        const found = await lostClaims.find(worker, (sought) => findLost(worker, sought))
        const claimed = found ?? (await claimAnew(claim))
        lostClaims.answered(worker, claimed)
        if (restInDoubt.has(claimed)) lostClaims.lost(worker, claimed.nowMs)
        return claimed
      } catch (error) {
        if (isUnknown(error)) lostClaims.lost(worker, afterMs)
        throw error
      }
    },
  }
}

/** A worker retries by itself, and renewals must not wait for a claim. */
const AT_ONCE = { isImpatient: true } as const

type PlainRows = [PlainStateRow, ...LeasedRow[]]

const columnsOf = (places: readonly LinePlace[]): string[] => [
  numbers(places.map(({ priority }) => priority)),
  numbers(places.map(({ placeMs }) => placeMs)),
  numbers(places.map(({ key }) => key)),
]

type PickedRow = [key: JobKey, type: number, limitKey: string | null]

const PREPARED = { prepare: true } as const

const byTurn = (a: Lease, b: Lease): number => b.priority - a.priority || a.createdAtMs - b.createdAtMs || a.key - b.key
