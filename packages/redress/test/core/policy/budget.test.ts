import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  addTries,
  failuresOf,
  NOTHING_SPENT,
  packSpent,
  type Spent,
  spendFailure,
  spendManualRetry,
  spendReclaim,
  spendRelease,
  spendSnooze,
  triesOfTask,
  unpackSpent,
} from '../../../src/core/policy/budget.ts'
import { anyCode } from './arbitrary-policy.ts'

const anyStep: fc.Arbitrary<(spent: Spent) => Spent> = fc.oneof(
  anyCode.map((code) => (spent: Spent) => spendFailure(spent, code)),
  fc.constantFrom(spendReclaim, spendRelease, spendSnooze),
  fc.tuple(fc.nat(), fc.constantFrom('reset' as const, 'keep' as const)).map(
    ([attempt, budget]) =>
      (spent: Spent) =>
        spendManualRetry(spent, attempt, budget),
  ),
)

test('a job that has spent nothing stores nothing', () => {
  expect(packSpent(NOTHING_SPENT)).toBeNull()
  expect(unpackSpent(null)).toBe(NOTHING_SPENT)
})

test('only what is spent is stored', () => {
  expect(packSpent(spendFailure(NOTHING_SPENT, 'GW_5XX'))).toBe('{"failures":1,"byCode":{"GW_5XX":1}}')
  expect(packSpent(spendRelease(NOTHING_SPENT))).toBe('{"releases":1}')
})

test('budgets survive storage whatever was spent, and failures always add up by code', () => {
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 30 }), (steps) => {
      const spent = steps.reduce((before, step) => step(before), NOTHING_SPENT)
      expect(unpackSpent(packSpent(spent))).toEqual(spent)
      expect(Object.values(spent.byCode).reduce((sum, count) => sum + count, 0)).toBe(spent.failures)
    }),
  )
})

test('lost workers, releases and snoozes are counted apart and never as failures [W40]', () => {
  const spent = spendSnooze(spendRelease(spendReclaim(NOTHING_SPENT)))
  expect(spent).toEqual({ ...NOTHING_SPENT, reclaims: 1, releases: 1, snoozes: 1 })
})

test('spending leaves the budget it began with untouched', () => {
  spendFailure(NOTHING_SPENT, 'X')
  expect(NOTHING_SPENT.failures).toBe(0)
  expect(Object.isFrozen(NOTHING_SPENT) && Object.isFrozen(NOTHING_SPENT.byCode)).toBe(true)
})

test('a manual retry with reset restores all budgets [W19 D23]', () => {
  const tired = spendReclaim(spendFailure(spendFailure(NOTHING_SPENT, 'A'), 'B'))
  expect(spendManualRetry(tired, 4, 'reset')).toEqual({ ...NOTHING_SPENT, manualRetries: 1, attemptBase: 4 })
  expect(spendManualRetry(spendManualRetry(tired, 4, 'reset'), 6, 'reset')).toMatchObject({
    manualRetries: 2,
    attemptBase: 6,
  })
})

test('a manual retry can keep the budgets [E20]', () => {
  const tired = spendFailure(NOTHING_SPENT, 'A')
  expect(spendManualRetry(tired, 1, 'keep')).toEqual({ ...tired, manualRetries: 1 })
})

test('a code named like a property of every object is counted like any other', () => {
  expect(failuresOf(NOTHING_SPENT, 'constructor')).toBe(0)
  const spent = spendFailure(spendFailure(NOTHING_SPENT, '__proto__'), '__proto__')
  expect(failuresOf(unpackSpent(packSpent(spent)), '__proto__')).toBe(2)
})

test('the tries of a task are its attempts plus the further tries within them [F15]', () => {
  const once = addTries(spendFailure(NOTHING_SPENT, 'A'), 3)
  expect(triesOfTask(1, packSpent(once))).toBe(3)
  expect(triesOfTask(2, packSpent(addTries(spendFailure(once, 'A'), 1)))).toBe(4)
  expect(triesOfTask(2, packSpent(spendManualRetry(once, 1, 'reset')))).toBe(4)
  expect(triesOfTask(2, null)).toBe(2)
})
