import { claiming } from './attempts/claiming.ts'
import { durability } from './attempts/durability.ts'
import { fencing } from './attempts/fencing.ts'
import { finality } from './attempts/finality.ts'
import { leases } from './attempts/leases.ts'
import { orphans } from './attempts/orphans.ts'
import { reports } from './attempts/reports.ts'
import { time } from './attempts/time.ts'
import { batchEndings } from './batches/batch-endings.ts'
import { batches } from './batches/batches.ts'
import { schedules } from './batches/schedules.ts'
import { Bench, type OpenStore } from './bench/bench.ts'
import { deadLetters } from './failures/dead-letters.ts'
import { failureGroups } from './failures/failure-groups.ts'
import { notices } from './failures/notices.ts'
import { replays } from './failures/replays.ts'
import { backlog } from './jobs/backlog.ts'
import { changing } from './jobs/changing.ts'
import { dedupe } from './jobs/dedupe.ts'
import { deleting } from './jobs/deleting.ts'
import { expiring } from './jobs/expiring.ts'
import { finding } from './jobs/finding.ts'
import { history } from './jobs/history.ts'
import { interventions } from './jobs/interventions.ts'
import { merging } from './jobs/merging.ts'
import { pruning } from './jobs/pruning.ts'
import { reading } from './jobs/reading.ts'
import { registration } from './jobs/registration.ts'
import { submitting } from './jobs/submitting.ts'
import { breakers } from './limits/breakers.ts'
import { depths } from './limits/depths.ts'
import { limits } from './limits/limits.ts'
import { queues } from './limits/queues.ts'
import { rates } from './limits/rates.ts'
import { retryBudget } from './limits/retry-budget.ts'
import { singletons } from './limits/singletons.ts'
import type { StorePromise } from './promise.ts'
import { accounts } from './records/accounts.ts'
import { activity } from './records/activity.ts'
import { audit } from './records/audit.ts'
import { feed } from './records/feed.ts'

export { Bench, type OpenStore } from './bench/bench.ts'
export { checkJob } from './bench/checks.ts'
export type { StorePromise } from './promise.ts'

/** Everything a store promises. A driver that keeps these may be used wherever another one is. */
export const promises: readonly StorePromise[] = [
  ...durability,
  ...registration,
  ...submitting,
  ...dedupe,
  ...merging,
  ...expiring,
  ...claiming,
  ...limits,
  ...singletons,
  ...rates,
  ...queues,
  ...backlog,
  ...retryBudget,
  ...breakers,
  ...leases,
  ...fencing,
  ...finality,
  ...reports,
  ...history,
  ...orphans,
  ...notices,
  ...interventions,
  ...changing,
  ...deleting,
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

/** A store driver that the conformance suite runs against. */
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
