import { fork } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startServer } from 'redress/http'
import type { Load, Measured } from './http/client.ts'
import { BENCH_TYPE, openBench, submitSingly } from './measures.ts'
import { type Place, postgresPlace, sqlitePlace } from './places.ts'

/**
 * `node --conditions=redress-source bench/http.ts`: jobs per second that are submitted over HTTP from another process, each
 * request answered when its job is on disk, beside what the library does in the same run with as many callers.
 */
const { values } = parseArgs({
  options: {
    store: { type: 'string', default: 'sqlite' },
    jobs: { type: 'string', default: '10000' },
    connections: { type: 'string', default: '16' },
    rounds: { type: 'string', default: '3' },
    only: { type: 'string' },
    dir: { type: 'string', default: tmpdir() },
  },
})
const [jobs, connections, rounds] = [values.jobs, values.connections, values.rounds].map(Number) as [
  number,
  number,
  number,
]

const REQUESTS = {
  'GET /healthz': { method: 'GET', path: '/healthz', body: null },
  'GET /api/jobs/:id': { method: 'GET', path: '/api/jobs/ID', body: null },
  'GET /api/jobs?limit=50': { method: 'GET', path: '/api/jobs?limit=50', body: null },
  'POST /api/jobs': { method: 'POST', path: '/api/jobs', body: `{"type":"${BENCH_TYPE}","input":{"n":N}}` },
} as const

function fromAnotherProcess(load: Load): Promise<Measured> {
  return new Promise((resolve, reject) => {
    const child = fork(join(import.meta.dirname, 'http/client.ts'))
    child.once('message', (measured) => resolve(measured as Measured))
    child.once('error', reject)
    child.send(load)
  })
}

type Note = (name: string, measured: Measured & { cpuMicros: number }) => void

/** What this process, which is the one that serves, had to do for it: a busy machine changes this less than the rate. */
async function withCpu(name: string, note: Note, run: () => Promise<Measured>): Promise<void> {
  const before = process.cpuUsage()
  const measured = await run()
  const { user, system } = process.cpuUsage(before)
  note(name, { ...measured, cpuMicros: (user + system) / jobs })
}

async function round(place: Place, note: Note): Promise<void> {
  const own = await place.fresh()
  const library = await openBench(own.store)
  await withCpu('the library itself', note, async () => {
    const perSecond = await submitSingly(library.type, jobs, connections)
    return { perSecond, p50Ms: Number.NaN, p99Ms: Number.NaN, statuses: {} }
  })
  await library.app.stop()
  await own.remove()

  const fresh = await place.fresh()
  const { app, type } = await openBench(fresh.store)
  const server = await startServer({ app, port: 0 })
  await server.ready
  const { token } = await app.perform('tokens.create', { name: 'bench', role: 'operator', actor: 'bench' })
  const { id } = await type.submit({ n: 0 })
  for (const [name, { path, ...request }] of Object.entries(REQUESTS)) {
    if (values.only !== undefined && !name.startsWith(values.only)) continue
    const load = {
      ...request,
      path: path.replace('ID', id),
      port: Number(new URL(server.url).port),
      token: String(token),
    }
    await withCpu(name, note, () => fromAnotherProcess({ ...load, connections, requests: jobs }))
  }
  await server.stop()
  await app.stop()
  await fresh.remove()
}

const place = values.store === 'postgres' ? await postgresPlace(values.dir, null) : sqlitePlace(values.dir)
const all = new Map<string, (Measured & { cpuMicros: number })[]>()
for (let n = 0; n < rounds; n++) {
  process.stderr.write(`round ${n + 1} of ${rounds}\n`)
  await round(place, (name, measured) => all.set(name, [...(all.get(name) ?? []), measured]))
}
await place.stop()
console.log(
  `\n${jobs} requests, ${connections} connections, median of ${rounds} rounds, Node ${process.version}, ${place.title}\n`,
)
for (const [name, measured] of all) {
  const middle = measured.toSorted((a, b) => a.perSecond - b.perSecond)[Math.floor(measured.length / 2)]
  if (middle === undefined) continue
  const { perSecond, p50Ms, p99Ms, cpuMicros, statuses } = middle
  const times = Number.isNaN(p50Ms)
    ? ''
    : `   p50 ${p50Ms.toFixed(2)} ms   p99 ${p99Ms.toFixed(2)} ms   ${JSON.stringify(statuses)}`
  console.log(
    `${name.padEnd(26)}${String(Math.round(perSecond)).padStart(8)}/s${String(Math.round(cpuMicros)).padStart(8)} µs of CPU each${times}`,
  )
}
