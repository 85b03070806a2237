import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { Scene } from '../../../../test/support/scene.ts'
import { hookServer } from '../../../../test/support/servers/hooks.ts'
import { mailServer } from '../../../../test/support/servers/smtp.ts'
import { ownDatabase } from '../../../../test/support/stores/databases.ts'
import { startPostgres, type TestPostgres } from '../../../../test/support/stores/postgres.ts'
import { temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import { until } from '../../../../test/support/until.ts'
import { App } from '../../src/app/app.ts'
import type { Channel } from '../../src/app/channels.ts'
import { email } from '../../src/notify/email.ts'
import { webhook } from '../../src/notify/webhook.ts'

/** Real servers, real time, and handlers that hold every ordinary slot for ever. */

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

let postgres: TestPostgres
beforeAll(async () => {
  postgres = await startPostgres()
})
afterAll(() => postgres.stop())

const LOCATIONS = {
  sqlite: async () => `sqlite:${temporaryFolder()}/redress.db`,
  postgres: () => ownDatabase(postgres.url),
}

const mailTo = (port: number): Channel =>
  email({ smtp: { host: '127.0.0.1', port }, from: 'redress@example.org', to: () => ['ann@example.com'] })

function newApp(store: string): App {
  const app = new App({ store })
  onTestFinished(() => app.stop({ graceMs: 0 }))
  return app
}

/** Jobs that never end, and a submission that is refused: its failure needs no slot. */
function declare(app: App): { running: () => number } {
  let running = 0
  app.job('encode', {
    policy: { timeout: { attempt: null } },
    run: (_: unknown, { signal }) => {
      running++
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    },
  })
  app.job('strict', {
    policy: { reject: 'record', notify: { failed: ['owner', 'ops'], window: 0 } },
    admit: () => {
      throw new Error('never good enough')
    },
    run: () => undefined,
  })
  return { running: () => running }
}

describe.each(['sqlite', 'postgres'] as const)('on %s', (kind) => {
  test('a failure is announced while handlers that never end hold every slot of the worker', async () => {
    const [mail, hooks] = [await mailServer(), await hookServer()]
    const app = newApp(await LOCATIONS[kind]())
    const { running } = declare(app)
    app.channel('owner', mailTo(mail.port))
    app.channel('ops', webhook({ url: hooks.url, secrets: [SECRET] }))
    await app.submitMany('encode', [{}, {}, {}, {}])
    await app.work({ concurrency: 2 })
    await until('both slots are taken', () => running() === 2)
    await app.submit('strict', {})
    await until('the mail is there', () => mail.mails.length === 1)
    await until('the webhook is there', () => hooks.hooks.length === 1)
    expect(running(), 'deliveries take no slot, and give none').toBe(2)
  })

  test('a server without a worker that declares the channel announces a failure', async () => {
    const mail = await mailServer()
    const location = await LOCATIONS[kind]()
    const worker = newApp(location)
    const { running } = declare(worker)
    await worker.submitMany('encode', [{}, {}])
    await worker.work({ concurrency: 1 })
    await until('the slot is taken', () => running() === 1)
    const server = newApp(location)
    server.channel('owner', mailTo(mail.port))
    await server.startMaintenance()
    await worker.submit('strict', {})
    await until('the mail is there', () => mail.mails.length === 1)
    const { workers } = await server.perform('workers.list', {})
    expect(workers.map(({ types }) => types.toSorted())).toEqual(expect.arrayContaining([['redress.notify.owner']]))
  })
})

test('a mail server that hangs holds up its own deliveries only', async () => {
  const hang = Promise.withResolvers<undefined>()
  const [mail, hooks] = [await mailServer({ onMessage: () => hang.promise }), await hookServer()]
  const app = newApp('sqlite::memory:')
  declare(app)
  const done: unknown[] = []
  app.job('quick', { run: () => void done.push(1) })
  app.channel('owner', mailTo(mail.port))
  app.channel('ops', webhook({ url: hooks.url, secrets: [SECRET] }))
  for (let i = 0; i < 30; i++) await app.submit('strict', {})
  await app.work({ concurrency: 1 })
  await until('every webhook is there', () => hooks.hooks.length === 30)
  await app.submit('quick', {})
  await until('the job is done', () => done.length === 1)
  expect(mail.mails).toEqual([])
  hang.resolve(undefined)
})

describe('in virtual time', () => {
  /** A channel whose deliveries end when the test says so. */
  function gated() {
    const gate = Promise.withResolvers<void>()
    const told: string[] = []
    let underWay = 0
    let underWayMax = 0
    const channel: Channel = {
      kind: 'gated',
      async deliver(_notice, { id }) {
        underWayMax = Math.max(underWayMax, ++underWay)
        await gate.promise
        underWay--
        told.push(id)
        return { to: ['ann'], answer: 'taken' }
      },
    }
    return { channel, told, open: () => gate.resolve(), underWayMax: () => underWayMax }
  }

  test('a backlog of deliveries takes no slot of the jobs, and is delivered in the end, each once', async () => {
    const scene = new Scene()
    onTestFinished(() => scene.end())
    const { channel, told, open, underWayMax } = gated()
    declare(scene.app)
    const done: unknown[] = []
    scene.app.job('quick', { run: () => void done.push(1) })
    scene.app.channel('owner', channel)
    for (let i = 0; i < 1_000; i++) {
      await scene.app.notify('news', { channels: ['owner'], subject: `number ${i}` })
    }
    const worker = await scene.worker({ concurrency: 1 })
    await worker.runDuties()
    await scene.pass(100)
    await scene.app.submitMany('quick', Array(20).fill({}))
    await scene.pass(100)
    expect(done).toHaveLength(20)
    expect(told).toEqual([])
    expect(underWayMax()).toBe(4)
    open()
    for (let i = 0; i < 300 && told.length < 1_000; i++) await scene.pass(100)
    expect(new Set(told).size).toBe(1_000)
    expect(underWayMax()).toBe(4)
  })

  test('a worker that stops lets a delivery end that has begun', async () => {
    const scene = new Scene()
    onTestFinished(() => scene.end())
    const { channel, told, open } = gated()
    scene.app.channel('owner', channel)
    await scene.app.notify('news', { channels: ['owner'], subject: 'one' })
    const worker = await scene.worker({ concurrency: 1 })
    await worker.runDuties()
    await scene.pass(0)
    const stopping = worker.stop({ graceMs: 10_000 })
    open()
    await scene.clock.advance(1_000)
    await stopping
    expect(told).toHaveLength(1)
    const { deliveries } = await scene.app.perform('notices.deliveries', {})
    expect(deliveries).toEqual([expect.objectContaining({ state: 'sent' })])
  })
})
