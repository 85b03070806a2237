import { isMissing } from '@redress/shared/artifact-stores'
import { wantsPage } from '@redress/shared/pages'
import { described, type Refusal, Refused } from '@redress/shared/routes'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { App } from 'redress'
import { artifactFile, type FileFacts, type FileRange, type FileSource, sendFile } from 'redress/http'
import { API } from '../api.ts'
import { type CampaignRow, countDownload, findCampaign, findToken, type TokenRow } from '../campaigns/campaigns.ts'
import { isPast } from '../campaigns/view.ts'
import { copyKey, type Files } from '../files.ts'
import type { Pages } from '../page/index.ts'
import type { RouteContext } from '../route-context.ts'
import type { Links } from './links.ts'
import type { CopyResult } from './mark-job.ts'

const COOKIE = 'wm-download'
const COOKIE_SECONDS = 6 * 3_600
const PREPARING_SECONDS = 15
/** A player asks for a few bytes to see what it will get, before it asks for everything. */
const PROBE_BYTES_MAX = 1_024
const PROBED_BYTES_MIN = 64 * 1_024
const TAG_CHARS = 32
/** How long after the button was pressed the download may begin. */
const BEGIN_MS = 2 * 60_000

/**
 * Programs that open a link to show a preview, not to download the file. Most of them accept any type, as download
 * programs do, so only their names identify them.
 */
const PREVIEWS =
  /bot\b|bot[/-]|crawl|spider|preview|externalhit|facebookcatalog|meta-external|whatsapp|slack|telegram|discord|skypeuri|teams|viber|embedly|iframely|unfurl|linkexpand|mattermost|zoom|bitly|pinterest|vkshare|snap url|google-(read|safety|inspection)/i

/**
 * `GET /d/LINK`: a recipient's copy. Anyone who has the link can get it.
 *
 * Browsers and preview programs get a page with a button, which costs no download. The button sends a POST, which
 * previews never do. It counts the download and redirects to `?download=PROOF`. For a short while, this starts the
 * same download without counting again. Every other program gets the copy; `?download=1` always gives it.
 *
 * A download counts when its beginning is requested. The answer contains a signed proof: a cookie for browsers, and a
 * part of the ETag for clients that use `If-Range`. With the proof, later parts of the same file are free for some hours,
 * so a broken connection or a seek in a film does not cost another download. A part from the middle without the proof
 * counts as a download: otherwise a client could get almost the whole file without being counted.
 */
export function addDownloads(server: FastifyInstance, context: RouteContext): void {
  const { app, files } = context.options
  const { links } = context.options

  server.post('/d/:link', described(API.press), async (request, reply) => {
    const nowMs = await context.nowMs()
    const place = await resolveLink(context, request, nowMs)
    const copy = await copyOf(app, place.token.id)
    if (copy.kind === 'preparing') return preparing(request, reply, copy.progress, context.pagesFor(request))
    const proof = await admit(context, place, { grant: null, isLook: false }, nowMs)
    return reply.redirect(`${pathOf(request)}?download=${proof}`, 303)
  })

  server.get('/d/:link', described(API.download), async (request, reply) => {
    void reply.headers({ 'referrer-policy': 'no-referrer', vary: 'accept, user-agent' })
    const nowMs = await context.nowMs()
    const place = await resolveLink(context, request, nowMs)
    const copy = await copyOf(app, place.token.id)
    if (copy.kind === 'preparing') return preparing(request, reply, copy.progress, context.pagesFor(request))
    const { token } = place
    if (wantsLandingPage(request)) return landing(request, reply, context, place, copy.result)
    try {
      return await sendFile(request, reply, copyFile(files, token.id, copy.result), {
        contentType: copy.result.contentType,
        fileName: copy.result.fileName,
        isTagOf: (given, tag) => given.split('-')[0] === tag,
        async admit({ range, facts }) {
          const asked = accessOf(request, range, facts, token, { links, nowMs })
          const grant = await admit(context, place, asked, nowMs)
          if (grant === null) return facts.tag
          const path = pathOf(request)
          const secure = context.tools.isHttps
          void reply.setCookie(COOKIE, grant, { path, secure, httpOnly: true, sameSite: 'lax', maxAge: COOKIE_SECONDS })
          return `${facts.tag}-${grant}`
        },
      })
    } catch (error) {
      throw isMissing(error) ? new Refused(EXPIRED) : error
    }
  })
}

const pathOf = ({ url }: FastifyRequest): string => url.split('?')[0] ?? '/d'

/** A browser or a preview that did not ask for the copy itself. It gets the page with the button. */
function wantsLandingPage(request: FastifyRequest): boolean {
  const { download } = request.query as { download?: unknown }
  if (request.method !== 'GET' || download !== undefined) return false
  return wantsPage(request) || PREVIEWS.test(request.headers['user-agent'] ?? '')
}

/** The page with the button. It is not cached, and shows nothing that the link does not give access to. */
function landing(
  request: FastifyRequest,
  reply: FastifyReply,
  context: RouteContext,
  place: LinkTarget,
  copy: CopyResult,
): unknown {
  const { token, campaign } = place
  const left = campaign.max_downloads === null ? null : campaign.max_downloads - token.downloads
  if (left !== null && left <= 0) throw new Refused(CONSUMED)
  const { fileName, bytes } = copy
  // Without any referrer, the browser would send the form with `Origin: null`, and it would be refused.
  void reply.header('referrer-policy', 'same-origin')
  return context.pages.landing(request, reply, { action: pathOf(request), fileName, bytes, left })
}

