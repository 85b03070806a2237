import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { drain, type HandlerName, onBench, submitBulk } from '../measures.ts'
import { columnsOf, whole } from '../peers/results.ts'
import type { Place } from '../places.ts'

/**
 * Prints ten times how much memory a worker takes, and a server that serves the same store: first with jobs that
 * complete, then with jobs that fail once.
 */
export async function measureMemory(place: Place, jobs: number): Promise<void> {
  for (const handler of ['no-op', 'fails once, thrown'] as const) await measureOne(place, handler, jobs)
}

const megabytes = (bytes: number): string => whole(bytes / 2 ** 20)

async function measureOne(place: Place, handler: HandlerName, jobs: number): Promise<void> {
  await onBench(place, handler, false, async ({ app, type, store }) => {
    await submitBulk(type, jobs)
    const server = startServer(store)
    const rows = [['done', 'worker heap MB', 'worker rss MB', 'server rss MB']]
    const every = Math.ceil(jobs / 10)
    const rate = await drain(app, jobs, {
      onEvery: (done) => {
        if (done % every !== 0) return
        globalThis.gc?.()
        const { heapUsed, rss } = process.memoryUsage()
        rows.push([whole(done), megabytes(heapUsed), megabytes(rss), server.rss()])
      },
    })
    server.stop()
    console.log(`\n${handler}: ${whole(jobs)} jobs, ${whole(rate)} per second\n${columnsOf(rows)}`)
  })
}

/** `redress start` without a worker, in a process of its own. */
function startServer(store: string) {
  const program = join(import.meta.dirname, '../../packages/redress/bin/redress')
  const args = ['start', '--store', store, '--no-worker', '--no-auth', '--port', '0', '--apps', 'sample', '--quiet']
  const child = spawn(program, args, { stdio: 'ignore' })
  return {
    /** As the kernel counts it; only Linux tells it here. */
    rss(): string {
      try {
        const [, kilobytes] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8')) ?? []
        return kilobytes === undefined ? 'unknown' : megabytes(Number(kilobytes) * 1024)
      } catch {
        return 'unknown'
      }
    },
    stop: () => child.kill(),
  }
}
