import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Shown } from '../../../test/support/apps/client.ts'
import { S3Server } from '../../../test/support/s3/server.ts'
import { Rig } from './rig.ts'
import { VIDEO } from './stand-in.ts'

let bucket: S3Server
let rig: Rig
beforeAll(async () => {
  bucket = await S3Server.start({ buckets: ['media'] })
  const { accessKeyId, secretAccessKey } = bucket.credentials
  rig = await Rig.open({
    env: {
      WATERMARK_ASSETS_DIR: bucket.storeUrl('media', 'assets'),
      WATERMARK_COPIES_DIR: bucket.storeUrl('media', 'copies'),
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
    },
  })
})
afterAll(() => bucket.stop())

const jobOf = async ({ id }: Shown): Promise<Shown> => rig.app.jobs.find(id)

test('sources and copies may lie in buckets: uploaded, marked, downloaded in parts, searched, and removed when it is over', async () => {
  const expiresAt = new Date(rig.kit.clock.nowMs() + 3_600_000).toISOString()
  const { id, tokens, assetId } = await rig.published(['Rita'], { expiresAt })
  await rig.idle()
  expect(await rig.campaign(id)).toMatchObject({ state: 'READY' })
  const [token] = tokens
  const expected = `Rita|${token.id}|${VIDEO}`
  const part = await rig.as('nobody').get(token.link, { range: 'bytes=5-' })
  expect([part.status, part.text]).toEqual([206, expected.slice(5)])
  const whole = await rig.as('nobody').get(token.link)
  expect([whole.status, whole.text]).toEqual([200, expected])
  expect((await rig.as('ann').get(`/assets/${assetId}/thumbnail`)).text).toBe('small')

  const sent = await rig.as('ann').upload(`/campaigns/${id}/detect`, Buffer.from(whole.text), 'leak.mp4')
  await rig.idle()
  expect(await jobOf(sent.json)).toMatchObject({ status: 'complete', result: { verdict: 'match' } })

  await rig.advance('2h')
  expect((await rig.as('nobody').get(token.link)).status).toBe(404)
  expect([...bucket.bucket('media').objects.keys()].filter((key) => key.startsWith('copies/'))).toEqual([])
})

test('a bucket that refuses writes for a while is retried, and downloaders see no cause [W23]', async () => {
  bucket.plan({ kind: 'answer', code: 'AccessDenied', status: 403 }, { operation: 'PutObject' })
  const refused = await rig.as('ann').upload('/assets', VIDEO, 'spring.mov')
  expect(refused).toMatchObject({ status: 502, json: { error: { code: 'STORAGE_FAILED' } } })
  expect(refused.text).not.toContain('AccessDenied')

  const { id, tokens } = await rig.draft(['Rita'])
  bucket.plan({ kind: 'answer', code: 'AccessDenied', status: 403 }, { operation: 'PutObject' })
  await rig.as('ann').post(`/campaigns/${id}/publish`)
  await rig.idle()
  expect(await jobOf(tokens[0])).toMatchObject({ status: 'queued', errorCode: 'WRITE_FAILED', retryCount: 1 })
  await rig.advance('1m')
  expect(await rig.campaign(id)).toMatchObject({ state: 'READY' })
})
