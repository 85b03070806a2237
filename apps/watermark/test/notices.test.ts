import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { listen } from '../../../packages/redress/test/http/events/streams.ts'
import type { Shown } from '../../../test/support/apps/client.ts'
import { freePort, mailServer } from '../../../test/support/servers/smtp.ts'
import { until } from '../../../test/support/until.ts'
import { Rig } from './rig.ts'
import { corrupt, outOfMemory } from './stand-in.ts'

const SECRET = `whsec_${Buffer.alloc(32, 9).toString('base64')}`

let rig: Rig
let hook: Server
let smtpPort: number
const called: { headers: IncomingHttpHeaders; body: string }[] = []

beforeAll(async () => {
  hook = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += String(part)
    called.push({ headers: request.headers, body })
    response.end('thanks')
  }).listen(0, '127.0.0.1')
  await once(hook, 'listening')
  smtpPort = await freePort()
  rig = await Rig.open({
    env: {
      SMTP_URL: `smtp://127.0.0.1:${smtpPort}`,
      MAIL_FROM: 'campaigns@example.org',
      WEBHOOK_URL: `http://127.0.0.1:${(hook.address() as AddressInfo).port}/hook`,
      WEBHOOK_SECRET: SECRET,
      WATERMARK_PUBLIC_URL: 'https://marks.example.org',
      WATERMARK_MAX_RETRIES: '1',
    },
  })
})
afterAll(() => hook.close())
beforeEach(() => {
  called.length = 0
  rig.media.onMark = () => undefined
})

/** Deliveries are jobs of their own: they come after what they tell of. */
async function told(): Promise<void> {
  await until('everything is told', async () => {
    await rig.idle()
    const { notices } = await rig.app.perform('notices.list', { waiting: true })
    const { jobs } = await rig.app.jobs.list({ limit: 1_000 })
    return (
      notices.length === 0 && !jobs.some(({ type, status }) => type.startsWith('redress.') && status !== 'complete')
    )
  })
}

const bodies = (): Shown[] => called.map(({ body }) => JSON.parse(body).data)

test('the owner gets one mail for each failed copy and one for a PARTIAL campaign [W8 W9 W35 W36 W52 W53]', async () => {
  const { mails } = await mailServer({ port: smtpPort })
  rig.media.onMark = ({ visibleText }) => {
    if (visibleText === 'Sam') throw outOfMemory()
  }
  const { id } = await rig.published(['Rita', 'Sam', 'Tom'])
  await told()
  expect([mails.length, called.length]).toEqual([0, 0])
  await rig.advance('1m')
  await told()
  expect(mails.map(({ to, parsed }) => [to, parsed.subject])).toEqual(
    expect.arrayContaining([
      [['ann@example.org'], 'Spring: the copy for Sam failed'],
      [['ann@example.org'], 'Spring: 1 copy failed'],
    ]),
  )
  expect(mails).toHaveLength(2)
  const [copy, campaign] = [...mails]
    .sort((a, b) => (a.parsed.subject?.length ?? 0) - (b.parsed.subject?.length ?? 0))
    .reverse()
  expect(copy?.parsed.text).toContain('Hello ann,')
  expect(copy?.parsed.text).toContain('the copy of "Spring" for Sam could not be made.')
  expect(copy?.parsed.text).toContain('Watermarking ran out of memory each time.')
  expect(campaign?.parsed.text).toContain('of the copies of "Spring", 2 are ready and 1 failed.')
  expect(campaign?.parsed.text).toContain(`https://marks.example.org/campaigns/${id}`)
  expect(bodies()).toEqual([
    { campaign_id: id, name: 'Spring', owner: 'ann', state: 'PARTIAL', total: 3, completed: 2, failed: 1 },
  ])

  // A retry that goes well ends the campaign anew, which is told again, and mails nobody.
  rig.media.onMark = () => undefined
  const sam = (await rig.campaign(id)).tokens.find(({ name }: Shown) => name === 'Sam')
  await rig.as('ann').post(`/campaigns/${id}/tokens/${sam.id}/retry`)
  await rig.idle()
  await told()
  expect(bodies().map(({ state }) => state)).toEqual(['PARTIAL', 'READY'])
  expect(mails).toHaveLength(2)
})