/** A bucket may not know the checksum of its objects; the job does. */
function copyFile({ copies }: Files, tokenId: string, { sha256 }: CopyResult): FileSource {
  const { look, read } = artifactFile(copies, copyKey(tokenId))
  const tagged = <Facts extends FileFacts>(facts: Facts): Facts => ({ ...facts, tag: sha256.slice(0, TAG_CHARS) })
  return { look: async () => tagged(await look()), read: async (range) => tagged(await read(range)) }
}

interface LinkTarget {
  token: TokenRow
  campaign: CampaignRow
}

/** Finds the token and campaign of a link that is still open. */
async function resolveLink(
  { options: { rows, links } }: RouteContext,
  request: FastifyRequest,
  nowMs: number,
): Promise<LinkTarget> {
  const id = links.tokenOf((request.params as { link: string }).link)
  const token = id === null ? null : await findToken(rows, id)
  const campaign = token === null ? null : await findCampaign(rows, token.campaign_id, null)
  if (token === null || campaign === null || campaign.state === 'DRAFT') throw new Refused(NOT_THERE)
  if (isPast(campaign, nowMs)) throw new Refused(EXPIRED)
  if (token.revoked_at !== null) throw new Refused(REVOKED)
  return { token, campaign }
}

/** Counts the download and returns the proof; null if the request is only a probe. */
async function admit(
  { options: { rows, links } }: RouteContext,
  { token, campaign: { max_downloads } }: LinkTarget,
  { grant, isLook }: Access,
  nowMs: number,
): Promise<string | null> {
  if (grant !== null) return grant
  const isLeft = isLook
    ? max_downloads === null || token.downloads < max_downloads
    : await countDownload(rows, token.id, max_downloads)
  if (isLeft) return isLook ? null : links.grant(token.id, nowMs)
  // The link may have been revoked meanwhile.
  const isRevoked = (await findToken(rows, token.id))?.revoked_at !== null
  throw new Refused(isRevoked ? REVOKED : CONSUMED)
}

type Copy = { kind: 'preparing'; progress: number } | { kind: 'ready'; result: CopyResult }

async function copyOf(app: App, tokenId: string): Promise<Copy> {
  const job = await app.jobs.find(tokenId)
  if (job?.status === 'complete') return { kind: 'ready', result: job.result as CopyResult }
  if (job?.status === 'failed') throw new Refused(NOT_MADE)
  if (job?.status === 'cancelled') throw new Refused(EXPIRED)
  return { kind: 'preparing', progress: Math.floor((job?.progress ?? 0) * 100) }
}

function preparing(request: FastifyRequest, reply: FastifyReply, progress: number, pages: Pages | null): unknown {
  const message = 'Your copy is being prepared. Come back in a moment.'
  void reply.code(202).header('retry-after', PREPARING_SECONDS)
  if (pages !== null) return pages.preparing(request, reply, { progress })
  return reply.send({ state: 'PROCESSING', progress, message })
}

interface Access {
  /** The proof that the request belongs to a counted download. */
  grant: string | null
  /** Only what it is, or its first few bytes: no download. */
  isLook: boolean
}

function accessOf(
  request: FastifyRequest,
  range: FileRange | null,
  { bytes }: FileFacts,
  { id }: TokenRow,
  { links, nowMs }: { links: Links; nowMs: number },
): Access {
  const { download } = request.query as { download?: unknown }
  // A fresh proof from the button: this download is already counted, and starts only now.
  const pressed = typeof download === 'string' ? download : ''
  if (links.isGranted(id, pressed, nowMs, BEGIN_MS)) return { grant: pressed, isLook: false }
  const [, ofTag = ''] = /^"[0-9a-f]+-([\w.-]+)"$/.exec(String(request.headers['if-range'] ?? '')) ?? []
  const grants = [request.cookies[COOKIE] ?? '', ofTag, pressed]
  const grant = grants.find((one) => one !== '' && links.isGranted(id, one, nowMs)) ?? null
  const isProbe = range !== null && range.start === 0 && range.end < PROBE_BYTES_MAX && bytes >= PROBED_BYTES_MIN
  return { grant: range !== null && range.start > 0 ? grant : null, isLook: request.method === 'HEAD' || isProbe }
}

const NOT_THERE: Refusal = {
  status: 404,
  code: 'LINK_NOT_FOUND',
  message: 'There is nothing under this link.',
  action: 'Check that the link is complete, or ask whoever sent it.',
}
const EXPIRED: Refusal = {
  status: 404,
  code: 'LINK_EXPIRED',
  message: 'The time of this link is over.',
  action: 'Ask whoever sent it for another one.',
}
const REVOKED: Refusal = { ...EXPIRED, status: 410, code: 'LINK_REVOKED', message: 'This link was revoked.' }
const CONSUMED: Refusal = {
  ...EXPIRED,
  status: 410,
  code: 'LINK_CONSUMED',
  message: 'This link was used as often as it may be.',
}
const NOT_MADE: Refusal = {
  status: 409,
  code: 'NOT_READY',
  message: 'Your copy could not be made yet. Whoever sent the link was told.',
  action: 'Come back later.',
}
