import { LAST_ID, type Page } from '../assets/assets.ts'
import type { Rows, Step } from '../rows/rows.ts'

export interface CampaignRow {
  id: string
  account_id: string
  asset_id: string
  name: string
  max_downloads: number | null
  expires_at: number | null
  visible_wm: 0 | 1
  invisible_wm: 0 | 1
  /** The progress of publishing. Afterwards the batch has the state. */
  state: 'DRAFT' | 'PUBLISHING' | 'PUBLISHED'
  created_at: number
  published_at: number | null
}

/** One recipient of a campaign. The link, the job and the copy are named after its id. */
export interface TokenRow {
  id: string
  campaign_id: string
  position: number
  recipient_name: string
  recipient_email: string
  downloads: number
  revoked_at: number | null
}

interface NewCampaign {
  id: string
  owner: string
  assetId: string
  name: string
  maxDownloads: number | null
  expiresAtMs: number | null
  visible: boolean
  invisible: boolean
  recipients: readonly { name: string; email: string }[]
}

const COLUMNS =
  'id, account_id, asset_id, name, max_downloads, expires_at, visible_wm, invisible_wm, state, created_at, published_at'
const TOKEN_COLUMNS = 'id, campaign_id, position, recipient_name, recipient_email, downloads, revoked_at'
/**
 * Recipients are inserted in statements of this size, and the remainder one by one, so that few statements are
 * prepared.
 */
const TOKENS_PER_STEP = 50

/** The campaign and all its tokens, or nothing. */
export async function addCampaign(rows: Rows, campaign: NewCampaign, newId: () => string, nowMs: number) {
  const { id, owner, assetId, name, maxDownloads, expiresAtMs, visible, invisible, recipients } = campaign
  await rows.atomically([
    {
      sql: `INSERT INTO wm_campaigns
        (id, account_id, asset_id, name, max_downloads, expires_at, visible_wm, invisible_wm, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
      params: [id, owner, assetId, name, maxDownloads, expiresAtMs, visible ? 1 : 0, invisible ? 1 : 0, nowMs],
    },
    ...tokenSteps(id, recipients, newId),
  ])
}

function tokenSteps(campaignId: string, recipients: NewCampaign['recipients'], newId: () => string): Step[] {
  const inMany = recipients.length - (recipients.length % TOKENS_PER_STEP)
  const steps: Step[] = []
  for (let from = 0; from < recipients.length; ) {
    const count = from < inMany ? TOKENS_PER_STEP : 1
    const places = Array.from({ length: count }, (_, i) => {
      const at = 2 + i * 4
      return `($${at}, $1, $${at + 1}, $${at + 2}, $${at + 3})`
    })
    steps.push({
      sql: `INSERT INTO wm_tokens (id, campaign_id, position, recipient_name, recipient_email)
        VALUES ${places.join(', ')}`,
      params: [
        campaignId,
        ...recipients
          .slice(from, from + count)
          .flatMap(({ name, email }, i): (string | number)[] => [newId(), from + i + 1, name, email]),
      ],
    })
    from += count
  }
  return steps
}

/** `owner` is null for callers who see all owners. */
export function findCampaign(rows: Rows, id: string, owner: string | null): Promise<CampaignRow | null> {
  return rows.first(
    `SELECT ${COLUMNS} FROM wm_campaigns WHERE id = $1 AND account_id = coalesce(CAST($2 AS text), account_id)`,
    id,
    owner,
  )
}

/** Whether the campaign was published with this key. */
export async function isMarkedWith(rows: Rows, campaignId: string, keyId: string): Promise<boolean> {
  const sql = 'SELECT key_id FROM wm_keys WHERE campaign_id = $1'
  return (await rows.first<{ key_id: string }>(sql, campaignId))?.key_id === keyId
}

export function listCampaigns(rows: Rows, { owner, limit, before }: Page): Promise<CampaignRow[]> {
  const where = owner === null ? '' : 'account_id = $3 AND '
  const sql = `SELECT ${COLUMNS} FROM wm_campaigns WHERE ${where}id < $1 ORDER BY id DESC LIMIT $2`
  return rows.all(sql, before ?? LAST_ID, limit, ...(owner === null ? [] : [owner]))
}

export function tokensOf(rows: Rows, campaignId: string): Promise<TokenRow[]> {
  return rows.all(`SELECT ${TOKEN_COLUMNS} FROM wm_tokens WHERE campaign_id = $1 ORDER BY position`, campaignId)
}

export async function countTokens(rows: Rows, campaignId: string): Promise<number> {
  const sql = 'SELECT count(*) AS total FROM wm_tokens WHERE campaign_id = $1'
  return (await rows.first<{ total: number }>(sql, campaignId))?.total ?? 0
}

export function findToken(rows: Rows, id: string): Promise<TokenRow | null> {
  return rows.first(`SELECT ${TOKEN_COLUMNS} FROM wm_tokens WHERE id = $1`, id)
}

/** Ends the campaign now, for good. Drafts and campaigns that have ended are not changed. */
export async function endCampaign(rows: Rows, id: string, nowMs: number): Promise<void> {
  await rows.run(
    `UPDATE wm_campaigns SET expires_at = $2
      WHERE id = $1 AND state <> 'DRAFT' AND (expires_at IS NULL OR expires_at > $2)`,
    id,
    nowMs,
  )
}

/** Expired campaigns that were published, most recently expired first. */
export function listEnded(
  rows: Rows,
  { sinceMs, nowMs }: { sinceMs: number; nowMs: number },
): Promise<{ id: string }[]> {
  return rows.all(
    `SELECT id FROM wm_campaigns WHERE state = 'PUBLISHED' AND expires_at > $1 AND expires_at <= $2
      ORDER BY expires_at DESC`,
    sinceMs,
    nowMs,
  )
}

/** False if the campaign has no such token. Revoking is idempotent. */
export async function revokeToken(rows: Rows, campaignId: string, id: string, nowMs: number): Promise<boolean> {
  const sql = 'UPDATE wm_tokens SET revoked_at = coalesce(revoked_at, $3) WHERE id = $1 AND campaign_id = $2'
  return (await rows.run(sql, id, campaignId, nowMs)) === 1
}

/** Counts a download in a single statement, if one is left: concurrent requests cannot exceed the limit. */
export async function countDownload(rows: Rows, id: string, downloadsMax: number | null): Promise<boolean> {
  const sql = `UPDATE wm_tokens SET downloads = downloads + 1
    WHERE id = $1 AND revoked_at IS NULL AND downloads < coalesce(CAST($2 AS bigint), downloads + 1)`
  return (await rows.run(sql, id, downloadsMax)) === 1
}
