import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from 'redress/http'
import type { Refusal } from '../shared/refused.ts'
import type { CampaignDetail, CampaignView } from './campaign-view.ts'

/** What people see instead of JSON. Routes ask for it where a browser does, and do without where there is none. */
export interface Pages {
  campaigns(
    request: FastifyRequest,
    reply: FastifyReply,
    shown: { caller: Caller; campaigns: CampaignView[]; nextCursor: string | null },
  ): unknown
  /** `flash` is what became of the form that led here; one that was left by a redirect is in the cookie `wm-flash`. */
  campaign(
    request: FastifyRequest,
    reply: FastifyReply,
    shown: { caller: Caller; campaign: CampaignDetail; flash?: string },
  ): unknown
  /** A recipient opened a link before the copy was there. */
  preparing(request: FastifyRequest, reply: FastifyReply, shown: { progress: number; message: string }): unknown
  /** Status and headers are there already. */
  refused(request: FastifyRequest, reply: FastifyReply, refusal: Refusal): unknown
}

export const wantsPage = ({ headers }: FastifyRequest): boolean => headers.accept?.includes('text/html') ?? false

const FLASH = 'wm-flash'
const FLASH_SECONDS = 60

/** Back to a page, which says once what was done. Kept in a cookie: words in an address could be anybody's. */
export function flash(reply: FastifyReply, path: string, said: string): FastifyReply {
  return reply
    .setCookie(FLASH, said, {
      path: '/campaigns',
      httpOnly: true,
      sameSite: 'lax',
      maxAge: FLASH_SECONDS,
    })
    .redirect(path, 303)
}
