import { Webhook } from 'standardwebhooks'
import { expect, onTestFinished, test } from 'vitest'
import { keepingLog } from '../../../../test/support/scene.ts'
import { hookServer, type ReceivedHook } from '../../../../test/support/servers/hooks.ts'
import { freePort, mailServer } from '../../../../test/support/servers/smtp.ts'
import { until } from '../../../../test/support/until.ts'
import { email } from '../../src/notify/email.ts'
import { webhook } from '../../src/notify/webhook.ts'
import type { DeliveryView } from '../../src/operations/notices/notices.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { type TestKit, testKit } from '../../src/testing/kit.ts'

/** Real servers in a world whose time stands still unless it is moved: whatever waits for a retry waits for us. */

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const log = keepingLog()

function failingKit(channels: string[]): TestKit {
  const kit = testKit({ startMs: systemClock.nowMs(), log })
  onTestFinished(() => kit.stop())
  kit.app.job('work', {
    policy: { notify: { failed: channels } },
    run: () => Promise.reject(new Error('it broke')),
  })
  return kit
}

const mailTo = (port: number, ...to: string[]) =>
  email({ smtp: { host: '127.0.0.1', port, timeout: '10s' }, from: 'redress@example.org', to: () => to })

/** Lets real answers come in until the newest delivery stands so. */
async function stands(kit: TestKit, wanted: Partial<DeliveryView>): Promise<DeliveryView> {
  return until(`a delivery stands as ${JSON.stringify(wanted)}`, async () => {
    await kit.tick()
    const { deliveries } = await kit.app.perform('notices.deliveries', {})
    const isWanted = (one: DeliveryView) =>
      Object.entries(wanted).every(([key, value]) => one[key as keyof DeliveryView] === value)
    return deliveries.find(isWanted)
  })
}

test('451 is tried again, and then the mail is there once', async () => {
  const answers = [{ status: 451, text: 'come back later' }]
  const server = await mailServer({ onMessage: async () => answers.shift() })
  const kit = failingKit(['owner'])
  kit.app.channel('owner', mailTo(server.port, 'ann@example.com'))
  await kit.app.submit('work', {})
  const put = await stands(kit, { state: 'waiting', attempts: 1 })
  expect(put).toMatchObject({
    to: ['ann@example.com'],
    error: { code: 'RECIPIENT_DEFERRED', answer: '451 come back later' },
    sentAt: null,
  })
  await kit.advance('20s')
  expect(await stands(kit, { state: 'sent' })).toMatchObject({
    attempts: 2,
    to: ['ann@example.com'],
    answer: '250 2.0.0 taken as 1',
    error: null,
    sentAt: expect.any(String),
  })
  expect(server.mails.map(({ parsed }) => parsed.messageId)).toEqual([`<${put.id}@example.org>`])
})

test('550 is the end of it, and seen', async () => {
  const server = await mailServer({ onRecipient: () => ({ status: 550, text: 'no such user' }) })
  const kit = failingKit(['owner'])
  kit.app.channel('owner', mailTo(server.port, 'gone@example.com'))
  await kit.app.submit('work', {})
  expect(await stands(kit, { state: 'failed' })).toMatchObject({
    attempts: 1,
    to: ['gone@example.com'],
    error: { code: 'RECIPIENT_REFUSED', answer: '550 no such user' },
  })
  await kit.advance('1d')
  expect(server.asked).toHaveLength(1)
  expect((await kit.app.perform('notices.list', {})).notices).toHaveLength(1)
})

test('a recipient that was reached gets no second notice because another one was deferred', async () => {
  const server = await mailServer({
    onRecipient: (address, times) =>
      address.startsWith('full') && times === 1 ? { status: 452, text: 'mailbox full' } : undefined,
  })
  const kit = failingKit(['owner'])
  kit.app.channel('owner', mailTo(server.port, 'ann@example.com', 'full@example.com'))
  await kit.app.submit('work', {})
  const first = await stands(kit, { state: 'sent' })
  expect(first).toMatchObject({ to: ['ann@example.com'], later: { to: ['full@example.com'] } })
  await kit.advance('61s')
  await until('the rest is sent', async () => {
    await kit.tick()
    return server.mails.length === 2
  })
  expect(server.mails.map(({ to }) => to)).toEqual([['ann@example.com'], ['full@example.com']])
  expect(new Set(server.mails.map(({ parsed }) => parsed.messageId)).size).toBe(1)
})

