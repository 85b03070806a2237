import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { App, ArtifactHead } from 'redress'
import { attachment } from '../shared/file-names.ts'
import { type Refusal, Refused } from '../shared/refused.ts'
import type { Rows } from '../shared/rows.ts'
import { isPast } from './campaign-view.ts'
import { type CampaignRow, countDownload, findCampaign, findToken, type TokenRow } from './campaigns.ts'
import { copyKey, type Files, isMissing } from './files.ts'
import type { Links } from './links.ts'
import type { CopyResult } from './marking.ts'

export interface DownloadOptions {
  app: App
  rows: Rows
  files: Files
  links: Links
  isHttps: boolean
}

const COOKIE = 'wm-download'
const COOKIE_SECONDS = 6 * 3_600
const PREPARING_SECONDS = 15
/** A player asks for a few bytes to see what it will get, before it asks for everything. */
const PROBE_BYTES_MAX = 1_024
const PROBED_BYTES_MIN = 64 * 1_024

/**
 * `GET /d/LINK`: a recipient's copy, for whoever has the link.
 *
 * A download counts when its beginning is asked for. Who was counted gets a signed proof of it, as a cookie for browsers
 * and inside the ETag for those who go on with `If-Range`; with it, later parts of the same file are free for some hours,
 * so that a line that breaks, or a film that is wound forward, does not use up the next download. A part from the middle
 * without the proof counts as a download of its own: otherwise the whole file could be had from its second byte on.
 */
export function addDownloads(server: FastifyInstance, options: DownloadOptions): void {
  server.get('/d/:link', async (request, reply) => {
    void reply.header('cache-control', 'private, no-store').header('referrer-policy', 'no-referrer')
    const { link } = request.params as { link: string }
    const { app, rows, files, links, isHttps } = options
    const id = links.tokenOf(link)
    const token = id === null ? null : await findToken(rows, id)
    const campaign = token === null ? null : await findCampaign(rows, token.campaign_id, null)
    const nowMs = await (await app.store()).nowMs()
    if (token === null || campaign === null || campaign.state === 'DRAFT') throw new Refused(NOT_THERE)
    if (isPast(campaign, nowMs)) throw new Refused(EXPIRED)
    if (token.revoked_at !== null) throw new Refused(REVOKED)
    const copy = await copyOf(app, token.id)
    if (copy.kind === 'preparing') return preparing(reply, copy.progress)
    const head = await headOf(files, token.id)
    const asked = askedOf(request, head, token, { links, nowMs })
    const isMore = request.method === 'HEAD' || asked.isProbe || asked.grant !== null
    const isConsumed = campaign.max_downloads !== null && token.downloads >= campaign.max_downloads
    if (isMore ? isConsumed && asked.grant === null : !(await countDownload(rows, token.id, campaign.max_downloads))) {
      throw new Refused(await whyNot(rows, campaign, token.id))
    }
    const grant = asked.grant ?? (isMore ? null : links.grant(token.id, nowMs))
    if (grant !== null) {
      const cookie = {
        path: request.url.split('?')[0] ?? '/d',
        httpOnly: true,
        sameSite: 'lax',
        secure: isHttps,
      } as const
      void reply.setCookie(COOKIE, grant, { ...cookie, maxAge: COOKIE_SECONDS })
    }
    return send(request, reply, { files, head, result: copy.result, range: asked.range, grant })
  })
}

type Copy = { kind: 'preparing'; progress: number } | { kind: 'ready'; result: CopyResult }

async function copyOf(app: App, tokenId: string): Promise<Copy> {
  const job = await app.find(tokenId)
  if (job?.status === 'complete') return { kind: 'ready', result: job.result as CopyResult }
  if (job?.status === 'failed' || job?.status === 'cancelled') throw new Refused(NOT_MADE)
  return { kind: 'preparing', progress: Math.floor((job?.progress ?? 0) * 100) }
}

function preparing(reply: FastifyReply, progress: number): FastifyReply {
  const message = 'Your copy is being prepared. Come back in a moment.'
  return reply.code(202).header('retry-after', PREPARING_SECONDS).send({ state: 'PROCESSING', progress, message })
}

