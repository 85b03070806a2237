import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { running } from '../../../packages/redress/test/cli/command.ts'
import { until } from '../../../test/support/until.ts'
import { GatewayProcess, pdfSaying, Rig, temporary, Visitor } from './rig.ts'

let gateway: GatewayProcess
let hello: Uint8Array
beforeAll(async () => {
  gateway = await GatewayProcess.start()
  hello = await pdfSaying('Hello, processes')
})
afterEach(() => gateway.heal())
afterAll(() => gateway.stop())

const words = (folder: string) => ['--apps', 'pdf-xml', '--data', folder, '--grace', '30s']
const env = () => ({ GATEWAY_URL: gateway.url, WORKER_LEASE_TTL_SEC: '1', RETRY_BASE_DELAY_MS: '10' })
const isWorking = { says: 'Ctrl-C stops it' }

test('a conversion whose worker is killed is resumed by another worker and gives one XML [D18 D43 E14 E28]', async () => {
  const rig = await Rig.open({ gatewayUrl: gateway.url, env: { WORKER_LEASE_TTL_SEC: '1' }, hasWorker: false })
  const visitor = rig.visitor()
  await gateway.faults({ delayMs: 60_000 })
  const id = await visitor.uploaded(hello)
  const first = await running(['worker', ...words(rig.folder)], { ...isWorking, env: env() })
  await until('it is being converted', async () => (await visitor.job(id)).status === 'processing')
  const { worker: lost, leaseUntil } = (await rig.app.jobs.find(id)) ?? {}
  expect([typeof lost, typeof leaseUntil]).toEqual(['string', 'string'])
  first.child.kill('SIGKILL')
  await first.ended
  await gateway.heal()
  await running(['worker', ...words(rig.folder)], { ...isWorking, env: env() })
  await rig.until(id, 'complete')

  const job = await rig.app.jobs.find(id)
  expect([job?.attemptCount, job?.worker, job?.leaseUntil]).toEqual([2, null, null])
  const kinds = (await rig.app.jobs.events(id)).events.map(({ kind }) => kind).filter((kind) => kind !== 'started')
  expect(kinds).toEqual(['queued', 'processing', 'reclaimed', 'processing', 'complete'])
  expect(rig.files('results')).toEqual([`${id}.xml`])
  expect((await visitor.download(id)).text).toContain('Hello, processes')
})

test('SIGTERM lets the running conversion finish before the process exits [E19 E26]', async () => {
  const rig = await Rig.open({ gatewayUrl: gateway.url, hasWorker: false })
  const visitor = rig.visitor()
  await gateway.faults({ delayMs: 700 })
  const id = await visitor.uploaded(hello)
  const { child, ended } = await running(['worker', ...words(rig.folder)], { ...isWorking, env: env() })
  await until('it is being converted', async () => (await visitor.job(id)).status === 'processing')
  child.kill('SIGTERM')
  expect(await ended).toBe(0)
  expect(await visitor.job(id)).toMatchObject({ status: 'complete', attemptCount: 1 })
})

test('SIGTERM without time to finish requeues the conversion without lease and error [E19 E26]', async () => {
  const rig = await Rig.open({ gatewayUrl: gateway.url, hasWorker: false })
  const visitor = rig.visitor()
  await gateway.faults({ delayMs: 60_000 })
  const id = await visitor.uploaded(hello)
  const hurried = ['worker', '--apps', 'pdf-xml', '--data', rig.folder, '--grace', '100ms']
  const { child, ended } = await running(hurried, { ...isWorking, env: env() })
  await until('it is being converted', async () => (await visitor.job(id)).status === 'processing')
  child.kill('SIGTERM')
  await ended
  const job = await rig.app.jobs.find(id)
  expect([job?.status, job?.worker, job?.leaseUntil, job?.errorCode]).toEqual(['queued', null, null, null])
  expect((await rig.app.jobs.events(id)).events.at(-1)?.kind).toBe('released')
})

test('without GATEWAY_URL the server brings its own gateway, starts it again when it dies, and takes it along when it dies itself', async () => {
  const folder = temporary()
  const mappings = temporary()
  writeFileSync(join(mappings, 'receipt.json'), '{\n"name": "receipt"\n')
  const server = await running(['start', ...words(folder), '--port', '0'], {
    ...isWorking,
    env: { RETRY_BASE_DELAY_MS: '300', WORKER_LEASE_TTL_SEC: '5', MAPPINGS_DIR: mappings },
  })
  // What it has to say is in the log of the server.
  expect(server.stderr()).toMatch(/"level":"warn".*"event":"mapping_broken".*"msg":"receipt\.json:3: This is not JSON/)
  const gateways = () =>
    [...server.stderr().matchAll(/"event":"gateway_started".*?"pid":(\d+)/g)].map(([, pid]) => Number(pid))
  const url = /server {2}(\S+)/.exec(server.stdout())?.[1] ?? ''
  expect(server.stdout()).toContain(`page    ${url}/convert`)
  const visitor = new Visitor(url)
  const done = async (id: string) =>
    until(`${id} is complete`, async () => (await visitor.job(id)).status === 'complete')
  await done(await visitor.uploaded(hello))

  const [first = 0] = gateways()
  process.kill(first, 'SIGKILL')
  await until('another one is started', () => gateways().length === 2)
  await done(await visitor.uploaded(hello, { mapping: 'layout' }))

  const second = gateways()[1] ?? 0
  expect(isAlive(second)).toBe(true)
  server.child.kill('SIGKILL')
  await until('it ends with its parent', () => !isAlive(second))
})

/** A zombie waits only for somebody to look: it does nothing any more. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(join('/proc', String(pid), 'status'), 'utf8'))
  } catch {
    return false
  }
}
