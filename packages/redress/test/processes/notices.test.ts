import { randomUUID } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { notifier, SECRET, STEPS } from '../../../../test/support/notifier.ts'
import { look, scratchFile } from '../../../../test/support/processes/processes.ts'
import { type HookServer, hookServer } from '../../../../test/support/servers/hooks.ts'
import { until } from '../../../../test/support/until.ts'
import { App } from '../../src/app/app.ts'

/** What was told, as its receiver sees it; each verified. */
const toldBy = ({ hooks }: HookServer) =>
  hooks.map(({ body, headers }) => {
    const { data } = new Webhook(SECRET).verify(body, headers as Record<string, string>) as {
      data: { job: { id: string } }
    }
    return { webhookId: String(headers['webhook-id']), jobId: data.job.id }
  })

/** Every delivery of this file has ended, and there are so many. */
const allSent = (file: string, count: number) => {
  const app = new App({ store: look(file) })
  return until(`${count} deliveries are recorded`, async () => {
    const { deliveries } = await app.perform('notices.deliveries', { limit: 1_000 })
    return deliveries.length === count && deliveries.every(({ state }) => state === 'sent') && deliveries
  })
}

describe('a process that is killed on the way from the failure to the one who is told', () => {
  test.each(STEPS)('%s: the notice is not lost, and told twice it carries the same id', async (dieAt) => {
    const file = scratchFile()
    const server = await hookServer()
    const submits = randomUUID()
    const first = notifier({ file, url: server.url, submits, dieAt })
    expect(await first.ended, first.stderr()).toBe('SIGKILL')
    notifier({ file, url: server.url, aheadMs: 60_000 })
    const [delivery] = await allSent(file, 1)
    const told = toldBy(server)
    const times = dieAt === 'after-send' ? 2 : 1
    expect(told).toEqual(Array(times).fill({ webhookId: delivery?.id, jobId: submits }))
  })
})

describe('several processes that relay at once', () => {
  test('make one job of each notice, and each is told once', async () => {
    const file = scratchFile()
    const server = await hookServer()
    const ids = Array.from({ length: 30 }, () => randomUUID())
    const app = new App({ store: `sqlite:${file}` })
    app.job('work', { policy: { notify: { failed: ['ops'], window: 0 } }, run: () => undefined })
    for (const id of ids) await app.submit('work', {}, { id })
    await app.stop()
    for (let i = 0; i < 3; i++) notifier({ file, url: server.url })
    const deliveries = await allSent(file, ids.length)
    const told = toldBy(server)
    expect(told.map(({ jobId }) => jobId).toSorted()).toEqual(ids.toSorted())
    expect(told.map(({ webhookId }) => webhookId).toSorted()).toEqual(deliveries.map(({ id }) => id).toSorted())
  })
})
