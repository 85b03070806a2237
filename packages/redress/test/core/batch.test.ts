import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type BatchCounts,
  type BatchStanding,
  countsOfMove,
  isReopenedByRetry,
  isTaking,
  NO_COUNTS,
  OUTCOMES,
  rollUp,
  stateAt,
  statesEntered,
} from '../../src/core/batch.ts'
import type { Status } from '../../src/core/job/states.ts'
import { ROLLUPS } from '../../src/core/policy/flow.ts'

interface Move {
  from: Status | null
  to: Status
  isPermanent: boolean
}

const isUnfinished = (status: Status) => status === 'queued' || status === 'processing'

const add = (counts: BatchCounts, { from, to, isPermanent }: Move): BatchCounts => {
  const more = countsOfMove(from, to, isPermanent)
  const fields = Object.keys(NO_COUNTS) as (keyof BatchCounts)[]
  return Object.fromEntries(fields.map((field) => [field, counts[field] + more[field]])) as unknown as BatchCounts
}

/** The life of one job: it enters, and then ends, perhaps after failing and being retried by a person. */
const life: fc.Arbitrary<Move[]> = fc
  .record({
    enters: fc.constantFrom<Status>('queued', 'failed'),
    retries: fc.array(fc.record({ isPermanent: fc.boolean() }), { maxLength: 3 }),
    ends: fc.constantFrom<Status>('complete', 'failed', 'cancelled', 'processing'),
    isPermanent: fc.boolean(),
  })
  .map(({ enters, retries, ends, isPermanent }) => {
    const moves: Move[] = [{ from: null, to: enters, isPermanent: true }]
    if (enters === 'failed') moves.push({ from: 'failed', to: 'queued', isPermanent: true })
    for (const failed of retries) {
      moves.push({ from: 'processing', to: 'failed', ...failed }, { from: 'failed', to: 'queued', ...failed })
    }
    return [...moves, { from: 'processing', to: ends, isPermanent }]
  })

const lives = fc.array(life, { maxLength: 8 })
const rollup = fc.constantFrom(...ROLLUPS)

/** The moves of all, in an order in which each job's own come one after the other. */
function mixed(all: readonly Move[][], order: readonly number[]): Move[] {
  const left = all.map((moves) => [...moves])
  const result: Move[] = []
  for (let i = 0; left.some((moves) => moves.length > 0); i++) {
    const open = left.filter((moves) => moves.length > 0)
    const chosen = open[(order[i % order.length] ?? 0) % open.length]
    result.push(chosen?.shift() as Move)
  }
  return result
}

const order = fc.array(fc.nat({ max: 20 }), { minLength: 1, maxLength: 30 })

describe('the counts', () => {
  test('always sum, and are never negative, whatever happens in whatever order', () => {
    fc.assert(
      fc.property(lives, order, (all, byOrder) => {
        let counts: BatchCounts = NO_COUNTS
        for (const move of mixed(all, byOrder)) {
          counts = add(counts, move)
          const { total, unfinished, complete, failed, permanent, cancelled } = counts
          expect(unfinished + complete + failed + cancelled).toBe(total)
          expect(Math.min(unfinished, complete, failed, permanent, cancelled)).toBeGreaterThanOrEqual(0)
          expect(permanent).toBeLessThanOrEqual(failed)
        }
      }),
    )
  })

  test('come to what the jobs are, and so does the outcome, in whatever order they end', () => {
    fc.assert(
      fc.property(lives, order, order, rollup, (all, oneOrder, otherOrder, by) => {
        const one = mixed(all, oneOrder).reduce(add, NO_COUNTS)
        const other = mixed(all, otherOrder).reduce(add, NO_COUNTS)
        expect(one).toEqual(other)
        const last = all.map((moves) => moves.at(-1) as Move)
        const of = (is: (move: Move) => boolean) => last.filter(is).length
        expect(one).toEqual({
          total: all.length,
          unfinished: of(({ to }) => isUnfinished(to)),
          complete: of(({ to }) => to === 'complete'),
          failed: of(({ to }) => to === 'failed'),
          permanent: of(({ to, isPermanent }) => to === 'failed' && isPermanent),
          cancelled: of(({ to }) => to === 'cancelled'),
        })
        expect(rollUp(one, by)).toBe(rollUp(other, by))
      }),
    )
  })
})

