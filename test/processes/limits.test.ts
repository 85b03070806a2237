import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { App } from '../../src/app/app.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { act, look, type Setup, scratchFile } from '../support/processes.ts'
import { until } from '../support/until.ts'

const VISIT_MS = 10
const KEYS = ['a', 'b', 'c', 'd', 'e']

/** What the jobs share: a server that knows how many visit it at once, in all and per key. */
async function popularServer() {
  const inside = new Map<string, number>()
  const most = new Map<string, number>()
  const count = (path: string, by: number) => {
    for (const key of [path.slice(1), 'all']) {
      inside.set(key, (inside.get(key) ?? 0) + by)
      most.set(key, Math.max(most.get(key) ?? 0, inside.get(key) ?? 0))
    }
  }
  const server = createServer((request, response) => {
    const path = request.url ?? '/'
    let isInside = true
    const leave = () => {
      if (isInside) count(path, -1)
      isInside = false
    }
    count(path, 1)
    // Also when the visitor was killed.
    response.once('close', leave)
    systemClock.setTimer(VISIT_MS, () => {
      leave()
      response.end('seen')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { port: (server.address() as AddressInfo).port, most: (key: string) => most.get(key) ?? 0 }
}

test('E1 E24 two processes never visit more often at once than the type allows, nor twice for one key', async () => {
  const file = scratchFile()
  const store = look(file)
  const { port, most } = await popularServer()
  const policy = { orphan: 'requeue', lease: { ttl: '5s' }, concurrency: { max: 3, perKey: 1 } } as const
  // Neither could use up the limit alone; together they would pass it.
  const setup: Setup = { file, types: { visit: policy }, worker: { concurrency: 2, pollMs: 20, maintenanceMs: 100 } }
  const app = new App({ store: `sqlite:${file}` })
  const visit = app.job('visit', { policy, run: (_: { do: 'visit'; port: number; key: string }) => undefined })
  const [first, second] = [act(setup), act(setup)]
  for (const actor of [first, second]) await actor.says({ said: 'ready' })

  const inputs = Array.from({ length: 120 }, (_, i) => ({ do: 'visit' as const, port, key: KEYS[i % 5] ?? 'a' }))
  const submitted = await visit.submitMany(inputs, { limitKey: ({ key }) => key })
  await app.stop()
  const told = (actor: typeof first) => actor.said.filter(({ said }) => said === 'told').length
  await until('both have done a part', () => told(first) >= 10 && told(second) >= 10)
  // What a killed process had in hand counts until it is taken back: its visits may still be going on.
  first.kill('SIGKILL')
  for (const { id } of submitted) expect(await store.ended(id)).toMatchObject({ status: 'complete' })

  // Reached, so that it was really the limit that held, and never passed.
  expect(most('all')).toBe(3)
  for (const key of KEYS) expect(most(key)).toBe(1)
})

test('two processes together dispatch no more per time than the rate allows', async () => {
  const file = scratchFile()
  const store = look(file)
  const policy = { orphan: 'requeue', rate: { max: 20, per: '1s', burst: 5 } } as const
  const setup: Setup = { file, types: { act: policy }, worker: { concurrency: 10, pollMs: 20 } }
  const actors = [act(setup), act(setup)]
  for (const actor of actors) await actor.says({ said: 'ready' })
  const app = new App({ store: `sqlite:${file}` })
  const job = app.job('act', { policy, run: (_: { do: 'return' }) => undefined })
  const submitted = await job.submitMany(Array.from({ length: 40 }, () => ({ do: 'return' as const })))
  await app.stop()
  const claimedMs: number[] = []
  for (const { id } of submitted) claimedMs.push(Number((await store.ended(id)).claimedAtMs))
  claimedMs.sort((a, b) => a - b)
  // By the store's own times: one in fifty milliseconds, and the burst before them.
  for (const [i, atMs] of claimedMs.entries()) {
    const [firstMs = 0] = claimedMs
    expect(i + 1).toBeLessThanOrEqual(5 + Math.floor((atMs - firstMs) / 50))
  }
})
