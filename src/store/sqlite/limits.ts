import type { RatePolicy } from '../../core/policy-flow.ts'
import { affordable, affordableAtMs, creditsAt } from '../../core/rate.ts'
import { LimitPermit } from '../permits.ts'
import type { Connection } from './connection.ts'
import type { Limiter } from './gates.ts'
import { openLimitKeys } from './limit-keys.ts'
import { type Meters, rateMeter } from './meters.ts'

/** In the words of the index: of a type that is limited, every job under way is in it. */
const UNDER_WAY = 'limit_key IS NOT NULL AND lease_until IS NOT NULL'

/** Exported so that a test can ask SQLite how it finds these rows. */
export const LIMIT_SQL = {
  underWay: `SELECT count(*) AS n FROM (SELECT 1 FROM jobs WHERE type = ?1 AND ${UNDER_WAY} LIMIT ?2)`,
  underWayByKey: `SELECT limit_key, count(*) AS n FROM jobs WHERE type = ?1 AND ${UNDER_WAY} GROUP BY limit_key`,
}

/** `policy.concurrency` and `policy.rate`. Counted in the claim's own transaction, so over all processes. */
export function openLimits(connection: Connection, meters: Meters): Limiter {
  const countUnderWay = connection.prepare(LIMIT_SQL.underWay)
  const countByKey = connection.prepare(LIMIT_SQL.underWayByKey)
  const limitKeys = openLimitKeys(connection)
  let given: LimitPermit[] = []

  const permit = (slots: number, policy: RatePolicy | null, meter: string, nowMs: number): LimitPermit => {
    const made = new LimitPermit(
      slots,
      policy === null ? null : { policy, meter, credits: creditsIn(meter, policy, nowMs), nowMs },
    )
    given.push(made)
    return made
  }

  const creditsIn = (meter: string, policy: RatePolicy, nowMs: number): number => {
    const before = meters.get(meter)
    // The clock was set back. Counted from now on, or nothing would flow in until it has caught up.
    if (before !== null && before.atMs > nowMs) meters.set(meter, { ...before, atMs: nowMs })
    return creditsAt(before, policy, nowMs)
  }

  return {
    begin() {
      given = []
    },

    limit({ key: type, name, policy }, gate, nowMs) {
      const { concurrency, rate } = policy
      if (concurrency.max !== null) {
        const { n } = countUnderWay.get(type, concurrency.max) as { n: number }
        gate.permits.push(permit(concurrency.max - n, null, '', nowMs))
      }
      if (rate?.scope === 'type') {
        gate.permits.push(permit(Number.POSITIVE_INFINITY, rate, rateMeter(name, null), nowMs))
      }
      const rateOfKey = rate?.scope === 'key' ? rate : null
      if (concurrency.perKey === null && rateOfKey === null) return

      let underWay: Map<string, number> | null = null
      const slotsOf = (limitKey: string): number => {
        if (concurrency.perKey === null) return Number.POSITIVE_INFINITY
        underWay ??= new Map(
          (countByKey.all(type) as { limit_key: string; n: number }[]).map((row) => [row.limit_key, row.n]),
        )
        return concurrency.perKey - (underWay.get(limitKey) ?? 0)
      }
      const permits = new Map<string, LimitPermit>()
      const permitOfKey = (limitKey: string): LimitPermit => {
        let found = permits.get(limitKey)
        if (found === undefined) {
          found = permit(slotsOf(limitKey), rateOfKey, rateMeter(name, limitKey), nowMs)
          permits.set(limitKey, found)
        }
        return found
      }
      gate.permitOfKey = permitOfKey
      gate.candidates = (max) => limitKeys.candidates(type, max, permitOfKey)
      gate.keysOpenAtMs = () => {
        const opening = [...permits.values()].flatMap(({ left, opensAtMs }) => (left < 1 ? (opensAtMs ?? []) : []))
        return opening.length === 0 ? null : Math.min(...opening)
      }
    },

    /**
     * Only what time alone can open. A slot may become free in the very transaction that the claim will share, with the
     * end of a job that is on its way to the store.
     */
    isShut({ name, policy: { rate } }, nowMs) {
      if (rate?.scope !== 'type') return null
      const meter = meters.get(rateMeter(name, null))
      // After a clock that was set back, only a claim can put the bucket right.
      if (meter !== null && meter.atMs > nowMs) return null
      const credits = creditsAt(meter, rate, nowMs)
      return affordable(credits, rate) >= 1 ? null : { left: 0, opensAtMs: affordableAtMs(credits, rate, nowMs) }
    },

    settle() {
      for (const { settled } of given) if (settled !== null) meters.set(settled.name, settled.meter)
      given = []
    },
  }
}
