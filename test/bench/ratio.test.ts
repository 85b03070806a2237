import { expect, test } from 'vitest'
import { sampleIn } from '../../bench/peers/compare.ts'
import { quantile } from '../../bench/peers/results.ts'
import { type Place, postgresPlace, sqlitePlace } from '../../bench/places.ts'
import type { Cost } from '../../bench/processor-time.ts'
import { did, IS_LONG, size } from '../support/size.ts'
import { startPostgres } from '../support/stores/postgres.ts'
import { temporaryFolder } from '../support/stores/sqlite.ts'

const [JOBS, ROUNDS] = [size(300, 50_000), size(1, 3)]

/**
 * The most processor time per job that Redress may take, as a multiple of bare SQL that makes the same transitions. Measured
 * were 1.6, 2.5, 2.3 and 3.3. The bounds are at least 1.3 times that, because processor time per job varies by about 10 %.
 */
const MOST: Readonly<Record<string, number>> = {
  'postgres-drain-10': 2.3,
  'postgres-fail-once-10': 3.3,
  'sqlite-drain-10': 3.2,
  'sqlite-fail-once-10': 4.8,
}
/** Each store and each path once in the small form. */
const CASES = size(['postgres-fail-once-10', 'sqlite-drain-10'], Object.keys(MOST))

const totalUs = ({ nodeUs, serverUs }: Cost): number => nodeUs + (serverUs ?? 0)

test('a job costs Redress at most a few times the processor time of bare SQL', { timeout: 600_000 }, async () => {
  const folder = temporaryFolder()
  // Other tests use the server of the run, so its processor time says nothing: the full form has a server of its own.
  const postgres = await postgresPlace(folder, IS_LONG ? null : (await startPostgres()).url)
  const placeOf = (id: string): Place => (id.startsWith('sqlite') ? sqlitePlace(folder) : postgres)
  try {
    const ratios = new Map<string, number>()
    const measure = async (id: string): Promise<void> => {
      const found: number[] = []
      for (let round = 0; round < ROUNDS; round++) {
        const [ours, floor] = [await costOf(placeOf(id), id, 'redress'), await costOf(placeOf(id), id, 'floor')]
        found.push(totalUs(ours) / totalUs(floor))
      }
      ratios.set(id, quantile(found, 0.5))
    }
    if (IS_LONG) for (const id of CASES) await measure(id)
    else await Promise.all(CASES.map(measure))
    did({ jobs: JOBS, ratios: Object.fromEntries(ratios) })
    expect([...ratios.keys()].toSorted()).toEqual(CASES.toSorted())
    for (const [id, ratio] of ratios) {
      expect(ratio, id).toBeGreaterThan(0)
      // A few hundred jobs measure the start of the program.
      if (IS_LONG) expect(ratio, id).toBeLessThan(MOST[id] as number)
    }
  } finally {
    await postgres.stop()
  }
})

/** Figures that any working measurement has. */
async function costOf(place: Place, caseId: string, systemId: string): Promise<Cost> {
  const { cost } = await sampleIn(place, caseId, systemId, JOBS)
  expect(cost.ms).toBeGreaterThan(0)
  expect(cost.nodeUs).toBeGreaterThan(0)
  if (place.serverPid === null) expect(cost.serverUs).toBeNull()
  else expect(cost.serverUs).toBeGreaterThanOrEqual(0)
  return cost
}
