import { createServer, connect as dial, type Server, type Socket } from 'node:net'
import postgres from 'postgres'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { until } from '../../../../../test/support/until.ts'
import { openPool } from '../../../src/store/postgres/connection/client.ts'
import { openWakes } from '../../../src/store/postgres/connection/listen.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

const open: { stop(): Promise<void> }[] = []
afterEach(async () => {
  for (const one of open.splice(0)) await one.stop()
})

function wakes(schema: string, { url = server.url, beatMs = 15_000 } = {}) {
  const sql = openPool({ url: server.url, schema, connectionsMax: 2 })
  const opened = openWakes({ sql, client: { url, schema, connectionsMax: 1 }, beatMs })
  open.push({
    async stop() {
      await opened.stop()
      await sql.end({ timeout: 1 })
    },
  })
  return opened
}

/** A listener that is known to hear. */
async function listening(schema: string, options: Parameters<typeof wakes>[1] = {}) {
  const heard = { count: 0 }
  const one = wakes(schema, options)
  one.onWake(() => void heard.count++)
  await until('it listens', () => heard.count > 0)
  return heard
}

/** Until it hears: words that were said while it was deaf are lost. */
const untilHeard = async (heard: { count: number }, from: ReturnType<typeof wakes>) => {
  const before = heard.count
  await until('it hears', () => {
    from.wakeAll()
    return heard.count > before
  })
}

test('what one process commits wakes the workers of another one, and of no other schema', async () => {
  const [near, far] = [await listening('one'), await listening('two')]
  const farBefore = far.count
  await untilHeard(near, wakes('one'))
  expect(far.count).toBe(farBefore)
})

test('its own commits wake a process at once, and once', async () => {
  const one = wakes('own')
  let woken = 0
  let committed = 0
  one.onWake(() => void woken++)
  await until('it listens', () => woken > 0)
  const before = woken
  const forget = one.onCommit(() => void committed++)
  one.committed(true)
  expect([woken - before, committed]).toEqual([1, 1])
  one.committed(false)
  expect([woken - before, committed]).toEqual([1, 2])
  forget()
  one.committed(false)
  expect(committed).toBe(2)
  // Its own word has come back when a later one of somebody else has.
  const other = wakes('own')
  other.wakeAll()
  await until('another is heard', () => woken - before > 1)
  expect(woken - before).toBe(2)
})

test('a thousand hints are few words', async () => {
  const heard = await listening('many')
  const before = heard.count
  const from = wakes('many')
  for (let i = 0; i < 1_000; i++) from.wakeAll()
  await until('it hears', () => heard.count > before)
  await untilHeard(heard, from)
  expect(heard.count - before).toBeLessThan(20)
})

test('a connection that the server ends is taken up again', async () => {
  const heard = await listening('ended')
  const sql = postgres(server.url, { max: 1 })
  for (let i = 0; i < 3; i++) {
    const before = heard.count
    await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ILIKE 'listen "ended_work"'`
    // Something may have been said meanwhile: taking up again is a wake in itself.
    await until('it listens again', () => heard.count > before)
  }
  await sql.end()
  await untilHeard(heard, wakes('ended'))
})

test('a connection that died unseen is noticed and replaced', async () => {
  const line = await deafLine(server.url)
  const heard = await listening('deaf', { url: line.url, beatMs: 50 })
  const from = wakes('deaf')
  await untilHeard(heard, from)
  line.goDeaf()
  await until('there is another one', () => line.connections() > 1)
  await untilHeard(heard, from)
  line.stop()
})

test('whoever has stopped is not woken any more', async () => {
  const one = wakes('stopped')
  let woken = 0
  one.onWake(() => void woken++)
  await until('it listens', () => woken > 0)
  await one.stop()
  const before = woken
  one.wakeAll()
  one.committed(true)
  expect(woken).toBe(before)
})

/** Stands between client and server, and can swallow what the server says on connections that are there already. */
async function deafLine(target: string) {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  let count = 0
  let deafTo = 0
  const relay: Server = createServer((client) => {
    const number = ++count
    const upstream = dial(Number(port), hostname)
    sockets.add(client).add(upstream)
    client.on('data', (data) => upstream.write(data)).on('error', () => upstream.destroy())
    upstream.on('data', (data) => void (number <= deafTo || client.write(data))).on('error', () => client.destroy())
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
  })
  await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve))
  const url = new URL(target)
  url.port = String((relay.address() as { port: number }).port)
  return {
    url: url.href,
    connections: () => count,
    goDeaf: () => {
      deafTo = count
    },
    stop: () => {
      for (const socket of sockets) socket.destroy()
      relay.close()
    },
  }
}