async function headOf({ copies }: Files, tokenId: string): Promise<ArtifactHead> {
  try {
    return await copies.head(copyKey(tokenId))
  } catch (error) {
    if (isMissing(error)) throw new Refused(EXPIRED)
    throw error
  }
}

interface Range {
  start: number
  end: number
}

interface Asked {
  range: Range | null
  /** The proof that what is asked for belongs to a download that was counted. */
  grant: string | null
  isProbe: boolean
}

function askedOf(
  request: FastifyRequest,
  { bytes, sha256 }: ArtifactHead,
  { id }: TokenRow,
  { links, nowMs }: { links: Links; nowMs: number },
): Asked {
  const ifRange = request.headers['if-range']
  const [, tag = '', ofTag = ''] = /^"([0-9a-f]+)-([\w.-]+)"$/.exec(String(ifRange ?? '')) ?? []
  // Who has the beginning of another file gets all of this one.
  const isOther = ifRange !== undefined && (sha256 === null || tag !== tagOf(sha256))
  const range = isOther ? null : rangeOf(request.headers.range, bytes)
  const grants = [request.cookies[COOKIE] ?? '', ofTag]
  const grant = grants.find((one) => one !== '' && links.isGranted(id, one, nowMs)) ?? null
  const isProbe =
    range !== null && range.start === 0 && range.end < PROBE_BYTES_MAX && bytes >= PROBED_BYTES_MIN && grant === null
  return { range, grant: range !== null && range.start > 0 ? grant : null, isProbe }
}

/** One range; whatever else is asked for gets the whole, as HTTP allows. */
function rangeOf(header: string | undefined, bytes: number): Range | null {
  const [, from, to] = /^bytes=(\d{1,15})?-(\d{1,15})?$/.exec(header ?? '') ?? []
  if (from === undefined && to === undefined) return null
  const start = from === undefined ? Math.max(0, bytes - Number(to)) : Number(from)
  const end = from === undefined || to === undefined ? bytes - 1 : Math.min(bytes - 1, Number(to))
  if (start >= bytes) throw new Refused({ ...NO_SUCH_RANGE, headers: { 'content-range': `bytes */${bytes}` } })
  return end < start ? null : { start, end }
}

const tagOf = (sha256: string): string => sha256.slice(0, 32)

interface Sending {
  files: Files
  head: ArtifactHead
  result: CopyResult
  range: Range | null
  grant: string | null
}

async function send(
  request: FastifyRequest,
  reply: FastifyReply,
  { files, head, result, range, grant }: Sending,
): Promise<FastifyReply> {
  const { bytes, sha256, key } = head
  const length = range === null ? bytes : range.end - range.start + 1
  if (range !== null) void reply.code(206).header('content-range', `bytes ${range.start}-${range.end}/${bytes}`)
  if (sha256 !== null) void reply.header('etag', `"${tagOf(sha256)}${grant === null ? '' : `-${grant}`}"`)
  void reply
    .type(result.contentType)
    .header('content-length', length)
    .header('content-disposition', attachment(result.fileName))
    .header('accept-ranges', 'bytes')
  // A body that is left out; without one, its length would be said to be 0.
  if (request.method === 'HEAD') return reply.send(Readable.from([]))
  const { body } = await files.copies.get(key, range === null ? {} : { range })
  // Whoever leaves in the middle must not keep a file or a connection open.
  reply.raw.once('close', () => body.destroy())
  return reply.send(body)
}

async function whyNot(rows: Rows, { max_downloads }: CampaignRow, tokenId: string): Promise<Refusal> {
  const now = await findToken(rows, tokenId)
  return now?.revoked_at === null && max_downloads !== null ? CONSUMED : REVOKED
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
const NO_SUCH_RANGE: Refusal = {
  status: 416,
  code: 'RANGE_INVALID',
  message: 'The file does not have the bytes that were asked for.',
  action: 'Ask for bytes that it has.',
}
