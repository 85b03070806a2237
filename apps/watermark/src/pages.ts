import type { Refusal } from '@redress/shared/refused'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from 'redress/http'
import type { CampaignRow } from './campaigns/campaigns.ts'
import type { DraftProblem } from './campaigns/drafts.ts'
import type { CampaignDetail, CampaignView } from './campaigns/view.ts'
import type { DetectionView } from './detection/detections.ts'

/** What people see instead of JSON. Routes ask for it where a browser does. */
export interface Pages {
  campaigns(
    request: FastifyRequest,
    reply: FastifyReply,
    shown: { caller: Caller; campaigns: CampaignView[]; nextCursor: string | null },
  ): unknown
  /** A form that was refused, with everything that was typed into it. */
  draftAgain(
    request: FastifyRequest,
    reply: FastifyReply,
    shown: { caller: Caller; fields: Readonly<Record<string, string>>; problems: readonly DraftProblem[] },
  ): unknown
  /** `flash` is what was wrong with the form that led here; what a redirect left to be said is in a cookie. */
  campaign(
    request: FastifyRequest,
    reply: FastifyReply,
    shown: { caller: Caller; campaign: CampaignDetail; flash?: string },
  ): unknown
  detections(
    request: FastifyRequest,
    reply: FastifyReply,
    shown: { caller: Caller; campaign: CampaignRow; detections: DetectionView[] },
  ): unknown
  detection(
    request: FastifyRequest,
    reply: FastifyReply,
    shown: { caller: Caller; campaign: CampaignRow; detection: DetectionView },
  ): unknown
  /** A recipient opened a link. `left` is the number of downloads left; null if unlimited. */
  landing(
    request: FastifyRequest,
    reply: FastifyReply,
    shown: { action: string; fileName: string; bytes: number; left: number | null },
  ): unknown
  /** A recipient opened a link before the copy was there. */
  preparing(request: FastifyRequest, reply: FastifyReply, shown: { progress: number }): unknown
  /** Status and headers are there already. */
  refused(request: FastifyRequest, reply: FastifyReply, refusal: Refusal): unknown
}

const FLASH = 'wm-flash'
const FLASH_PATH = '/campaigns'
const FLASH_SECONDS = 60

/** Back to a page, which says once what was done. Kept in a cookie: words in an address could be anybody's. */
export function flash(reply: FastifyReply, path: string, said: string): FastifyReply {
  return reply
    .setCookie(FLASH, said, { path: FLASH_PATH, httpOnly: true, sameSite: 'lax', maxAge: FLASH_SECONDS })
    .redirect(path, 303)
}

/** What is to be said, which is then said. */
export function takeFlash(request: FastifyRequest, reply: FastifyReply): string | null {
  const said = request.cookies[FLASH] ?? ''
  if (said === '') return null
  void reply.clearCookie(FLASH, { path: FLASH_PATH })
  return said
}
