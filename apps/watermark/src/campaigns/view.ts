import type { App, BatchView, JobView } from 'redress'
import { z } from 'zod'
import type { Links } from '../copies/links.ts'
import type { Rows } from '../rows/rows.ts'
import { type CampaignRow, countTokens, findToken, type TokenRow, tokensOf } from './campaigns.ts'

const campaignStates = ['DRAFT', 'PROCESSING', 'READY', 'PARTIAL', 'FAILED', 'EXPIRED'] as const
export type CampaignState = (typeof campaignStates)[number]
const badges = ['PENDING', 'PROCESSING', 'ACTIVE', 'FAILED', 'CONSUMED', 'EXPIRED'] as const
export type Badge = (typeof badges)[number]

type Came = Pick<BatchView['counts'], 'complete' | 'failed'>

/**
 * W24, W25, in the words of campaigns. A cancelled copy is not a failure; when a campaign ends, its remaining copies
 * are cancelled.
 */
export function campaignState(state: BatchView['state'], { complete, failed }: Came): CampaignState {
  if (state === 'open') return 'PROCESSING'
  if (state === 'expired' || state === 'cancelled') return 'EXPIRED'
  if (failed === 0) return 'READY'
  return complete === 0 ? 'FAILED' : 'PARTIAL'
}

export const campaignSchema = z.object({
  id: z.string(),
  owner: z.string(),
  assetId: z.string(),
  name: z.string(),
  state: z.enum(campaignStates),
  maxDownloads: z.number().nullable(),
  expiresAt: z.string().nullable(),
  visible: z.boolean(),
  invisible: z.boolean(),
  createdAt: z.string(),
  publishedAt: z.string().nullable(),
  counts: z.object({
    total: z.number(),
    completed: z.number(),
    failed: z.number(),
    pending: z.number(),
    running: z.number(),
  }),
})
export type CampaignView = z.infer<typeof campaignSchema>

const tokenSchema = z.object({
  id: z.string(),
  name: z.string(),
  email: z.string(),
  state: z.enum(badges),
  progress: z.number().nullable().describe('in percent, while it is PROCESSING'),
  retryCount: z.number(),
  maxRetries: z.number(),
  nextRetryAt: z.string().nullable().describe('when it is tried again'),
  waiting: z.string().nullable().describe('why it is tried again'),
  error: z.object({ code: z.string(), message: z.string() }).nullable().describe('only where it is FAILED'),
  downloads: z.number(),
  revokedAt: z.string().nullable(),
  link: z.string().nullable().describe('null as long as the campaign is a draft'),
})
export type TokenView = z.infer<typeof tokenSchema>

export const campaignDetailSchema = campaignSchema.extend({ tokens: z.array(tokenSchema) })
export type CampaignDetail = z.infer<typeof campaignDetailSchema>

const iso = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())

export async function viewCampaign(
  { app, rows }: { app: App; rows: Rows },
  campaign: CampaignRow,
): Promise<CampaignView> {
  const view = viewWith(campaign, await batchOf(app, campaign), await (await app.store()).nowMs())
  if (campaign.state !== 'DRAFT') return view
  const total = await countTokens(rows, campaign.id)
  return { ...view, counts: { ...view.counts, total, pending: total } }
}

async function batchOf(app: App, { id, state }: CampaignRow): Promise<BatchView | null> {
  return state === 'DRAFT' ? null : app.batches.find(id)
}

function viewWith(campaign: CampaignRow, batch: BatchView | null, nowMs: number): CampaignView {
  const { id, account_id, asset_id, name, max_downloads, expires_at, created_at, published_at } = campaign
  const { total = 0, complete = 0, failed = 0, queued = 0, processing = 0 } = batch?.counts ?? {}
  return {
    id,
    owner: account_id,
    assetId: asset_id,
    name,
    state: stateOf(campaign, batch, nowMs),
    maxDownloads: max_downloads,
    expiresAt: iso(expires_at),
    visible: campaign.visible_wm === 1,
    invisible: campaign.invisible_wm === 1,
    createdAt: new Date(created_at).toISOString(),
    publishedAt: iso(published_at),
    counts: { total, completed: complete, failed, pending: queued, running: processing },
  }
}

