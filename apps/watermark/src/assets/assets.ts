import { z } from 'zod'
import type { Kind } from '../media.ts'
import type { Rows } from '../rows/rows.ts'

/** A video or an image that campaigns are made from. */
export interface AssetRow {
  id: string
  account_id: string
  name: string
  kind: Kind
  bytes: number
  sha256: string
  width: number
  height: number
  duration_ms: number
  codec: string
  created_at: number
}

const COLUMNS = 'id, account_id, name, kind, bytes, sha256, width, height, duration_ms, codec, created_at'

export async function addAsset(rows: Rows, asset: AssetRow): Promise<void> {
  const { id, account_id, name, kind, bytes, sha256, width, height, duration_ms, codec, created_at } = asset
  await rows.run(
    `INSERT INTO wm_assets (${COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
    id,
    account_id,
    name,
    kind,
    bytes,
    sha256,
    width,
    height,
    duration_ms,
    codec,
    created_at,
  )
}

/** `owner` is null for callers who see all owners. */
export function findAsset(rows: Rows, id: string, owner: string | null): Promise<AssetRow | null> {
  return rows.first(
    `SELECT ${COLUMNS} FROM wm_assets WHERE id = $1 AND account_id = coalesce(CAST($2 AS text), account_id)`,
    id,
    owner,
  )
}

export interface Page {
  owner: string | null
  limit: number
  /** Only rows that are older than this id. */
  before: string | null
}

/** Ids grow with time, so the newest come first. '~' sorts after every id. */
export const LAST_ID = '~'

export function listAssets(rows: Rows, { owner, limit, before }: Page): Promise<AssetRow[]> {
  const where = owner === null ? '' : 'account_id = $3 AND '
  const sql = `SELECT ${COLUMNS} FROM wm_assets WHERE ${where}id < $1 ORDER BY id DESC LIMIT $2`
  return rows.all(sql, before ?? LAST_ID, limit, ...(owner === null ? [] : [owner]))
}

export const assetSchema = z.object({
  id: z.string(),
  owner: z.string(),
  name: z.string(),
  kind: z.enum(['video', 'image']),
  bytes: z.number(),
  sha256: z.string(),
  width: z.number(),
  height: z.number(),
  durationMs: z.number(),
  codec: z.string(),
  thumbnail: z.string().describe('the address of its thumbnail'),
  createdAt: z.string(),
})

export function viewAsset(asset: AssetRow): z.infer<typeof assetSchema> {
  const { id, account_id, name, kind, bytes, sha256, width, height, duration_ms, codec, created_at } = asset
  return {
    id,
    owner: account_id,
    name,
    kind,
    bytes,
    sha256,
    width,
    height,
    durationMs: duration_ms,
    codec,
    thumbnail: `/assets/${id}/thumbnail`,
    createdAt: new Date(created_at).toISOString(),
  }
}
