import fc from 'fast-check'

/**
 * What can happen to a store, as data. Numbers called `pick` choose among what is there when the step is taken
 * (modulo how much there is), so that any list of steps makes sense and can be shortened.
 */
export type Step =
  | {
      do: 'submit'
      type: number
      key: number | null
      scope: 'live' | 'always'
      delayMs: number
      priority: number
      repeats: number | null
    }
  | { do: 'claim'; worker: number; lanes: number; max: number; starts: boolean }
  | { do: 'start' | 'renew'; pick: number }
  | { do: 'close'; pick: number; outcome: Outcome }
  | { do: 'crash'; worker: number }
  | { do: 'zombie'; pick: number; write: 'start' | 'renew' | 'close'; outcome: Outcome }
  | { do: 'look' | 'reclaim' | 'maintain' }
  | { do: 'glance'; pick: number }
  | { do: 'intervene'; act: Act; pick: number; isFresh: boolean }
  | { do: 'delete'; pick: number; isFresh: boolean; isForced: boolean }
  | { do: 'advance'; ms: number }
  | { do: 'jump'; ms: number }
  | { do: 'prune'; keepMs: number }

const OUTCOMES = ['complete', 'transient', 'never', 'snooze', 'release', 'cancelled'] as const
export type Outcome = (typeof OUTCOMES)[number]

const pick = fc.nat(1_000)
const worker = fc.nat(2)
const outcome = fc.constantFrom<Outcome>('complete', 'complete', 'transient', 'transient', ...OUTCOMES)
const zombieWrite = fc.constantFrom('start', 'renew', 'close')
const WAITING_ACTS = ['postpone', 'promote', 'reprioritise', 'replace-input'] as const
export type Act = 'retry' | 'mark-failed' | 'cancel' | (typeof WAITING_ACTS)[number]
const act = fc.constantFrom<Act>('retry', 'retry', 'retry', 'mark-failed', 'cancel', ...WAITING_ACTS)
const timeMs = fc.constantFrom(1, 999, 5_000, 10_001, 30_000, 30_000, 61_000)
/** A clock that went back an hour holds everything up for an hour: seldom. */
const jumpMs = fc.constantFrom(-10_000, -10_000, -60_000, 10_000, 60_000, 3_600_000, -3_600_000)

const submit = fc.record({
  do: fc.constant('submit'),
  type: fc.nat(1_000),
  key: fc.option(fc.nat(1), { nil: null, freq: 2 }),
  scope: fc.constantFrom('live', 'live', 'always'),
  delayMs: fc.constantFrom(0, 0, 0, 1_000, 20_000),
  priority: fc.constantFrom(0, 0, 1, -1),
  repeats: fc.oneof({ weight: 6, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: pick }),
})
const claim = fc.record({
  do: fc.constant('claim'),
  worker,
  lanes: fc.oneof({ weight: 3, arbitrary: fc.constant(31) }, { weight: 1, arbitrary: fc.nat(31) }),
  max: fc.integer({ min: 0, max: 3 }),
  starts: fc.boolean(),
})

const WEIGHTED: [weight: number, step: fc.Arbitrary<unknown>][] = [
  [8, submit],
  [10, claim],
  [7, fc.record({ do: fc.constantFrom('start', 'start', 'renew'), pick })],
  [10, fc.record({ do: fc.constant('close'), pick, outcome })],
  [5, fc.record({ do: fc.constant('crash'), worker })],
  [4, fc.record({ do: fc.constant('zombie'), pick, write: zombieWrite, outcome })],
  [6, fc.record({ do: fc.constantFrom('maintain', 'maintain', 'look', 'reclaim') })],
  [1, fc.record({ do: fc.constant('glance'), pick })],
  [8, fc.record({ do: fc.constant('intervene'), act, pick, isFresh: fc.boolean() })],
  [0.8, fc.record({ do: fc.constant('delete'), pick, isFresh: fc.boolean(), isForced: fc.boolean() })],
  [6, fc.record({ do: fc.constant('advance'), ms: timeMs })],
  [0.3, fc.record({ do: fc.constant('jump'), ms: jumpMs })],
  [0.8, fc.record({ do: fc.constant('prune'), keepMs: fc.constantFrom(0, 0, 20_000) })],
]

// Small numbers are no more interesting here than large ones.
export const anyStep = fc.noBias(
  fc.oneof(...WEIGHTED.map(([weight, arbitrary]) => ({ weight: weight * 10, arbitrary }))),
) as fc.Arbitrary<Step>
