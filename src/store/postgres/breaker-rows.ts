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
import type { Sql, Tx } from './client.ts'
import type { PgContext } from './context.ts'
import { printable } from './text.ts'

/** What all hold who change a breaker, or count the calls it allows and take from them. */
export const breakerLock = (name: string): string => `breaker ${name}`

export type BreakerRows = ReturnType<typeof openBreakerRows>

/**
 * The rows of the breakers. Whatever changes one goes through `move`, which tells the history of it, and holds the
 * breaker's lock. The time that is compared with a row is always read after the row: another process may have changed
 * it a moment ago, and what seems to be of a time to come looks like a clock that was set back.
 */
export function openBreakerRows({ history }: Pick<PgContext, 'history'>) {
  const fromRow = breakerReader()

  const tell = (
    tx: Tx,
    { name }: Breaker,
    kind: SubjectEvents['breaker'][number],
    data: BreakerEvent['data'],
    nowMs: number,
  ): Promise<void> => history.subjectEvent(tx, `breaker:${name}`, nowMs, kind, data)

  /** Writes another computed state, with its event where the status is another. Answers with the breaker then. */
  const move = async (tx: Tx, breaker: Breaker, state: BreakerState, nowMs: number): Promise<Breaker> => {
    if (state === breaker.state) return breaker
    const { name } = breaker
    const isChange = state.status !== breaker.state.status
    const epoch = isChange ? breaker.epoch + 1 : breaker.epoch
    await tx`
      UPDATE breakers SET epoch = ${epoch}, status = ${state.status}, since = ${state.sinceMs},
        tries_at = ${state.triesAtMs}, passed = ${state.passed}, reason = ${printable(state.reason)}
      WHERE name = ${name}`
    if (isChange) {
      const calls = await tx<BreakerRow[]>`
        SELECT at, succeeded, failed FROM breaker_calls WHERE breaker = ${name} ORDER BY at DESC LIMIT ${CALLS_TOLD}`
      // What opened it must not open it again after it closed.
      await tx`DELETE FROM breaker_calls WHERE breaker = ${name}`
      await tell(tx, breaker, BREAKER_EVENT_OF[state.status], changeTold(state, calls.map(callsFromRow)), nowMs)
    }
    return { ...breaker, epoch, state }
  }

  const setForced = async (tx: Tx, name: string, forced: ForcedState | null): Promise<void> => {
    await tx`
      UPDATE breakers SET forced_status = ${forced?.status ?? null}, forced_by = ${forced?.actor ?? null},
        forced_reason = ${forced === null ? null : printable(forced.reason)}, forced_at = ${forced?.atMs ?? null},
        forced_until = ${forced?.untilMs ?? null}
      WHERE name = ${name}`
  }

  /** Ends what was forced; `by` is null where its time was over. */
  const release = async (
    tx: Tx,
    breaker: Breaker,
    by: { actor: string; reason: string } | null,
    nowMs: number,
  ): Promise<Breaker> => {
    const { forced } = breaker
    if (forced === null) return breaker
    await setForced(tx, breaker.name, null)
    const free = await move(tx, { ...breaker, forced: null }, afterForcing(breaker.state, forced, nowMs), nowMs)
    const why = by ?? { reason: 'the time it was forced for is over' }
    await tell(tx, breaker, 'released', { ...why, status: free.state.status }, nowMs)
    return free
  }

  const rowsOf = (sql: Sql, names: readonly string[]) =>
    sql<BreakerRow[]>`SELECT * FROM breakers WHERE name = ANY(${[...names]}::text[]) ORDER BY name COLLATE "C"`

  const asOf = (row: BreakerRow, nowMs: number): Breaker => breakerAsOf(fromRow(row, nowMs), nowMs)

  return {
    /** As they stand; nothing is written. */
    async peek(sql: Sql, names: readonly string[], nowMs: () => Promise<number>) {
      const rows = await rowsOf(sql, names)
      const atMs = await nowMs()
      return { nowMs: atMs, breakers: rows.map((row) => asOf(row, atMs)) }
    },

    async peekAll(sql: Sql, nowMs: () => Promise<number>) {
      const rows = await sql<BreakerRow[]>`SELECT * FROM breakers ORDER BY name COLLATE "C"`
      const atMs = await nowMs()
      return { nowMs: atMs, breakers: rows.map((row) => asOf(row, atMs)) }
    },

    /** As it was last written. */
    async written(sql: Sql, name: string, nowMs: number): Promise<Breaker | null> {
      const [row] = await rowsOf(sql, [name])
      return row === undefined ? null : fromRow(row, nowMs)
    },

    async declare(tx: Tx, policy: BreakerPolicy, nowMs: number): Promise<void> {
      const { status, sinceMs, passed, reason } = closedFromTheStart(nowMs)
      await tx`
        INSERT INTO breakers (name, policy, epoch, status, since, passed, reason)
        VALUES (${policy.guards}, ${JSON.stringify(policy)}, 1, ${status}, ${sinceMs}, ${passed}, ${reason})
        ON CONFLICT (name) DO UPDATE SET policy = excluded.policy WHERE breakers.policy <> excluded.policy`
    },

    /** As it stands now, and what time alone has changed is written. Only with its lock held, and a time read since. */
    async current(tx: Tx, name: string, nowMs: number): Promise<Breaker | null> {
      const [row] = await rowsOf(tx, [name])
      if (row === undefined) return null
      const breaker = fromRow(row, nowMs)
      const { forced } = breaker
      const free = forced !== null && !isInForce(forced, nowMs) ? await release(tx, breaker, null, nowMs) : breaker
      return move(tx, free, stateInTime(free, nowMs), nowMs)
    },

    move,
    release,

    async force(tx: Tx, breaker: Breaker, forced: ForcedState, nowMs: number): Promise<void> {
      await setForced(tx, breaker.name, forced)
      const { actor, reason, status, untilMs } = forced
      await tell(tx, breaker, 'forced', { actor, reason, status, untilMs }, nowMs)
    },

    async windowOf(sql: Sql, { name, policy }: Breaker, nowMs: number): Promise<CallCount> {
      const calls = await sql<BreakerRow[]>`
        SELECT at, succeeded, failed FROM breaker_calls WHERE breaker = ${name} ORDER BY at DESC`
      return sumWindow(calls.map(callsFromRow), policy, nowMs)
    },

    /** What ended in which second. */
    async addCalls(tx: Tx, name: string, calls: readonly CallBucket[]): Promise<void> {
      if (calls.length === 0) return
      await tx`
        INSERT INTO breaker_calls (breaker, at, succeeded, failed)
        SELECT ${name}, at, sum(succeeded), sum(failed)
        FROM unnest(${calls.map(({ atMs }) => atMs)}::bigint[], ${calls.map(({ succeeded }) => succeeded)}::bigint[],
          ${calls.map(({ failed }) => failed)}::bigint[]) AS one (at, succeeded, failed)
        GROUP BY at
        ON CONFLICT (breaker, at) DO UPDATE SET succeeded = breaker_calls.succeeded + excluded.succeeded,
          failed = breaker_calls.failed + excluded.failed`
    },

    async forgetCallsOutside(tx: Tx, name: string, fromMs: number, toMs: number): Promise<void> {
      await tx`DELETE FROM breaker_calls WHERE breaker = ${name} AND (at < ${fromMs} OR at > ${toMs})`
    },

    /**
     * Attempts of the guarded types, whoever has them; not those of workers that are gone. `claimedSinceMs`: a call
     * that hangs since before the breaker opened must not take the place of one that could close it.
     */
    async underWay(sql: Sql, name: string, nowMs: number, claimedSinceMs = 0): Promise<number> {
      // At once after another type was declared: all types' jobs count.
      const [row] = await sql<{ count: number }[]>`
        SELECT count(*) AS count FROM jobs
        WHERE type IN (SELECT key FROM job_types WHERE policy::json -> 'breaker' ->> 'guards' = ${name})
          AND limit_key IS NOT NULL AND lease_until IS NOT NULL AND lease_until > ${nowMs} AND claimed_at >= ${claimedSinceMs}`
      return (row as { count: number }).count
    },
  }
}
