import {
  afterForcing,
  type BreakerState,
  type CallBucket,
  type CallCount,
  closedFromTheStart,
  type ForcedState,
  isInForce,
  sumWindow,
} from '../../core/breaker.ts'
import type { SubjectEvents } from '../../core/events.ts'
import type { BreakerPolicy } from '../../core/policy-flow.ts'
import {
  BREAKER_EVENT_OF,
  type Breaker,
  type BreakerRow,
  breakerAsOf,
  breakerReader,
  CALLS_TOLD,
  callsFromRow,
  changeTold,
  stateInTime,
} from '../breaker-rows.ts'
import type { BreakerEvent } from '../breakers.ts'
import type { Connection } from './connection.ts'
import type { History } from './history.ts'

export type BreakerRows = ReturnType<typeof openBreakerRows>

/** The rows of the breakers. Whatever changes one goes through `move`, which tells the history of it. */
export function openBreakerRows(connection: Connection, history: History) {
  const select = connection.prepare('SELECT * FROM breakers WHERE name = ?')
  const selectAll = connection.prepare('SELECT * FROM breakers ORDER BY name')
  const declare = connection.prepare(`
    INSERT INTO breakers (name, policy, epoch, status, since, passed, reason) VALUES (?, ?, 1, ?, ?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET policy = excluded.policy WHERE policy <> excluded.policy`)
  const update = connection.prepare(`
    UPDATE breakers SET epoch = ?2, status = ?3, since = ?4, tries_at = ?5, passed = ?6, reason = ?7 WHERE name = ?1`)
  const force = connection.prepare(`
    UPDATE breakers SET forced_status = ?2, forced_by = ?3, forced_reason = ?4, forced_at = ?5, forced_until = ?6
    WHERE name = ?1`)
  const calls = connection.prepare('SELECT at, succeeded, failed FROM breaker_calls WHERE breaker = ? ORDER BY at DESC')
  const newestCalls = connection.prepare(`
    SELECT at, succeeded, failed FROM breaker_calls WHERE breaker = ? ORDER BY at DESC LIMIT ?`)
  const forgetCalls = connection.prepare('DELETE FROM breaker_calls WHERE breaker = ?1 AND (at < ?2 OR at > ?3)')
  // At once after another is running: both types' jobs count.
  const guarded = `SELECT key FROM job_types WHERE policy ->> '$.breaker.guards' = ?1`
  const underWay = connection.prepare(`
    SELECT count(*) AS count FROM jobs INDEXED BY jobs_limited_running
    WHERE type IN (${guarded}) AND limit_key IS NOT NULL AND lease_until IS NOT NULL AND lease_until > ?2
      AND claimed_at >= ?3`)

  const fromRow = breakerReader()

  const find = (name: string, nowMs: number): Breaker | null => {
    const row = select.get(name) as BreakerRow | undefined
    return row === undefined ? null : fromRow(row, nowMs)
  }

  const tell = (
    { name }: Breaker,
    kind: SubjectEvents['breaker'][number],
    data: BreakerEvent['data'],
    nowMs: number,
  ): void => history.subjectEvent(`breaker:${name}`, nowMs, kind, data)

  /** Writes another computed state, with its event where the status is another. Answers with the breaker then. */
  const move = (breaker: Breaker, state: BreakerState, nowMs: number): Breaker => {
    if (state === breaker.state) return breaker
    const isChange = state.status !== breaker.state.status
    const epoch = isChange ? breaker.epoch + 1 : breaker.epoch
    update.run(breaker.name, epoch, state.status, state.sinceMs, state.triesAtMs, state.passed, state.reason)
    if (isChange) {
      const data = changeTold(state, (newestCalls.all(breaker.name, CALLS_TOLD) as BreakerRow[]).map(callsFromRow))
      // What opened it must not open it again after it closed.
      forgetCalls.run(breaker.name, Number.MAX_SAFE_INTEGER, 0)
      tell(breaker, BREAKER_EVENT_OF[state.status], data, nowMs)
    }
    return { ...breaker, epoch, state }
  }

  const setForced = (name: string, forced: ForcedState | null): void => {
    if (forced === null) force.run(name, null, null, null, null, null)
    else force.run(name, forced.status, forced.actor, forced.reason, forced.atMs, forced.untilMs)
  }

  /** Ends what was forced; `actor` is null where its time was over. */
  const release = (breaker: Breaker, by: { actor: string; reason: string } | null, nowMs: number): Breaker => {
    const { forced } = breaker
    if (forced === null) return breaker
    setForced(breaker.name, null)
    const free = move({ ...breaker, forced: null }, afterForcing(breaker.state, forced, nowMs), nowMs)
    const why = by ?? { reason: 'the time it was forced for is over' }
    tell(breaker, 'released', { ...why, status: free.state.status }, nowMs)
    return free
  }

  return {
    declare(policy: BreakerPolicy, nowMs: number): void {
      const { status, sinceMs, passed, reason } = closedFromTheStart(nowMs)
      declare.run(policy.guards, JSON.stringify(policy), status, sinceMs, passed, reason)
    },

    /** As it stands now; nothing is written. */
    peek(name: string, nowMs: number): Breaker | null {
      const breaker = find(name, nowMs)
      return breaker === null ? null : breakerAsOf(breaker, nowMs)
    },

    peekAll: (nowMs: number): Breaker[] =>
      (selectAll.all() as BreakerRow[]).map((row) => breakerAsOf(fromRow(row, nowMs), nowMs)),

    /** As it stands now, and what time alone has changed is written. Only within a transaction that writes. */
    current(name: string, nowMs: number): Breaker | null {
      const breaker = find(name, nowMs)
      if (breaker === null) return null
      const { forced } = breaker
      const free = forced !== null && !isInForce(forced, nowMs) ? release(breaker, null, nowMs) : breaker
      return move(free, stateInTime(free, nowMs), nowMs)
    },

    move,
    release,

    force(breaker: Breaker, forced: ForcedState, nowMs: number): void {
      setForced(breaker.name, forced)
      const { actor, reason, status, untilMs } = forced
      tell(breaker, 'forced', { actor, reason, status, untilMs }, nowMs)
    },

    windowOf({ name, policy }: Breaker, nowMs: number): CallCount {
      return sumWindow(bucketsOf(calls.iterate(name) as Iterable<BreakerRow>), policy, nowMs)
    },

    forgetCallsOutside: (name: string, fromMs: number, toMs: number): void => void forgetCalls.run(name, fromMs, toMs),

    /**
     * Attempts of the guarded types, whoever has them; not those of workers that are gone. `claimedSinceMs`: a call
     * that hangs since before the breaker opened must not take the place of one that could close it.
     */
    underWay(name: string, nowMs: number, claimedSinceMs = 0): number {
      return (underWay.get(name, nowMs, claimedSinceMs) as { count: number }).count
    },
  }
}

function* bucketsOf(rows: Iterable<BreakerRow>): Generator<CallBucket> {
  for (const row of rows) yield callsFromRow(row)
}
