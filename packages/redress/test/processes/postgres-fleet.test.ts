import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type FleetOptions, fleet } from '../../../../bench/kill-loop/fleet.ts'
import { killedPrograms } from '../../../../test/support/processes/programs.ts'
import { seedOf } from '../../../../test/support/seed.ts'
import { did, size } from '../../../../test/support/size.ts'
import { startOwnPostgres } from '../../../../test/support/stores/postgres.ts'
import { startCluster } from '../../../../test/support/stores/postgres-cluster.ts'

/** `npm run soak -- --store postgres --jobs 200000 --restarts 20` does the same for longer. */
const SEED = seedOf()
const SIZE = { workers: size(2, 3), submitters: size(1, 2), seed: SEED }
const KILLS = size(6, 24)
const CRASHES = size(1, 3)

async function run(options: Omit<FleetOptions, 'folder' | keyof typeof SIZE>) {
  const folder = await mkdtemp(join(tmpdir(), 'redress-fleet-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const report = await fleet({ folder, ...SIZE, programs: killedPrograms(), ...options })
  const { jobs, kills, pauses, reclaimed, refused, blows } = report
  did({ jobs, kills, pauses, reclaimed, refused, blows })
  expect(report.problems).toEqual([])
  expect(report).toMatchObject({ acknowledged: options.jobs, jobs: options.jobs })
  return report
}

test(`processes that are killed, or stand still past their leases, lose nothing and close nothing twice (REDRESS_SEED=${SEED})`, async () => {
  const server = await startOwnPostgres()
  onTestFinished(() => server.stop())
  const { kills, pauses, reclaimed, refused } = await run({ store: server.url, jobs: size(1_000, 4_000), kills: KILLS })
  // Without these the kills would have hit nothing.
  expect(kills + pauses).toBe(KILLS)
  expect(pauses).toBeGreaterThan(0)
  expect(reclaimed).toBeGreaterThan(0)
  expect(refused).toBeGreaterThan(0)
}, 120_000)

test(`a server that crashes ${CRASHES} times under load costs nothing that was acknowledged, and no process (REDRESS_SEED=${SEED})`, async () => {
  const server = await startOwnPostgres()
  onTestFinished(() => server.stop())
  const restart = async (): Promise<void> => {
    await server.crash()
    await server.start()
  }
  const jobs = size(800, 2_500)
  const { blows } = await run({ store: server.url, jobs, kills: 0, blows: Array(CRASHES).fill(restart) })
  expect(blows).toBe(CRASHES)
}, 120_000)

test(`when a synchronous standby is promoted, all go over to it by themselves, though the old primary stays alive (REDRESS_SEED=${SEED})`, async () => {
  const cluster = await startCluster()
  onTestFinished(() => cluster.stop())
  const { blows } = await run({ store: cluster.url, jobs: size(600, 2_000), kills: 0, blows: [cluster.promote] })
  expect(blows).toBe(1)
}, 120_000)
