import { join } from 'node:path'
import { type Chance, seededChance } from 'redress/testing'
import {
  afterMs,
  type Child,
  drained,
  environment,
  kill,
  type Programs,
  type Role,
  standStill,
  start,
} from './children.ts'
import { type Inspection, inspect, integrityProblems } from './inspect.ts'
import { LEASE_MS, openWork } from './work.ts'

export interface KillLoopOptions {
  folder: string
  kills: number
  seed: number
  workers?: number
  /** Those of this folder when left out. */
  programs?: Programs
  /** Called now and then with a line for people. */
  say?: (line: string) => void
}

export interface KillLoopReport extends Inspection {
  kills: { workers: number; submitters: number }
  seed: number
  tookMs: number
}

const DRAIN_MS_MAX = 60_000
const JOBS_PER_SUBMITTER = 400

/** Several workers and a submitter on one file, killed at random moments and started again; then a look at what is left. */
export async function killLoop({
  folder,
  kills,
  seed,
  workers = 3,
  programs,
  say,
}: KillLoopOptions): Promise<KillLoopReport> {
  const startedMs = performance.now()
  const file = join(folder, 'redress.db')
  const place = `sqlite:${file}`
  const notes = { acknowledged: join(folder, 'acknowledged.txt'), refused: join(folder, 'refused.txt') }
  const chance = seededChance(seed)
  const report = { workers: 0, submitters: 0 }
  const died: string[] = []
  const env = environment(folder)
  const argsOf = (role: Role) =>
    role === 'worker' ? [place, notes.refused] : [place, notes.acknowledged, String(JOBS_PER_SUBMITTER)]

  const killAgainAndAgain = async (role: Role): Promise<void> => {
    while (report.workers + report.submitters < kills) {
      const child = start(role, argsOf(role), env, programs)
      await momentToDie(child, chance)
      const end = await kill(child)
      if (end !== null) died.push(`a ${role} ended by itself: ${end}`)
      report[role === 'worker' ? 'workers' : 'submitters']++
      const killed = report.workers + report.submitters
      if (killed % 500 === 0) say?.(`${killed} kills`)
    }
  }
  await Promise.all([...Array(workers).fill('worker'), 'submitter'].map(killAgainAndAgain))

  const { app } = openWork(place)
  const store = await app.store()
  const survivors = [1, 2].map(() => start('worker', argsOf('worker'), env, programs))
  const left = await drained(async () => {
    const counts = await store.counts()
    return counts.reduce((sum, { queued, processing }) => sum + queued + processing, 0)
  }, DRAIN_MS_MAX)
  if (left > 0) died.push(`${left} jobs are left, and none was done for ${DRAIN_MS_MAX / 1000} s`)
  for (const child of survivors) {
    const end = await kill(child)
    if (end !== null) died.push(`a surviving worker ended by itself: ${end}`)
  }
  const inspection = await inspect(store, notes)
  await app.stop()
  return {
    ...inspection,
    problems: [...died, ...integrityProblems(file), ...inspection.problems],
    kills: report,
    seed,
    tookMs: Math.round(performance.now() - startedMs),
  }
}

/** Right after the start, while it opens the store, or in the middle of its work. */
async function momentToDie(child: Child, chance: Chance): Promise<void> {
  const [draw, ms] = [chance(), chance() * 400]
  if (draw < 0.1) return afterMs(ms / 10)
  if (draw < 0.3) return afterMs(ms)
  await Promise.race([child.ready, child.ended])
  await afterMs(ms)
  // Some stand still for longer than their leases first, and wake up as zombies.
  if (draw > 0.93) await standStill(child, LEASE_MS * (1 + chance()))
}
