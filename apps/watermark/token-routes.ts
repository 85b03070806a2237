import type { FastifyInstance } from 'fastify'
import { type App, RedressError } from 'redress'
import type { Caller } from 'redress/http'
import { type Refusal, Refused } from '../shared/refused.ts'
import { NOT_PUBLISHED } from './access.ts'
import { viewToken } from './campaign-view.ts'
import { revokeToken, type TokenRow } from './campaigns.ts'
import { CODES } from './codes.ts'
import { linksCsv } from './csv.ts'
import type { Desk } from './desk.ts'

/** What is done with the copies of a campaign. */
export function addTokenRoutes(server: FastifyInstance, desk: Desk): void {
  const { app, rows, links } = desk.options

  server.post('/campaigns/:id/tokens/:tokenId/retry', async (request, reply) => {
    const caller = await desk.writing(request)
    const campaign = await desk.campaignOf(request, caller)
    const token = await desk.tokenOf(request, campaign)
    const { state } = viewToken(token, await app.find(token.id), campaign, links, await desk.nowMs())
    const pages = desk.pagesFor(request)
    const onPage = async (status: number, said: string) => {
      const shown = { caller, campaign: await desk.detail(campaign), flash: said }
      return pages?.campaign(request, reply.code(status), shown)
    }
    try {
      if (state === 'FAILED' && (await retried(app, caller, token))) {
        return desk.changed(request, reply, campaign.id, `Retry queued for ${token.recipient_name}.`)
      }
    } catch (error) {
      if (pages === null || !isRefusedRetry(error)) throw error
      return onPage(409, CODES.SOURCE_MISSING.message)
    }
    if (pages === null) throw new Refused(NOT_FAILED)
    return onPage(NOT_FAILED.status, NOT_FAILED.message)
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
    return reply
      .type('text/csv; charset=utf-8')
      .header('cache-control', 'private, no-store')
      .header('content-disposition', `attachment; filename="links-${id}.csv"`)
      .send(linksCsv(tokens, desk.originOf(request)))
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

/** Nothing else keeps a failed copy from being made again. */
const isRefusedRetry = (error: unknown): boolean => error instanceof RedressError && error.code === 'RETRY_REFUSED'

const NOT_FAILED: Refusal = {
  status: 400,
  code: 'TOKEN_NOT_FAILED',
  message: 'Token is not in a failed state.',
  action: 'Look at the campaign again: it may have moved on since you looked.',
}
