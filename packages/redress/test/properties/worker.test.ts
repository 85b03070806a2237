import fc from 'fast-check'
import { expect, test } from 'vitest'
import { seedOf } from '../../../../test/support/seed.ts'
import { did, size } from '../../../../test/support/size.ts'
import { STEPS } from '../../src/worker/attempt/steps.ts'
import type { Fault } from './faulty-store.ts'
import { DEEDS, type Happening, type PlannedJob, WorkerWorld } from './worker-world.ts'

const RUNS = size(40, 250)
const TIME_MS_MAX = 30_000
const seed = seedOf()

const pick = fc.nat(1_000)
const job: fc.Arbitrary<PlannedJob> = fc.record({
  type: pick,
  deeds: fc.array(fc.constantFrom('ok', 'slow', ...DEEDS), { minLength: 1, maxLength: 4 }),
  delayMs: fc.constantFrom(0, 0, 0, 10_000),
  priority: fc.constantFrom(0, 0, 1),
  key: fc.option(fc.nat(2), { nil: null, freq: 2 }),
})
const timeMs = fc.constantFrom(100, 1_000, 10_000, 31_000, 61_000)
const fault = fc.constantFrom<Fault>(null, null, null, 'refused', 'unknown')
const person = fc.constantFrom('cancel', 'retry', 'mark-failed')
const faults = fc.array(fault, { maxLength: 12 })
const jumpMs = fc.constantFrom(-60_000, -5_000, 40_000)

const anyHappening = fc.noBias(
  fc.oneof(
    { weight: 8, arbitrary: fc.record({ do: fc.constant('submit'), job }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('tick') }) },
    { weight: 5, arbitrary: fc.record({ do: fc.constant('advance'), ms: timeMs }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('jump'), ms: jumpMs }) },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant('crashing-worker'),
        at: fc.constantFrom(...STEPS),
        nth: fc.integer({ min: 1, max: 3 }),
      }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('another-worker', 'leaving-worker') }) },
    { weight: 3, arbitrary: fc.record({ do: person, pick }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('faults'), faults }) },
  ),
) as fc.Arbitrary<Happening>

test(`workers may die and stores may fail: every job ends, or waits for a visible reason (REDRESS_SEED=${seed})`, async () => {
  let happened = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyHappening, { minLength: 5, maxLength: 40, size: 'max' }),
      fc.nat(),
      async (happenings, kitSeed) => {
        const world = new WorkerWorld(kitSeed)
        for (const happening of happenings) await world.happen(happening)
        await world.finish()
        happened += happenings.length
      },
    ),
    { seed, numRuns: RUNS, interruptAfterTimeLimit: TIME_MS_MAX },
  )
  did({ runs: RUNS, happened })
  expect(happened).toBeGreaterThan(50)
})
