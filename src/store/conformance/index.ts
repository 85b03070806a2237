import { accounts } from './accounts.ts'
import { activity } from './activity.ts'
import { audit } from './audit.ts'
import { backlog } from './backlog.ts'
import { batchEndings } from './batch-endings.ts'
import { batches } from './batches.ts'
import { Bench, type OpenStore } from './bench.ts'
import { breakers } from './breakers.ts'
import { claiming } from './claiming.ts'
import { deadLetters } from './dead-letters.ts'
import { dedupe } from './dedupe.ts'
import { depths } from './depths.ts'
import { durability } from './durability.ts'
import { failureGroups } from './failure-groups.ts'
import { feed } from './feed.ts'
import { fencing } from './fencing.ts'
import { finality } from './finality.ts'
import { finding } from './finding.ts'
import { history } from './history.ts'
import { interventions } from './interventions.ts'
import { leases } from './leases.ts'
import { limits } from './limits.ts'
import { notices } from './notices.ts'
import { orphans } from './orphans.ts'
import type { StorePromise } from './promise.ts'
import { pruning } from './pruning.ts'
import { queues } from './queues.ts'
import { rates } from './rates.ts'
import { reading } from './reading.ts'
import { registration } from './registration.ts'
import { replays } from './replays.ts'
import { retryBudget } from './retry-budget.ts'
import { schedules } from './schedules.ts'
import { submitting } from './submitting.ts'
import { time } from './time.ts'

export { Bench, type OpenStore } from './bench.ts'
export { checkJob } from './checks.ts'
export type { StorePromise } from './promise.ts'

/** Everything a store promises. A driver that keeps these may be used wherever another one is. */
export const promises: readonly StorePromise[] = [
  ...durability,
  ...registration,
  ...submitting,
  ...dedupe,
  ...claiming,
  ...limits,
  ...rates,
  ...queues,
  ...backlog,
  ...retryBudget,
  ...breakers,
  ...leases,
  ...fencing,
  ...finality,
  ...history,
  ...orphans,
  ...notices,
  ...interventions,
  ...audit,
  ...accounts,
  ...failureGroups,
  ...time,
  ...deadLetters,
  ...replays,
  ...reading,
  ...finding,
  ...depths,
  ...activity,
  ...pruning,
  ...batches,
  ...batchEndings,
  ...schedules,
  ...feed,
]

export interface Driver {
  name: string
  open: OpenStore
  /** Promises this driver does not make, by their sentence, each with the reason. */
  skip?: readonly { test: string; reason: string }[]
}

/** Any test runner: vitest, node:test, jest, mocha. */
export interface Runner {
  test(name: string, run: () => Promise<void>): unknown
}

/** Registers every promise as a test of the given driver. */
export function conformance({ test }: Runner, driver: Driver): void {
  const reasons = reasonsToSkip(driver)
  for (const [i, promise] of promises.entries()) {
    const name = `${driver.name}: ${promise.topic}: ${promise.name}`
    const reason = reasons.get(promise.name)
    // Registered all the same, so that what is not promised can be read in every report.
    if (reason !== undefined) test(`${name} (not promised: ${reason})`, async () => undefined)
    else test(name, () => keep(promise, driver.open, `promise-${i + 1}`))
  }
}

/** Tries one promise on empty data. */
export async function keep(promise: StorePromise, open: OpenStore, place: string): Promise<void> {
  const bench = await Bench.set(open, place)
  try {
    await promise.run(bench)
  } finally {
    await bench.stop()
  }
}

function reasonsToSkip({ name, skip = [] }: Driver): Map<string, string> {
  const known = new Set(promises.map((promise) => promise.name))
  for (const { test, reason } of skip) {
    if (!known.has(test)) throw new Error(`${name} skips "${test}", which is not the sentence of any promise`)
    if (reason.trim() === '') throw new Error(`${name} skips "${test}" and does not say why`)
  }
  return new Map(skip.map(({ test, reason }) => [test, reason]))
}
