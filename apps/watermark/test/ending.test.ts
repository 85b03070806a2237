import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Shown } from '../../../test/support/apps/client.ts'
import { until } from '../../../test/support/until.ts'
import type { MarkRequest } from '../src/media.ts'
import { Rig } from './rig.ts'

let rig: Rig
beforeAll(async () => {
  rig = await Rig.open()
})
beforeEach(() => {
  rig.media.onMark = () => undefined
  rig.media.marked.length = 0
})

const statesOf = ({ tokens }: Shown): string[] => tokens.map(({ state }: Shown) => state)
const inMs = (ms: number): string => new Date(rig.kit.clock.nowMs() + ms).toISOString()

/** An encode that goes on until it is told to stop. */
function endless(): { begun: () => boolean; isStopped: () => boolean } {
  let request: MarkRequest | null = null
  rig.media.onMark = (given) => {
    request = given
    return new Promise((_, reject) => given.signal.addEventListener('abort', () => reject(given.signal.reason)))
  }
  return { begun: () => request !== null, isStopped: () => request?.signal.aborted ?? false }
}

describe('a campaign that is stopped', () => {
  test('is EXPIRED at once: links lead nowhere, waiting copies are not made, and running encodes end', async () => {
    const made = await rig.published(['Rita'])
    await rig.idle()
    const encode = endless()
    const { id, tokens } = await rig.published(['Sam', 'Tom'])
    await until('a copy is being made', async () => {
      await rig.kit.tick()
      return encode.begun()
    })
    for (const campaign of [id, made.id]) {
      const stopped = await rig.as('ann').post(`/campaigns/${campaign}/stop`, { reason: 'the wrong film' })
      expect([stopped.status, stopped.json.state]).toEqual([200, 'EXPIRED'])
      expect(new Set(statesOf(stopped.json))).toEqual(new Set(['EXPIRED']))
    }
    await until('the encode has ended', async () => {
      await rig.advance('15s')
      return encode.isStopped()
    })
    await rig.idle()
    expect(rig.media.marked.length).toBeLessThan(4)
    for (const { id: tokenId } of tokens) expect((await rig.app.jobs.find(tokenId))?.status).toBe('cancelled')
    for (const { link } of [...tokens, ...made.tokens]) {
      expect(await rig.as('nobody').get(link)).toMatchObject({ status: 404, json: { error: { code: 'LINK_EXPIRED' } } })
    }
    const { entries } = await rig.app.perform('audit.list', {})
    expect(JSON.stringify(entries)).toContain('the wrong film')
  })

  test('stays stopped when it is stopped again or retried, and a draft cannot be stopped', async () => {
    const { id, tokens } = await rig.published(['Rita'])
    await rig.idle()
    const first = await rig.as('ann').post(`/campaigns/${id}/stop`)
    await rig.kit.advance('1m')
    const second = await rig.as('ann').post(`/campaigns/${id}/stop`)
    expect([second.status, second.json.expiresAt]).toEqual([200, first.json.expiresAt])
    expect((await rig.as('ann').post(`/campaigns/${id}/tokens/${tokens[0].id}/retry`)).status).toBe(400)
    const draft = await rig.draft(['Rita'])
    expect(await rig.as('ann').post(`/campaigns/${draft.id}/stop`)).toMatchObject({
      status: 409,
      json: { error: { code: 'CAMPAIGN_NOT_PUBLISHED' } },
    })
  })

  test('is stopped only by its owner or an operator, and is not found by other owners', async () => {
    const { id } = await rig.published(['Rita'])
    expect((await rig.as('bob').post(`/campaigns/${id}/stop`)).status).toBe(404)
    expect((await rig.as('viewer').post(`/campaigns/${id}/stop`)).status).toBe(403)
    expect((await rig.as('nobody').post(`/campaigns/${id}/stop`)).status).toBe(401)
    expect((await rig.as('ann').post(`/campaigns/${id}/stop`, { why: 'x' })).status).toBe(400)
    expect((await rig.as('operator').post(`/campaigns/${id}/stop`)).status).toBe(200)
  })
})

describe('a campaign whose time comes while copies are made', () => {
  test('is EXPIRED at once, and makes no copy any more', async () => {
    const { id, tokens } = await rig.published(['Rita', 'Sam'], { expiresAt: inMs(60_000) })
    expect(await rig.campaign(id)).toMatchObject({ state: 'PROCESSING' })
    await rig.kit.clock.advance(60_000)
    expect(await rig.campaign(id)).toMatchObject({ state: 'EXPIRED' })
    await rig.advance('1m')
    expect(rig.media.marked).toEqual([])
    for (const token of tokens) expect((await rig.app.jobs.find(token.id))?.status).toBe('cancelled')
    expect(statesOf(await rig.campaign(id))).toEqual(['EXPIRED', 'EXPIRED'])
  })

  test('ends an encode that is under way', async () => {
    const encode = endless()
    const { tokens } = await rig.published(['Rita'], { expiresAt: inMs(300) })
    await until('the encode began, and was told to stop at the end', async () => {
      await rig.kit.tick()
      return encode.begun() && encode.isStopped()
    })
    await until('the copy is cancelled', async () => {
      await rig.advance('15s')
      return (await rig.app.jobs.find(tokens[0].id))?.status === 'cancelled'
    })
  })
})
