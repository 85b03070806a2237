import type { FastifyInstance } from 'fastify'
import { type App, RedressError } from 'redress'
import type { Caller } from 'redress/http'
import { type Refusal, Refused } from '../shared/refused.ts'
import { viewToken } from './campaign-view.ts'
import { revokeToken, type TokenRow } from './campaigns.ts'
import { linksCsv } from './csv.ts'
import { type Desk, UPLOAD_MS } from './desk.ts'
import { DETECT } from './detecting.ts'
import { suspectKey } from './files.ts'
import { flash, wantsPage } from './pages.ts'
import { receiveFile } from './receive.ts'

/** What is done with the copies of a campaign. */
export function addTokenRoutes(server: FastifyInstance, desk: Desk): void {
  const { app, rows, files, links, settings, detect } = desk.options

  server.post('/campaigns/:id/tokens/:tokenId/retry', async (request, reply) => {
    const caller = await desk.writing(request)
    const campaign = await desk.campaignOf(request, caller)
    const token = await desk.tokenOf(request, campaign)
    const { state } = viewToken(token, await app.find(token.id), campaign, links, await desk.nowMs())
    if (state === 'FAILED' && (await retried(app, caller, token))) {
      return desk.changed(request, reply, campaign.id, `Retry queued for ${token.recipient_name}.`)
    }
    const pages = desk.pagesFor(request)
    if (pages === null) throw new Refused(NOT_FAILED)
    const shown = { caller, campaign: await desk.detail(campaign), flash: NOT_FAILED.message }
    return pages.campaign(request, reply.code(NOT_FAILED.status), shown)
  })

  server.post('/campaigns/:id/tokens/:tokenId/revoke', async (request, reply) => {
    const caller = await desk.writing(request)
    const campaign = await desk.campaignOf(request, caller)
    const token = await desk.tokenOf(request, campaign)
    await revokeToken(rows, campaign.id, token.id, await desk.nowMs())
    return desk.changed(request, reply, campaign.id, `The link of ${token.recipient_name} is revoked.`)
  })

  server.get('/campaigns/:id/links.csv', async (request, reply) => {
    const caller = await desk.reading(request)
    const campaign = await desk.campaignOf(request, caller)
    if (campaign.state === 'DRAFT') throw new Refused(NOT_PUBLISHED)
    const { tokens, id } = await desk.detail(campaign)
    const scheme = desk.tools.isHttps ? 'https' : request.protocol
    return reply
      .type('text/csv; charset=utf-8')
      .header('cache-control', 'private, no-store')
      .header('content-disposition', `attachment; filename="links-${id}.csv"`)
      .send(linksCsv(tokens, settings.publicUrl ?? `${scheme}://${request.host}`))
  })

  server.post('/campaigns/:id/detect', { config: { bodyMs: UPLOAD_MS } }, async (request, reply) => {
    const caller = await desk.writing(request)
    const campaign = await desk.campaignOf(request, caller)
    if (campaign.state === 'DRAFT') throw new Refused(NOT_PUBLISHED)
    const id = app.newId()
    const { fileName } = await receiveFile(request, files.assets, suspectKey(id), settings.uploadBytesMax)
    await detect.submit({ campaignId: campaign.id, fileName }, { id, owner: campaign.account_id })
    if (wantsPage(request)) return flash(reply, `/campaigns/${campaign.id}`, `${fileName} is being looked at.`)
    return reply.code(202).header('location', `/api/jobs/${id}`).send({ id, type: DETECT, status: 'queued' })
  })
}

/** Sends a token's job back to the queue with a fresh budget (W19, W31). False when it is not failed any more. */
async function retried(app: App, caller: Caller, { id, recipient_name }: TokenRow): Promise<boolean> {
  try {
    await app.performAs(caller, 'jobs.retry', { id, reason: `the copy for ${recipient_name} again` })
    return true
  } catch (error) {
    // Somebody else was quicker.
    if (error instanceof RedressError && error.code === 'JOB_WRONG_STATE') return false
    throw error
  }
}

const NOT_FAILED: Refusal = {
  status: 400,
  code: 'TOKEN_NOT_FAILED',
  message: 'Token is not in a failed state.',
  action: 'Look at the campaign again: it may have moved on since you looked.',
}

const NOT_PUBLISHED: Refusal = {
  status: 409,
  code: 'CAMPAIGN_NOT_PUBLISHED',
  message: 'This campaign is a draft: it has no links and no copies yet.',
  action: 'Publish it first.',
}
