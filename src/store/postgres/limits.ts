import type { RatePolicy } from '../../core/policy-flow.ts'
import { affordable, affordableAtMs, creditsAt, type Meter } from '../../core/rate.ts'
import type { KnownType } from '../known-type.ts'
import { LimitPermit } from '../permits.ts'
import type { Tx } from './client.ts'
import type { ClaimLimiter, Limiter, MutableGate } from './gates.ts'
import { openLimitKeys } from './limit-keys.ts'
import { type Meters, rateMeter } from './meters.ts'

/** `policy.concurrency` and `policy.rate`. Counted in the claim's own transaction, so over all processes. */
export function openLimits(meters: Meters): Limiter {
  const limitKeys = openLimitKeys()

  return {
    // One claim of a type counts and takes at a time. What ends meanwhile only makes room.
    locksOf: ({ name, policy: { concurrency, rate } }) =>
      concurrency.max === null && concurrency.perKey === null && rate === null ? [] : [`limits:${name}`],

    begin: (tx, nowMs) => beginClaim(tx, nowMs, meters, limitKeys),

    /** Only what time alone can open: that a slot becomes free, the end of a job tells. */
    async isShut(sql, { name, policy: { rate } }, nowMs) {
      if (rate?.scope !== 'type') return null
      const meter = await meters.get(sql, rateMeter(name, null))
      // After a clock that was set back, only a claim can put the bucket right.
      if (meter !== null && meter.atMs > nowMs) return null
      const credits = creditsAt(meter, rate, nowMs)
      return affordable(credits, rate) >= 1 ? null : { left: 0, opensAtMs: affordableAtMs(credits, rate, nowMs) }
    },
  }
}

function beginClaim(tx: Tx, nowMs: number, meters: Meters, limitKeys: ReturnType<typeof openLimitKeys>): ClaimLimiter {
  const given: LimitPermit[] = []
  /** Meters that were written at a time to come: the clock was set back. Counted from now on, or nothing would flow in. */
  const setBack = new Map<string, Meter>()

  const permit = (slots: number, policy: RatePolicy | null, name: string, before: Meter | null): LimitPermit => {
    if (before !== null && before.atMs > nowMs) setBack.set(name, { ...before, atMs: nowMs })
    const rate = policy === null ? null : { policy, meter: name, credits: creditsAt(before, policy, nowMs), nowMs }
    const made = new LimitPermit(slots, rate)
    given.push(made)
    return made
  }

  const putClockRight = async (): Promise<void> => {
    await meters.setMany(tx, setBack)
    setBack.clear()
  }

  const limitKeysOf = (type: KnownType, gate: MutableGate, perKey: number | null, rate: RatePolicy | null): void => {
    const permits = new Map<string, LimitPermit>()
    const permitOfKey = (limitKey: string): LimitPermit => permits.get(limitKey) as LimitPermit
    const load = async (wanted: readonly string[]): Promise<void> => {
      const fresh = [...new Set(wanted)].filter((limitKey) => !permits.has(limitKey))
      if (fresh.length === 0) return
      const meterOf = (limitKey: string): string => rateMeter(type.name, limitKey)
      const [underWay, read] = await Promise.all([
        perKey === null ? null : countByKey(tx, type.key, fresh),
        rate === null ? null : meters.getMany(tx, fresh.map(meterOf)),
      ])
      for (const limitKey of fresh) {
        const slots = perKey === null ? Number.POSITIVE_INFINITY : perKey - (underWay?.get(limitKey) ?? 0)
        permits.set(limitKey, permit(slots, rate, meterOf(limitKey), read?.get(meterOf(limitKey)) ?? null))
      }
      await putClockRight()
    }
    gate.permitOfKey = permitOfKey
    gate.candidates = (max) => limitKeys.candidates(tx, type.key, max, { load, of: permitOfKey })
    gate.keysOpenAtMs = () => {
      const opening = [...permits.values()].flatMap(({ left, opensAtMs }) => (left < 1 ? (opensAtMs ?? []) : []))
      return opening.length === 0 ? null : Math.min(...opening)
    }
  }

  return {
    async limit(type, gate) {
      const { concurrency, rate } = type.policy
      const rateOfType = rate?.scope === 'type' ? rate : null
      const name = rateMeter(type.name, null)
      const [underWay, meter] = await Promise.all([
        concurrency.max === null ? 0 : countUnderWay(tx, type.key, concurrency.max),
        rateOfType === null ? null : meters.get(tx, name),
      ])
      if (concurrency.max !== null) gate.permits.push(permit(concurrency.max - underWay, null, '', null))
      if (rateOfType !== null) gate.permits.push(permit(Number.POSITIVE_INFINITY, rateOfType, name, meter))
      await putClockRight()
      const rateOfKey = rate?.scope === 'key' ? rate : null
      if (concurrency.perKey !== null || rateOfKey !== null) limitKeysOf(type, gate, concurrency.perKey, rateOfKey)
    },

    async settle() {
      const settled = given.flatMap((one) => one.settled ?? [])
      await meters.setMany(tx, new Map(settled.map(({ name, meter }) => [name, meter])))
    },
  }
}

/** No further than to what is allowed: more of them change nothing. */
async function countUnderWay(tx: Tx, type: number, max: number): Promise<number> {
  const [row] = await tx<{ n: number }[]>`
    SELECT count(*) AS n FROM (
      SELECT 1 FROM jobs WHERE type = ${type} AND limit_key IS NOT NULL AND lease_until IS NOT NULL LIMIT ${max}
    ) AS under_way`
  return row?.n ?? 0
}

async function countByKey(tx: Tx, type: number, limitKeys: readonly string[]): Promise<Map<string, number>> {
  const rows = await tx<{ limit_key: string; n: number }[]>`
    SELECT given.limit_key, under_way.n FROM unnest(${limitKeys}::text[]) AS given (limit_key) CROSS JOIN LATERAL (
      SELECT count(*) AS n FROM jobs
      WHERE type = ${type} AND limit_key IS NOT NULL AND lease_until IS NOT NULL AND limit_key = given.limit_key
    ) AS under_way WHERE under_way.n > 0`
  return new Map(rows.map(({ limit_key, n }) => [limit_key, n]))
}
