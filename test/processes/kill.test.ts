import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { killLoop } from '../../bench/kill-loop/kill-loop.ts'
import { killedPrograms } from '../support/programs.ts'
import { seedOf } from '../support/seed.ts'

/** `npm run soak -- --kills 5000` does the same for longer. */
const KILLS = Number(process.env.REDRESS_KILLS ?? 200)
const SEED = seedOf()

test(`${KILLS} processes killed at random moments lose nothing and complete nothing twice (REDRESS_SEED=${SEED})`, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'redress-kill-'))
  const report = await killLoop({ folder, kills: KILLS, seed: SEED, programs: killedPrograms() })
  expect(report.problems).toEqual([])
  expect(report.kills.workers + report.kills.submitters).toBeGreaterThanOrEqual(KILLS)
  // Without these the kills would have hit nothing.
  expect(report.kills.submitters).toBeGreaterThan(0)
  expect(report.acknowledged).toBeGreaterThan(KILLS)
  expect(report.reclaimed).toBeGreaterThan(KILLS / 10)
  await rm(folder, { recursive: true })
}, 300_000)
