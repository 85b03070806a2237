import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { storm } from '../../../bench/fetchbox-storm/storm.ts'
import { seedOf } from '../../../test/support/seed.ts'
import { did, size } from '../../../test/support/size.ts'

/** `npm run soak -- fetchbox --resources 20000 --jobs 50` does the same for longer. */
const RESOURCES = size(80, 300)
const SEED = seedOf()

test(`a storm stores or dead-letters each of ${RESOURCES} resources once, and a replay completes the rest (REDRESS_SEED=${SEED}) [F7 F8 F9 F10 F11 F12 F13 F14 F18]`, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'redress-storm-'))
  const report = await storm({
    ...{ folder, resources: RESOURCES, jobs: 5, proxies: 5, workers: 1, kills: 1, seed: SEED },
    ...{ faultShare: 0.1, storage: 'folder', leaseSec: 2, concurrency: 32, timeoutMs: 400 },
  })
  did({ resources: RESOURCES, kills: report.kills, stored: report.stored, requests: report.requests })
  expect(report.problems).toEqual([])
  expect(report.stored.after).toBe(RESOURCES)
  // Without these it would have been fine weather.
  expect(report.kills).toBe(1)
  expect(report.stored.before).toBeLessThan(RESOURCES)
  expect(report.stored.before).toBeGreaterThan(RESOURCES / 2)
  expect(report.requests).toBeGreaterThan(RESOURCES)
  await rm(folder, { recursive: true })
}, 60_000)
