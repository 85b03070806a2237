import { statSync } from 'node:fs'
import { join } from 'node:path'
import { seededChance } from 'redress/testing'
import { afterMs, type Child, drained, environment, kill, type Programs, standStill, start } from './children.ts'
import { type Inspection, inspect } from './inspect.ts'
import { LEASE_MS, openWork } from './work.ts'

export interface FleetOptions {
  folder: string
  /** Where the jobs are: a database that many processes share. */
  store: string
  workers: number
  submitters: number
  /** So many are submitted altogether. */
  jobs: number
  /** So many workers are killed, or stand still past their leases, while jobs are submitted and done. */
  kills: number
  /** What is done to the store under load: once each, in this order, evenly spread over the submissions. */
  blows?: readonly (() => Promise<void>)[]
  seed: number
  /** Those of this folder when left out. */
  programs?: Programs
  say?: (line: string) => void
}

export interface FleetReport extends Inspection {
  kills: number
  pauses: number
  blows: number
  seed: number
  tookMs: number
  jobsPerSecond: number
}

/** Every fourth worker that is hit stands still instead of being killed. */
const PAUSED_SHARE = 0.25
const DRAIN_MS_MAX = 60_000
/** An id and the end of its line. */
const LINE_BYTES = 37
const ABSENT = { throwIfNoEntry: false } as const

/** Workers and submitters on one database, as on many machines; some are killed, and the database is hit too. */
export async function fleet(options: FleetOptions): Promise<FleetReport> {
  const { folder, store: place, workers, submitters, jobs, kills, blows = [], seed, programs, say } = options
  const startedMs = performance.now()
  const notes = { acknowledged: join(folder, 'acknowledged.txt'), refused: join(folder, 'refused.txt') }
  const env = environment(folder)
  const chance = seededChance(seed)
  const died: string[] = []
  const report = { kills: 0, pauses: 0, blows: 0 }
  const { app } = openWork(place)
  const store = await app.store()

  const fleetOf: Child[] = []
  let isOver = false
  /** Whoever cannot open the store says so and ends: to start it again is for whoever watches over it. */
  const startWorker = (i: number): void => {
    const child = start('worker', [place, notes.refused], env, programs)
    fleetOf[i] = child
    void child.ended.then((end) => {
      if (isOver || fleetOf[i] !== child) return
      if (child.isReady() || !end.includes('STORE_UNREACHABLE')) died.push(`a worker ended by itself: ${end}`)
      startWorker(i)
    })
  }
  for (let i = 0; i < workers; i++) startWorker(i)
  const quotaOf = (i: number): number => Math.floor(jobs / submitters) + (i < jobs % submitters ? 1 : 0)
  const senders = Array.from({ length: submitters }, (_, i) =>
    start('submitter', [place, notes.acknowledged, String(quotaOf(i)), 'ends'], env, programs),
  )
  await Promise.all([...fleetOf, ...senders].map(({ ready, ended }) => Promise.race([ready, ended])))
  const acknowledged = (): number => Math.floor((statSync(notes.acknowledged, ABSENT)?.size ?? 0) / LINE_BYTES)
  const isSubmitted = (share: number): boolean => acknowledged() >= jobs * share || areSent

  let areSent = false
  const sent = Promise.all(senders.map(({ ended }) => ended)).then((ends) => {
    areSent = true
    for (const end of ends) if (!end.startsWith('exit code 0')) died.push(`a submitter ended by itself: ${end}`)
  })
  const strike = async (): Promise<void> => {
    for (const [i, blow] of blows.entries()) {
      while (!isSubmitted((i + 0.5) / blows.length)) await afterMs(20)
      await blow()
      report.blows++
      say?.(`${acknowledged()} jobs acknowledged, ${report.blows} blows`)
    }
  }
  const isAtWork = async ({ process: { pid } }: Child): Promise<boolean> => {
    const ids = (await store.workers()).filter((worker) => worker.pid === pid).map(({ id }) => id)
    const { jobs: held } = await store.jobPage({ status: 'processing', limit: 100 })
    return held.some(({ lease }) => lease !== null && ids.includes(lease.worker))
  }
  const hit = async (): Promise<void> => {
    for (let done = 0; done < kills; done++) {
      while (!isSubmitted((done + 0.5) / kills)) await afterMs(20)
      const i = Math.floor(chance() * workers)
      const child = fleetOf[i] as Child
      if (chance() < PAUSED_SHARE) {
        // One that has nothing to do wakes up as nobody's zombie.
        while (!(await isAtWork(child)) && !areSent) await afterMs(5)
        await standStill(child, LEASE_MS * (1.2 + chance()))
        report.pauses++
        continue
      }
      startWorker(i)
      await kill(child)
      report.kills++
      if (report.kills % 50 === 0) say?.(`${acknowledged()} jobs acknowledged, ${report.kills} kills`)
    }
  }
  await Promise.all([sent, strike(), hit()])

  const left = await drained(async () => {
    const counts = await store.counts()
    return counts.reduce((sum, { queued, processing }) => sum + queued + processing, 0)
  }, DRAIN_MS_MAX)
  const workedMs = performance.now() - startedMs
  if (left > 0) died.push(`${left} jobs are left, and none was done for ${DRAIN_MS_MAX / 1000} s`)
  // Zombies that woke up last tell what they were refused.
  await afterMs(2 * LEASE_MS)
  isOver = true
  for (const child of fleetOf) await kill(child)
  say?.(`all jobs are over after ${Math.round(workedMs / 1000)} s; now each of them is looked at`)
  const inspection = await inspect(store, notes)
  await app.stop()
  return {
    ...inspection,
    problems: [...died, ...inspection.problems],
    ...report,
    seed,
    tookMs: Math.round(performance.now() - startedMs),
    jobsPerSecond: Math.round((inspection.jobs / workedMs) * 1000),
  }
}
