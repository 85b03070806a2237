import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type App, failures, sseStream } from '../../src/index.ts'
import { TestKit } from '../../src/testing/kit.ts'
import { turns } from '../support/until.ts'

/** The live events of a campaign, as an app of its own would declare them (W34). */
function declareTokens(app: App) {
  const codes = failures({
    ASSET_GONE: { fault: 'caller', retry: 'never', message: 'The video file is gone.' },
    ENCODER_BUSY: {
      fault: 'dependency',
      retry: 'transient',
      message: 'Кодировщик ist “kaputt” 😀',
      waiting: 'Soon.',
    },
  })
  const watermark = app.job('watermark', {
    input: z.object({
      tokenId: z.number(),
      campaignId: z.number(),
      fails: z.enum(['ASSET_GONE', 'ENCODER_BUSY']).optional(),
    }),
    codes,
    policy: { retry: { max: 3 } },
    run: ({ fails }, attempt) => (fails === undefined ? 'ok' : attempt.fail(fails)),
  })
  app.hub.map(async (event) => {
    if (event.subject !== null || event.type !== 'watermark' || event.kind !== 'failed') return []
    const { tokenId, campaignId } = (await event.input()) as { tokenId: number; campaignId: number }
    const data = { token_id: tokenId, error: event.failure?.message }
    return [{ topics: [`token:${tokenId}`, `campaign:${campaignId}`], event: 'token_failed', data }]
  })
  return watermark
}

/** A browser: it has a connection, what it was told, and the last id it saw. */
function browser(app: App, ...topics: string[]) {
  const told: EventSourceMessage[] = []
  let lastEventId: string | undefined
  let reader: ReadableStreamDefaultReader<Uint8Array> | null = null
  const connect = async () => {
    const parser = createParser({
      onEvent: (message) => {
        lastEventId = message.id ?? lastEventId
        told.push(message)
      },
    })
    const subscription = app.hub.subscribe({ topics, ...(lastEventId !== undefined && { after: lastEventId }) })
    await subscription.ready
    reader = sseStream(subscription).getReader()
    const decoder = new TextDecoder()
    const read = reader
    void (async () => {
      for (;;) {
        const { done, value } = await read.read()
        if (done) return
        parser.feed(decoder.decode(value, { stream: true }))
      }
    })()
  }
  const heard = async () => {
    await turns(40)
    return told.map(({ event, data }) => ({ event, data: JSON.parse(data) as unknown }))
  }
  return { connect, disconnect: async () => reader?.cancel(), heard }
}

describe('live events of a campaign', () => {
  test('W34: token_failed {token_id, error} on token:{id} and campaign:{id}', async () => {
    const kit = new TestKit()
    const watermark = declareTokens(kit.app)
    const page = browser(kit.app, 'token:5')
    const list = browser(kit.app, 'campaign:9')
    const elsewhere = browser(kit.app, 'token:6', 'campaign:8')
    for (const one of [page, list, elsewhere]) await one.connect()
    await watermark.submitMany([
      { tokenId: 5, campaignId: 9, fails: 'ASSET_GONE' },
      { tokenId: 7, campaignId: 9 },
    ])
    await kit.drain()
    const failed = { event: 'token_failed', data: { token_id: 5, error: 'The video file is gone.' } }
    expect(await page.heard()).toEqual([failed])
    expect(await list.heard()).toEqual([failed])
    expect(await elsewhere.heard()).toEqual([])
    for (const one of [page, list, elsewhere]) await one.disconnect()
    expect(kit.app.hub.subscribers).toBe(0)
    await kit.stop()
  })

  test('W34: none while the job will be retried, and one when it has failed for good', async () => {
    const kit = new TestKit()
    const watermark = declareTokens(kit.app)
    const page = browser(kit.app, 'token:5')
    await page.connect()
    await watermark.submit({ tokenId: 5, campaignId: 9, fails: 'ENCODER_BUSY' })
    await kit.drain()
    const error = 'Кодировщик ist “kaputt” 😀'
    expect(await page.heard()).toEqual([{ event: 'token_failed', data: { token_id: 5, error } }])
    await page.disconnect()
    await kit.stop()
  })

  test('W34: none if no hub: an app to which nobody subscribes reads no events and runs no mapper', async () => {
    const kit = new TestKit()
    const watermark = declareTokens(kit.app)
    let mapped = 0
    kit.app.hub.map(() => {
      mapped++
      return []
    })
    const { id } = await watermark.submit({ tokenId: 5, campaignId: 9, fails: 'ASSET_GONE' })
    await kit.drain()
    await turns(40)
    expect(await kit.app.find(id)).toMatchObject({ status: 'failed' })
    expect(mapped).toBe(0)
    await kit.stop()
  })

  test('W46, W52: it reaches the browser without a reload, also one whose connection was cut meanwhile', async () => {
    const kit = new TestKit()
    const watermark = declareTokens(kit.app)
    const page = browser(kit.app, 'campaign:9')
    await page.connect()
    await watermark.submit({ tokenId: 1, campaignId: 9, fails: 'ASSET_GONE' })
    await kit.drain()
    expect(await page.heard()).toMatchObject([{ data: { token_id: 1 } }])
    await page.disconnect()
    await watermark.submitMany([2, 3].map((tokenId) => ({ tokenId, campaignId: 9, fails: 'ASSET_GONE' as const })))
    await kit.drain()
    await page.connect()
    await watermark.submit({ tokenId: 4, campaignId: 9, fails: 'ASSET_GONE' })
    await kit.drain()
    expect(await page.heard()).toEqual(
      [1, 2, 3, 4].map((token_id) => ({ event: 'token_failed', data: { token_id, error: 'The video file is gone.' } })),
    )
    await page.disconnect()
    await kit.stop()
  })
})
