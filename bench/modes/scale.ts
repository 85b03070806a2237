import { fork } from 'node:child_process'
import { join } from 'node:path'
import { openBench, submitBulk } from '../measures.ts'
import { columnsOf, quantile, whole } from '../peers/results.ts'
import { onFresh, type Place } from '../places.ts'
import { openMeter } from '../processor-time.ts'
import type { WorkerReport } from './scale-worker.ts'

const WORKERS = [1, 2, 4, 8]

interface Run {
  perSecond: number
  least: number
  most: number
  nodeUs: number
  serverUs: number | null
}

/** A backlog that several worker processes share: what more of them gain, and whether each gets its part. */
export async function measureScale(place: Place, jobs: number, rounds: number): Promise<void> {
  const runs = new Map<number, Run[]>(WORKERS.map((workers) => [workers, []]))
  for (let round = 0; round < rounds; round++) {
    process.stderr.write(`scale, round ${round + 1} of ${rounds}\n`)
    for (const workers of WORKERS) {
      await onFresh(place, async ({ store }) => {
        runs.get(workers)?.push(await drainTogether(store, workers, jobs, place.serverPid))
      })
    }
  }
  const rows = [...runs].map(([workers, all]) => {
    const of = (figure: (run: Run) => number): number => quantile(all.map(figure), 0.5)
    const share = jobs / workers
    return [
      `${workers} workers`,
      whole(of(({ perSecond }) => perSecond)),
      `${Math.round((100 * of(({ least }) => least)) / share)} %`,
      `${Math.round((100 * of(({ most }) => most)) / share)} %`,
      of(({ nodeUs }) => nodeUs).toFixed(1),
      place.serverPid === null ? 'unknown' : of(({ serverUs }) => serverUs ?? Number.NaN).toFixed(1),
    ]
  })
  console.log(`\n${whole(jobs)} jobs, 10 handlers at once per worker, median of ${rounds} rounds, ${place.title}\n`)
  const head = ['drain', 'jobs/s', 'least of a fair share', 'most of a fair share', 'Node us/job', 'database us/job']
  console.log(columnsOf([head, ...rows]))
}

async function drainTogether(store: string, workers: number, jobs: number, serverPid: number | null): Promise<Run> {
  const { app, type } = await openBench(store)
  await submitBulk(type, jobs)
  await app.stop()
  const children = await Promise.all(Array.from({ length: workers }, () => startWorker(store)))
  const meter = openMeter(serverPid)
  const startedMs = Date.now()
  const reports = await meter.measure(async () => {
    for (const { child } of children) child.send('go')
    for (;;) {
      const reports = children.map(({ last }) => last())
      if (reports.reduce((sum, { done }) => sum + done, 0) >= jobs) return reports
      if (children.some(({ child }) => child.exitCode !== null)) throw new Error('A worker process ended early.')
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  })
  await Promise.all(
    children.map(({ child }) => {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.send('stop')
      return ended
    }),
  )
  const { serverUs } = meter.cost()
  const done = reports.map((report) => report.done)
  return {
    perSecond: (jobs * 1000) / (Math.max(...reports.map(({ lastMs }) => lastMs)) - startedMs),
    least: Math.min(...done),
    most: Math.max(...done),
    nodeUs: reports.reduce((sum, report) => sum + report.nodeUs, 0) / jobs,
    serverUs: serverUs === null ? null : serverUs / jobs,
  }
}

/** A process that is ready to work. */
async function startWorker(store: string) {
  const child = fork(join(import.meta.dirname, 'scale-worker.ts'), [store])
  let last: WorkerReport = { done: 0, lastMs: 0, nodeUs: 0 }
  await new Promise<void>((resolve, reject) => {
    child.once('exit', () => reject(new Error('A worker process did not start.')))
    child.on('message', (said: 'ready' | WorkerReport) => {
      if (said === 'ready') resolve()
      else last = said
    })
  })
  return { child, last: () => last }
}
