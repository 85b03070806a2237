import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../test/support/until.ts'
import { GatewayProcess, pdfSaying, Rig, type Visitor } from './rig.ts'

/** All visitors of a test have one address. */
const MANY = { VISITOR_CONCURRENCY: '10' }

async function gatewayWith(...options: string[]): Promise<GatewayProcess> {
  const gateway = await GatewayProcess.start(0, options)
  onTestFinished(() => gateway.stop())
  return gateway
}

const upload = async (visitor: Visitor, count: number): Promise<string[]> => {
  const pdfs = await Promise.all(Array.from({ length: count }, (_, i) => pdfSaying(`document ${i}`)))
  return Promise.all(pdfs.map((pdf) => visitor.uploaded(pdf)))
}

async function expectUntouched(rig: Rig, id: string): Promise<void> {
  await rig.until(id, 'complete')
  expect(await rig.app.jobs.find(id)).toMatchObject({ attemptCount: 1, retryCount: 0 })
  expect((await rig.app.jobs.failures(id)).failures).toEqual([])
}

test('ten documents at once at one parser: waiting for the others costs none of them an attempt', async () => {
  const gateway = await gatewayWith('--parsers', '1')
  await gateway.faults({ delayMs: 600, at: 'parsing' })
  // Ten of them take longer than this; each of them does not.
  const rig = await Rig.open({ gatewayUrl: gateway.url, env: { GATEWAY_TIMEOUT_MS: '5000', ...MANY } })
  const visitor = rig.visitor()
  await visitor.ask('/convert')
  const ids = await upload(visitor, 10)
  let most = 0
  await until('all are complete', async () => {
    const { parsers } = (await (await fetch(`${gateway.url}/health`)).json()) as { parsers: { waiting: number } }
    most = Math.max(most, parsers.waiting)
    return (await rig.app.perform('jobs.count', { status: 'complete' })).count === ids.length
  })
  // The worker has ten slots, and sends one document more than the parsers take. A second one waits for the moment in which
  // the answer of the first is on its way and its parser is not free yet.
  expect(most).toBeLessThanOrEqual(2)
  for (const id of ids) await expectUntouched(rig, id)
})

test('503 SATURATED holds the jobs of several workers: no attempt is lost, and the breaker counts no failure', async () => {
  const gateway = await gatewayWith('--parsers', '1', '--waiting', '0')
  await gateway.faults({ delayMs: 300, at: 'parsing' })
  const rigs = await Promise.all([1, 2].map(() => Rig.open({ gatewayUrl: gateway.url, env: MANY })))
  const held: number[] = []
  await Promise.all(
    rigs.map(async (rig) => {
      const visitor = rig.visitor()
      await visitor.ask('/convert')
      for (const id of await upload(visitor, 3)) {
        await expectUntouched(rig, id)
        for (const { kind, at, data } of (await rig.app.jobs.events(id)).events) {
          if (kind === 'snoozed') held.push(Date.parse(data.dueAt ?? '') - Date.parse(at))
        }
      }
      const { window } = await rig.app.perform('breakers.show', { name: 'gateway' })
      expect(window.failed).toBe(0)
    }),
  )
  expect(held.length).toBeGreaterThan(0)
  // The gateway says Retry-After: 2; and not all of them come back at the same moment.
  for (const ms of held) expect(ms).toBeGreaterThanOrEqual(2_000)
})

test('a document whose parsing takes too long is GW_TIMEOUT, and the parser is free for the next', async () => {
  const gateway = await gatewayWith('--parsers', '1')
  await gateway.faults({ delayMs: 600_000, at: 'parsing', count: 1 })
  const env = { GATEWAY_TIMEOUT_MS: '5000', RETRY_MAX_ATTEMPTS: '1' }
  const rig = await Rig.open({ gatewayUrl: gateway.url, env })
  const visitor = rig.visitor()
  const first = await visitor.uploaded(await pdfSaying('slow'))
  await rig.until(first, 'failed')
  expect(await visitor.job(first)).toMatchObject({ errorCode: 'GW_TIMEOUT', attemptCount: 1 })
  await expectUntouched(rig, await visitor.uploaded(await pdfSaying('quick')))
})

test('a saturated gateway cannot hold a document for longer than two days, whatever its Retry-After says', async () => {
  const body = JSON.stringify({ error: { code: 'SATURATED', message: 'Too many wait.' } })
  const server = createServer((request, response) => {
    request.resume()
    response.writeHead(503, { 'retry-after': '999999999' }).end(body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const rig = await Rig.open({ gatewayUrl: `http://127.0.0.1:${port}` })
  const id = await rig.visitor().uploaded(await pdfSaying('held'))
  const heldTo = await until('it is held', async () => (await rig.app.jobs.find(id))?.retryAfter)
  expect(Date.parse(heldTo) - Date.now()).toBeLessThanOrEqual(2 * 86_400_000)
  expect((await rig.app.jobs.failures(id)).failures).toEqual([])
})