test('a mail server that is down is waited for', async () => {
  const port = await freePort()
  const kit = failingKit(['owner'])
  kit.app.channel('owner', mailTo(port, 'ann@example.com'))
  await kit.app.submit('work', {})
  expect(await stands(kit, { state: 'waiting', attempts: 1 })).toMatchObject({ error: { code: 'CHANNEL_DOWN' } })
  const server = await mailServer({ port })
  await kit.advance('20s')
  await stands(kit, { state: 'sent', attempts: 2 })
  expect(server.mails).toHaveLength(1)
})

test('a webhook is sent again when the receiver asked for it, under the same id and with a good signature', async () => {
  const server = await hookServer((response, times) =>
    times === 1 ? response.writeHead(503, { 'retry-after': '60' }).end('restarting') : response.end('ok'),
  )
  const kit = failingKit(['ops'])
  kit.app.channel('ops', webhook({ url: server.url, secrets: [SECRET] }))
  await kit.app.submit('work', {})
  const put = await stands(kit, { state: 'waiting', attempts: 1 })
  expect(put.error).toMatchObject({ code: 'CHANNEL_REFUSED', answer: 'HTTP 503: restarting' })
  expect(Date.parse(String(put.nextAttemptAt)) - kit.clock.nowMs()).toBe(60_000)
  await kit.advance('61s')
  expect(await stands(kit, { state: 'sent' })).toMatchObject({ attempts: 2, answer: 'HTTP 200: ok' })
  const verified = server.hooks.map(({ body, headers }: ReceivedHook) =>
    new Webhook(SECRET).verify(body, headers as Record<string, string>),
  )
  expect(verified[0]).toEqual(verified[1])
  expect(verified[1]).toMatchObject({ type: 'job.failed', data: { job: { type: 'work' } } })
  expect(server.hooks.map(({ headers }) => headers['webhook-id'])).toEqual([put.id, put.id])
})

test('a receiver that always says "in a second" does not use up the attempts of hours', async () => {
  const server = await hookServer((response) => response.writeHead(429, { 'retry-after': '1' }).end())
  const kit = failingKit(['ops'])
  kit.app.channel('ops', webhook({ url: server.url, secrets: [SECRET] }))
  await kit.app.submit('work', {})
  const waits: number[] = []
  for (let attempts = 1; attempts < 6; attempts++) {
    const { nextAttemptAt } = await stands(kit, { state: 'waiting', attempts })
    const waitMs = Date.parse(String(nextAttemptAt)) - kit.clock.nowMs()
    waits.push(waitMs)
    kit.clock.jump(waitMs)
  }
  for (const [i, ownMs] of [15_000, 75_000, 375_000, 1_875_000, 9_375_000].entries()) {
    expect(Math.abs((waits[i] as number) - ownMs)).toBeLessThanOrEqual(ownMs * 0.2)
  }
  await stands(kit, { state: 'failed', attempts: 6 })
})

test('410 ends it, and the same notice reaches the other channel all the same', async () => {
  const gone = await hookServer((response) => response.writeHead(410).end())
  const server = await mailServer()
  const kit = failingKit(['ops', 'owner'])
  kit.app.channel('ops', webhook({ url: gone.url, secrets: [SECRET] }))
  kit.app.channel('owner', mailTo(server.port, 'ann@example.com'))
  await kit.app.submit('work', {})
  expect(await stands(kit, { channel: 'ops', state: 'failed' })).toMatchObject({ error: { code: 'CHANNEL_GONE' } })
  await stands(kit, { channel: 'owner', state: 'sent' })
  expect(server.mails).toHaveLength(1)
})

test('the log holds no secret', () => {
  expect(log.lines.length).toBeGreaterThan(0)
  expect(JSON.stringify(log.lines)).not.toContain(SECRET.slice(6))
})