const sum = (parts: Partial<BatchCounts>): BatchCounts => {
  const { unfinished = 0, complete = 0, failed = 0, cancelled = 0, permanent = 0 } = parts
  return { total: unfinished + complete + failed + cancelled, unfinished, complete, failed, permanent, cancelled }
}

describe('the roll-up', () => {
  test.each([
    ['nothing at all', {}, 'complete', 'complete', 'complete'],
    ['all complete', { complete: 3 }, 'complete', 'complete', 'complete'],
    ['none complete, some failed', { failed: 1, cancelled: 2 }, 'failed', 'failed', 'failed'],
    ['none complete, none failed', { cancelled: 2 }, 'cancelled', 'cancelled', 'cancelled'],
    ['some failed', { complete: 1, failed: 2 }, 'partial', 'failed', 'partial'],
    ['one of them for good', { complete: 1, failed: 2, permanent: 1 }, 'partial', 'failed', 'failed'],
    ['some cancelled', { complete: 1, cancelled: 1 }, 'partial', 'failed', 'partial'],
  ] as const)('%s', (_, parts, partial, allOrNothing, anyPermanent) => {
    expect(rollUp(sum(parts), 'partial')).toBe(partial)
    expect(rollUp(sum(parts), 'all-or-nothing')).toBe(allOrNothing)
    expect(rollUp(sum(parts), 'any-permanent')).toBe(anyPermanent)
  })
})

describe('the states', () => {
  const EXPIRY_MS = 1_000
  const standing = (parts: Partial<BatchStanding>): BatchStanding => ({
    ...sum(parts),
    state: 'open',
    isSealed: true,
    rollup: 'partial',
    expiresAtMs: null,
    ...parts,
  })

  test('nothing is settled while a job is unfinished or more may come', () => {
    expect(statesEntered(standing({ unfinished: 1, complete: 5 }), 0)).toEqual([])
    expect(statesEntered(standing({ complete: 5, isSealed: false }), 0)).toEqual([])
    expect(statesEntered(standing({ complete: 5 }), 0)).toEqual(['complete'])
  })

  test('an open batch past its expiry settles and then expires, sealed or not; with a job unfinished it waits', () => {
    for (const isSealed of [true, false]) {
      const batch = standing({ failed: 1, isSealed, expiresAtMs: EXPIRY_MS })
      expect(statesEntered(batch, EXPIRY_MS)).toEqual(['failed', 'expired'])
      expect(isTaking(batch, EXPIRY_MS)).toBe(false)
      const unfinished = standing({ unfinished: 1, isSealed, expiresAtMs: EXPIRY_MS })
      expect(statesEntered(unfinished, EXPIRY_MS)).toEqual([])
      expect(stateAt(unfinished, EXPIRY_MS)).toBe('open')
    }
  })

  test('a settled batch expires at its time, and not a moment before', () => {
    for (const state of OUTCOMES) {
      const batch = standing({ state, expiresAtMs: EXPIRY_MS })
      expect([statesEntered(batch, EXPIRY_MS - 1), stateAt(batch, EXPIRY_MS - 1)]).toEqual([[], state])
      expect([statesEntered(batch, EXPIRY_MS), stateAt(batch, EXPIRY_MS)]).toEqual([['expired'], 'expired'])
      expect(isReopenedByRetry(batch)).toBe(true)
    }
  })

  test('what has expired stays so, whatever its jobs do', () => {
    for (const counts of [{ unfinished: 1 }, { complete: 1 }, { failed: 2 }]) {
      const batch = standing({ ...counts, state: 'expired', expiresAtMs: EXPIRY_MS })
      expect(statesEntered(batch, 2 * EXPIRY_MS)).toEqual([])
      expect(isReopenedByRetry(batch)).toBe(false)
      expect(isTaking(batch, 0)).toBe(false)
    }
  })

  test('only an open, unsealed batch takes jobs', () => {
    expect(isTaking(standing({ isSealed: false }), 0)).toBe(true)
    expect(isTaking(standing({ isSealed: true, unfinished: 1 }), 0)).toBe(false)
  })
})
