/**
 * What a worker of fetchbox holds while much more waits than it could: 160 resources of 64 MiB, which the origin makes up
 * on the way, and eight under way at once. All of it is really fetched and stored in a folder, and purged job by job as
 * they end. `node --conditions=redress-source bench/fetchbox-queued.ts [--resources 160] [--mb 64] [--dir DIR]`
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { fetchboxApp } from '@redress/fetchbox'
import { redress } from 'redress'
import { startServer } from 'redress/http'
import { startWorker } from './fetchbox-storm/workers.ts'
import { afterMs } from './kill-loop/children.ts'

const { values } = parseArgs({
  options: {
    resources: { type: 'string', default: '160' },
    mb: { type: 'string', default: '64' },
    jobs: { type: 'string', default: '10' },
    concurrency: { type: 'string', default: '8' },
    dir: { type: 'string', default: tmpdir() },
  },
})
const [resources, mb, jobs, concurrency] = [values.resources, values.mb, values.jobs, values.concurrency].map(
  Number,
) as [...[number, number, number, number]]
const bytes = mb * 2 ** 20

const folder = mkdtempSync(join(values.dir, 'redress-fetchbox-queued-'))
const originProcess = fork(join(import.meta.dirname, 'fetchbox/origin.ts'))
const [port] = (await once(originProcess, 'message')) as [number]
const env = {
  FETCHBOX_ALLOW: `127.0.0.1:${port}`,
  FETCHBOX_CONCURRENCY: String(concurrency),
  FETCHBOX_PER_HOST: String(concurrency),
}
const app = redress({ store: `sqlite:${join(folder, 'redress.db')}` })
const log = { debug() {}, info() {}, warn() {}, error: console.error } as never
const installed = await fetchboxApp().install(app, { home: join(folder, 'fetchbox'), env, log })
const server = await startServer({ app, port: 0, auth: 'none', mounts: [installed.mount ?? (() => undefined)], log })
await server.ready

interface Snapshot {
  status: string
  bytes: number
}

const ask = async (path: string, init: RequestInit = {}): Promise<unknown> => {
  const answer = await fetch(`${server.url}/fetchbox/jobs${path}`, init)
  if (!answer.ok) throw new Error(`${path} was answered ${answer.status}: ${await answer.text()}`)
  return answer.json()
}

async function submitted(): Promise<string[]> {
  const ids: string[] = []
  for (let job = 0; job < jobs; job++) {
    const numbers = Array.from({ length: Math.ceil(resources / jobs) }, (_, i) => i)
    const body = { resources: numbers.map((n) => ({ id: `r${n}`, url: `http://127.0.0.1:${port}/${bytes}/${n}` })) }
    const headers = { 'content-type': 'application/json' }
    const { id } = (await ask('', { method: 'POST', headers, body: JSON.stringify(body) })) as { id: string }
    ids.push(id)
  }
  return ids
}

let done = 0
let [memoryMiB, spoolMiB] = [0, 0]
try {
  const waiting = await submitted()
  console.log(`${resources} resources, ${((resources * bytes) / 1e9).toFixed(1)} GB, are queued`)
  const worker = startWorker({ folder, env, concurrency })
  const beganMs = performance.now()
  while (waiting.length > 0) {
    await afterMs(100)
    memoryMiB = Math.max(memoryMiB, worker.peakMiB())
    spoolMiB = Math.max(spoolMiB, worker.namelessMiB())
    const [id = ''] = waiting
    const shown = (await ask(`/${id}`)) as Snapshot
    if (shown.status === 'queued' || shown.status === 'processing') continue
    if (shown.status !== 'complete') throw new Error(`job ${id} is ${shown.status}`)
    done += shown.bytes
    waiting.shift()
    await ask(`/${id}`, { method: 'DELETE' })
    const figures = `memory ${Math.round(memoryMiB)} MiB at most, spool ${Math.round(spoolMiB)} MiB at most`
    console.log(`${(done / 1e9).toFixed(1)} GB are stored; ${figures}`)
  }
  const seconds = (performance.now() - beganMs) / 1000
  console.log(`${seconds.toFixed(1)} s, ${(done / 2 ** 20 / seconds).toFixed(1)} MiB/s`)
  await worker.stop()
} finally {
  await server.stop({ graceMs: 0 })
  await app.stop({ graceMs: 1_000 })
  await installed.stop?.()
  originProcess.disconnect()
  rmSync(folder, { recursive: true, force: true })
}
