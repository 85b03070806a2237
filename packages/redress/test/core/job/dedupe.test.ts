import { expect, test } from 'vitest'
import { FREES_LIVE_KEY, successorDedupe, successorOutcome } from '../../../src/core/job/dedupe.ts'
import { STATUSES } from '../../../src/core/job/states.ts'

test('a live dedupe key is free after a failure or a cancellation, and after nothing else', () => {
  expect(STATUSES.filter((status) => FREES_LIVE_KEY.includes(status)).toSorted()).toEqual(['cancelled', 'failed'])
})

test('a job that is made from a failed one takes over its dedupe key, unless the input was edited', () => {
  expect(successorDedupe('order-7', false)).toEqual({ key: 'order-7', scope: 'live' })
  expect(successorDedupe('order-7', true)).toBeNull()
  expect(successorDedupe(null, false)).toBeNull()
})

test('the successor of a job that keeps its dedupe key for ever needs no key, and any other holder is a twin', () => {
  expect(successorOutcome('new', 'new', 'failed')).toBe('made')
  expect(successorOutcome('failed', 'new', 'failed')).toBe('keyless')
  expect(successorOutcome('other', 'new', 'failed')).toBe('twin')
})