/** The batch is the only source for the state of a published campaign, until the campaign expires. */
function stateOf(campaign: CampaignRow, batch: BatchView | null, nowMs: number): CampaignState {
  const { state } = campaign
  if (state === 'DRAFT') return 'DRAFT'
  if (isPast(campaign, nowMs)) return 'EXPIRED'
  if (batch !== null) return campaignState(batch.state, batch.counts)
  // The batch does not exist yet, or was removed by hand.
  return state === 'PUBLISHING' ? 'PROCESSING' : 'EXPIRED'
}

const JOBS_PER_PAGE = 1_000

async function jobsOf(app: App, batch: string): Promise<Map<string, JobView>> {
  const jobs = new Map<string, JobView>()
  let cursor: string | null = null
  do {
    const filter = { batch, limit: JOBS_PER_PAGE, ...(cursor !== null && { cursor: Number(cursor) }) }
    const page = await app.jobs.list(filter)
    for (const job of page.jobs) jobs.set(job.id, job)
    cursor = page.nextCursor
  } while (cursor !== null)
  return jobs
}

export async function viewCampaignDetail(
  { app, rows, links }: { app: App; rows: Rows; links: Links },
  campaign: CampaignRow,
): Promise<CampaignDetail> {
  const batch = await batchOf(app, campaign)
  const nowMs = await (await app.store()).nowMs()
  const view = viewWith(campaign, batch, nowMs)
  const jobs = batch === null ? new Map<string, JobView>() : await jobsOf(app, campaign.id)
  const tokens = await tokensOf(rows, campaign.id)
  const total = batch === null ? tokens.length : view.counts.total
  const pending = batch === null ? tokens.length : view.counts.pending
  return {
    ...view,
    counts: { ...view.counts, total, pending },
    tokens: tokens.map((token) => viewToken(token, jobs.get(token.id) ?? null, campaign, links, nowMs)),
  }
}

/** Reads only some tokens of a campaign; the counts come from the batch. */
export async function viewCampaignPart(
  { app, rows, links }: { app: App; rows: Rows; links: Links },
  campaign: CampaignRow,
  tokenIds: readonly string[],
): Promise<CampaignDetail> {
  const nowMs = await (await app.store()).nowMs()
  const view = viewWith(campaign, await batchOf(app, campaign), nowMs)
  const tokens: TokenView[] = []
  for (const id of tokenIds) {
    const token = await findToken(rows, id)
    if (token === null || token.campaign_id !== campaign.id) continue
    tokens.push(viewToken(token, await app.jobs.find(id), campaign, links, nowMs))
  }
  return { ...view, tokens }
}

export function viewToken(
  token: TokenRow,
  job: JobView | null,
  campaign: CampaignRow,
  links: Links,
  nowMs: number,
): TokenView {
  const isOver = isPast(campaign, nowMs) || token.revoked_at !== null
  const state = isOver ? 'EXPIRED' : badgeOf(token, job, campaign)
  const { errorCode = null, errorMessage = null } = job ?? {}
  return {
    id: token.id,
    name: token.recipient_name,
    email: token.recipient_email,
    state,
    progress: state === 'PROCESSING' ? Math.floor((job?.progress ?? 0) * 100) : null,
    retryCount: job?.retryCount ?? 0,
    maxRetries: job === null ? 0 : job.maxAttempts - 1,
    nextRetryAt: state === 'PENDING' ? (job?.retryAfter ?? null) : null,
    // Between two attempts the waiting message is shown.
    waiting: state === 'PENDING' ? errorMessage : null,
    error: state === 'FAILED' && errorCode !== null ? { code: errorCode, message: errorMessage ?? '' } : null,
    downloads: token.downloads,
    revokedAt: iso(token.revoked_at),
    link: campaign.state === 'DRAFT' ? null : links.pathOf(token.id),
  }
}

export const isPast = ({ expires_at }: Pick<CampaignRow, 'expires_at'>, nowMs: number): boolean =>
  expires_at !== null && expires_at <= nowMs

/** W42. */
function badgeOf({ downloads }: TokenRow, job: JobView | null, { max_downloads }: CampaignRow): Badge {
  switch (job?.status) {
    case 'complete':
      return max_downloads !== null && downloads >= max_downloads ? 'CONSUMED' : 'ACTIVE'
    case 'failed':
      return 'FAILED'
    case 'cancelled':
      return 'EXPIRED'
    case 'processing':
      return 'PROCESSING'
    default:
      return 'PENDING'
  }
}
