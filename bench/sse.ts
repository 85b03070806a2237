import { fork } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { startServer } from 'redress/http'
import { openBench } from './measures.ts'
import { sqlitePlace } from './places.ts'

/**
 * `node --expose-gc --conditions=redress-source bench/sse.ts`: thousands of browsers that listen and to which nothing happens,
 * from another process. What each costs in memory, whether it grows with time, and how long it takes until all of them have heard something.
 */
const { values } = parseArgs({
  options: {
    listeners: { type: 'string', default: '5000' },
    seconds: { type: 'string', default: '60' },
    events: { type: 'string', default: '20' },
    dir: { type: 'string', default: tmpdir() },
  },
})
const [listeners, seconds, events] = [values.listeners, values.seconds, values.events].map(Number) as [
  number,
  number,
  number,
]
const MIB = 2 ** 20

function memory(): { heap: number; rss: number } {
  globalThis.gc?.()
  globalThis.gc?.()
  const { heapUsed, external, rss } = process.memoryUsage()
  return { heap: heapUsed + external, rss }
}

const show = (what: string, { heap, rss }: { heap: number; rss: number }): void =>
  console.log(
    `${what.padEnd(34)}heap ${(heap / MIB).toFixed(1).padStart(7)} MiB   rss ${(rss / MIB).toFixed(1).padStart(7)} MiB`,
  )

const fresh = await sqlitePlace(values.dir).fresh()
const { app, type } = await openBench(fresh.store)
const server = await startServer({
  app,
  port: 0,
  limits: { streamsPerCallerMax: listeners, streamsPerAddressMax: listeners, streamsMax: listeners },
})
await server.ready
const { token } = await app.perform('tokens.create', { name: 'bench', role: 'viewer', actor: 'bench' })
const before = memory()
show('before', before)

const child = fork(join(import.meta.dirname, 'http/listeners.ts'))
const openedMs = performance.now()
child.send({ port: Number(new URL(server.url).port), token, listeners, atOnce: 100 })
await once(child, 'message')
console.log(`${listeners} listen after ${((performance.now() - openedMs) / 1000).toFixed(1)} s`)
const open = memory()
show('all listen', open)
console.log(
  `${' '.repeat(34)}each ${((open.heap - before.heap) / listeners / 1024).toFixed(1)} KiB of heap, ${((open.rss - before.rss) / listeners / 1024).toFixed(1)} KiB of rss`,
)
for (let n = 1; n <= 4; n++) {
  const cpu = process.cpuUsage()
  await sleep((seconds * 1000) / 4)
  const { user, system } = process.cpuUsage(cpu)
  const share = ((user + system) / 1e6 / (seconds / 4)) * 100
  show(`idle for ${(seconds / 4) * n} s (${share.toFixed(0)} % of a CPU)`, memory())
}
const toldMs = performance.now()
for (let n = 0; n < events; n++) await type.submit({ n })
for (;;) {
  child.send('how many?')
  const [{ least, hungUp }] = (await once(child, 'message')) as [{ least: number; hungUp: number }]
  if (hungUp > 0) throw new Error(`${hungUp} were hung up on`)
  if (least >= events) break
  await sleep(20)
}
const tookS = (performance.now() - toldMs) / 1000
console.log(
  `${events} events to each of ${listeners}: ${tookS.toFixed(2)} s, ${Math.round((events * listeners) / tookS)} a second`,
)
show('after that', memory())
child.kill()
await once(child, 'exit')
await new Promise((resolve) => setImmediate(resolve))
while (app.hub.subscribers > 0) await sleep(20)
show('all have left', memory())
const stopMs = performance.now()
await server.stop()
console.log(`stopped in ${Math.round(performance.now() - stopMs)} ms`)
await app.stop()
await fresh.remove()
