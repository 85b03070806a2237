import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { killLoop } from '../../../../bench/kill-loop/kill-loop.ts'
import { killedPrograms } from '../../../../test/support/processes/programs.ts'
import { seedOf } from '../../../../test/support/seed.ts'
import { did, size } from '../../../../test/support/size.ts'

/** `npm run soak -- --kills 5000` does the same for longer. */
const KILLS = size(20, 200)
const SEED = seedOf()

test(`${KILLS} processes killed at random moments lose nothing and complete nothing twice (REDRESS_SEED=${SEED})`, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'redress-kill-'))
  const report = await killLoop({ folder, kills: KILLS, seed: SEED, programs: killedPrograms() })
  did({ kills: report.kills, acknowledged: report.acknowledged, reclaimed: report.reclaimed })
  expect(report.problems).toEqual([])
  expect(report.kills.workers + report.kills.submitters).toBeGreaterThanOrEqual(KILLS)
  // Without these the kills would have hit nothing.
  expect(report.kills.submitters).toBeGreaterThan(0)
  expect(report.acknowledged).toBeGreaterThan(KILLS)
  expect(report.reclaimed).toBeGreaterThan(KILLS / 10)
  await rm(folder, { recursive: true })
}, 300_000)