test('a campaign whose copies all failed is announced as FAILED by mail and webhook [W36 W53]', async () => {
  const { mails } = await mailServer({ port: smtpPort })
  rig.media.onMark = () => {
    throw corrupt()
  }
  await rig.published(['Rita', 'Sam'])
  await rig.idle()
  await told()
  expect(mails.map(({ parsed }) => parsed.subject).sort()).toEqual([
    'Spring: all copies failed',
    'Spring: the copy for Rita failed',
    'Spring: the copy for Sam failed',
  ])
  const all = mails.find(({ parsed }) => parsed.subject?.includes('all copies'))
  expect(all?.parsed.text).toContain('none of the 2 copies of "Spring" could be made.')
  expect(bodies()).toMatchObject([{ state: 'FAILED', total: 2, completed: 0, failed: 2 }])
})

test('the webhook campaign_ready is signed and has the state READY [W53]', async () => {
  await rig.published(['Rita'])
  await rig.idle()
  await told()
  const [{ headers, body } = { headers: {}, body: '' }] = called
  expect(called).toHaveLength(1)
  expect(JSON.parse(body)).toMatchObject({ type: 'campaign_ready', data: { state: 'READY', completed: 1 } })
  // Its time is the test's, so its age is not what is checked here.
  const signed = new Webhook(SECRET).sign(
    String(headers['webhook-id']),
    new Date(Number(headers['webhook-timestamp']) * 1000),
    body,
  )
  expect(headers['webhook-signature']).toBe(signed)
})

test('a test notice arrives at the sender’s address and at the webhook, marked as a test', async () => {
  const { mails } = await mailServer({ port: smtpPort })
  for (const channel of ['watermark-mail', 'watermark-webhook']) {
    await rig.app.perform('notices.test', { channel, actor: 'olga', reason: 'do they go out?' })
  }
  await told()
  expect(mails.map(({ to }) => to)).toEqual([['campaigns@example.org']])
  expect(mails[0]?.parsed.text).toContain('do they go out?')
  expect(called.map(({ body }) => JSON.parse(body).type)).toEqual(['test'])
})

test('token_failed reaches its owner once on the token and the campaign topic, and nobody else [W34 W52]', async () => {
  await mailServer({ port: smtpPort })
  rig.media.onMark = ({ visibleText }) => {
    if (visibleText === 'Sam') throw outOfMemory()
  }
  const { id, tokens } = await rig.published(['Rita', 'Sam'])
  const [rita, sam] = tokens
  const world = { server: { url: rig.url }, tokens: rig.tokens } as never
  for (const topic of [`campaign:${id}`, `token:${sam.id}`]) {
    expect((await rig.as('bob').get(`/api/events?topic=${topic}`)).status, topic).toBe(403)
  }
  const ofCampaign = await listen(world, 'ann' as never, `?topic=campaign:${id}`)
  const ofToken = await listen(world, 'ann' as never, `?topic=token:${sam.id}`)
  const ofOther = await listen(world, 'ann' as never, `?topic=token:${rita.id}`)
  await rig.idle()
  // That a retry is to come is nobody's failure yet.
  expect(ofCampaign.told).toEqual([])
  await rig.advance('1m')
  const data = { token_id: sam.id, error: expect.stringContaining('ran out of memory each time') }
  expect((await ofCampaign.hear('token_failed')).data).toEqual(data)
  expect((await ofToken.hear('token_failed')).data).toEqual(data)
  await told()
  expect([ofCampaign.told.length, ofToken.told.length, ofOther.told.length]).toEqual([1, 1, 0])
})

test('a slow mail server delays neither copies nor campaigns [W36]', async () => {
  const answer = Promise.withResolvers<undefined>()
  const { mails, asked } = await mailServer({ port: smtpPort, onMessage: () => answer.promise })
  rig.media.onMark = () => {
    throw corrupt()
  }
  const failed = await rig.published(['Rita'])
  await until('the server holds a mail', async () => {
    await rig.kit.tick()
    return asked.length > 0
  })
  expect(await rig.campaign(failed.id)).toMatchObject({ state: 'FAILED' })
  rig.media.onMark = () => undefined
  const { id } = await rig.published(['Sam'])
  await until('the other campaign is ready', async () => {
    await rig.kit.tick()
    return (await rig.campaign(id)).state === 'READY'
  })
  expect(mails).toEqual([])
  answer.resolve(undefined)
  await told()
  expect(mails).toHaveLength(2)
})
