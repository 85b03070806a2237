import fc from 'fast-check'
import { expect, test } from 'vitest'
import { seedOf } from '../../../../test/support/seed.ts'
import { did, size } from '../../../../test/support/size.ts'
import { anyStep } from './steps.ts'
import { StoreWorld } from './store-world.ts'

const RUNS = size(60, 250)
const STEPS_MIN = 20
const STEPS_MAX = 120
const TIME_MS_MAX = 30_000
const seed = seedOf()

test(`whatever happens in whatever order, the store keeps its promises (REDRESS_SEED=${seed})`, async () => {
  let taken = 0
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { minLength: STEPS_MIN, maxLength: STEPS_MAX, size: 'max' }), async (steps) => {
      const world = await StoreWorld.open()
      for (const step of steps) await world.take(step)
      await world.finish()
      taken += steps.length
    }),
    { seed, numRuns: RUNS, interruptAfterTimeLimit: TIME_MS_MAX },
  )
  did({ runs: RUNS, taken })
  // A machine so slow that nothing was tried must not count as success.
  expect(taken).toBeGreaterThan(500)
})
