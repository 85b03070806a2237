import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type FleetOptions, fleet } from '../../bench/kill-loop/fleet.ts'
import { startOwnPostgres } from '../support/postgres.ts'
import { startCluster } from '../support/postgres-cluster.ts'
import { killedPrograms } from '../support/programs.ts'
import { seedOf } from '../support/seed.ts'

/** `npm run soak -- --store postgres --jobs 200000 --restarts 20` does the same for longer. */
const SEED = seedOf()
const SIZE = { workers: 3, submitters: 2, seed: SEED }

async function run(options: Omit<FleetOptions, 'folder' | keyof typeof SIZE>) {
  const folder = await mkdtemp(join(tmpdir(), 'redress-fleet-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const report = await fleet({ folder, ...SIZE, programs: killedPrograms(), ...options })
  expect(report.problems).toEqual([])
  expect(report).toMatchObject({ acknowledged: options.jobs, jobs: options.jobs })
  return report
}

test(`processes that are killed, or stand still past their leases, lose nothing and close nothing twice (REDRESS_SEED=${SEED})`, async () => {
  const server = await startOwnPostgres()
  onTestFinished(() => server.stop())
  const { kills, pauses, reclaimed, refused } = await run({ store: server.url, jobs: 4_000, kills: 24 })
  // Without these the kills would have hit nothing.
  expect(kills + pauses).toBe(24)
  expect(pauses).toBeGreaterThan(0)
  expect(reclaimed).toBeGreaterThan(0)
  expect(refused).toBeGreaterThan(0)
}, 120_000)

test(`a server that crashes three times under load costs nothing that was acknowledged, and no process (REDRESS_SEED=${SEED})`, async () => {
  const server = await startOwnPostgres()
  onTestFinished(() => server.stop())
  const restart = async (): Promise<void> => {
    await server.crash()
    await server.start()
  }
  const { blows } = await run({ store: server.url, jobs: 2_500, kills: 0, blows: [restart, restart, restart] })
  expect(blows).toBe(3)
}, 120_000)

test(`when a synchronous standby is promoted, all go over to it by themselves, though the old primary stays alive (REDRESS_SEED=${SEED})`, async () => {
  const cluster = await startCluster()
  onTestFinished(() => cluster.stop())
  const { blows } = await run({ store: cluster.url, jobs: 2_000, kills: 0, blows: [cluster.promote] })
  expect(blows).toBe(1)
}, 120_000)
