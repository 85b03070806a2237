import { described, type Refusal, Refused } from '@redress/shared/routes'
import type { FastifyInstance } from 'fastify'
import { type App, RedressError } from 'redress'
import type { Caller } from 'redress/http'
import { NOT_PUBLISHED } from '../access.ts'
import { API } from '../api.ts'
import { revokeToken, type TokenRow } from '../campaigns/campaigns.ts'
import { type TokenView, viewToken } from '../campaigns/view.ts'
import { CODES } from '../codes.ts'
import type { RouteContext } from '../route-context.ts'
/** The routes for the copies of a campaign. */
export function addTokenRoutes(server: FastifyInstance, context: RouteContext): void {
  const { app, rows, links } = context.options

  server.post('/campaigns/:id/tokens/:tokenId/retry', described(API.retryCopy), async (request, reply) => {
    const caller = await context.writing(request)
    const campaign = await context.campaignOf(request, caller)
    const token = await context.tokenOf(request, campaign)
    const { state } = viewToken(token, await app.jobs.find(token.id), campaign, links, await context.nowMs())
    const refusal = state === 'FAILED' ? await retry(app, caller, token) : NOT_FAILED
    if (refusal === null) {
      return context.changed(request, reply, campaign.id, `Retry queued for ${token.recipient_name}.`)
    }
    const pages = context.pagesFor(request)
    if (pages === null) throw new Refused(refusal)
    const shown = { caller, campaign: await context.detail(campaign), flash: refusal.message }
    return pages.campaign(request, reply.code(refusal.status), shown)
  })

  server.post('/campaigns/:id/tokens/:tokenId/revoke', described(API.revoke), async (request, reply) => {
    const caller = await context.writing(request)
    const campaign = await context.campaignOf(request, caller)
    const token = await context.tokenOf(request, campaign)
    await revokeToken(rows, campaign.id, token.id, await context.nowMs())
    return context.changed(request, reply, campaign.id, `The link of ${token.recipient_name} is revoked.`)
  })

  server.get('/campaigns/:id/links.csv', described(API.links), async (request, reply) => {
    const caller = await context.reading(request)
    const campaign = await context.campaignOf(request, caller)
    if (campaign.state === 'DRAFT') throw new Refused(NOT_PUBLISHED)
    const { tokens, id } = await context.detail(campaign)
    return reply
      .type('text/csv; charset=utf-8')
      .header('cache-control', 'private, no-store')
      .header('content-disposition', `attachment; filename="links-${id}.csv"`)
      .send(linksCsv(tokens, context.originOf(request)))
  })
}

/** Sends a token's job back to the queue with a fresh budget (W19, W31), or says why not. */
async function retry(app: App, caller: Caller, { id, recipient_name }: TokenRow): Promise<Refusal | null> {
  // A caller who may act on a campaign may retry one of its copies. The scopes were checked for the campaign and do
  // not name jobs.
  const actor = { ...caller, scopes: null }
  try {
    await app.performAs(actor, 'jobs.retry', { id, reason: `the copy for ${recipient_name} again` })
    return null
  } catch (error) {
    const code = error instanceof RedressError ? error.code : null
    // Another request was faster.
    if (code === 'JOB_WRONG_STATE') return NOT_FAILED
    if (code === 'RETRY_REFUSED') return SOURCE_GONE
    throw error
  }
}

const NOT_FAILED: Refusal = {
  status: 400,
  code: 'TOKEN_NOT_FAILED',
  message: 'Token is not in a failed state.',
  action: 'Look at the campaign again: it may have moved on since you looked.',
}
/** Nothing else keeps a failed copy from being made again. */
const SOURCE_GONE: Refusal = {
  status: 409,
  code: 'RETRY_REFUSED',
  message: CODES.SOURCE_MISSING.message,
  action: 'Clone the campaign with another file.',
}

/**
 * Makes a CSV field safe: a value that looks like a formula gets an apostrophe before it. Some spreadsheets also
 * accept the full-width signs of East Asian keyboards.
 */
function csvField(value: string): string {
  const safe = /^[=+\-@\t\r\n|＝＋－＠]/.test(value) ? `'${value}` : value
  return `"${safe.replaceAll('"', '""')}"`
}

/** The links of all recipients. The byte order mark keeps some programs from breaking names. */
function linksCsv(tokens: readonly TokenView[], origin: string): string {
  const lines = tokens.map(({ name, email, state, link }) => [name, email, state, `${origin}${link ?? ''}`])
  return `\ufeff${[['name', 'email', 'state', 'link'], ...lines].map((line) => line.map(csvField).join(',')).join('\r\n')}\r\n`
}
