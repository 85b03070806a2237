import type { App, JobView } from 'redress'
import { z } from 'zod'
import type { Rows } from '../rows/rows.ts'
import { type DetectResult, detectResult } from './detect-job.ts'

/** A search for whose copy a file is. */
interface DetectionRow {
  id: string
  campaign_id: string
  file_name: string
  created_at: number
}

export const detectionSchema = z.object({
  id: z.string(),
  campaignId: z.string(),
  fileName: z.string(),
  createdAt: z.string(),
  status: z.enum(['queued', 'processing', 'complete', 'failed', 'cancelled']),
  progress: z.number().nullable().describe('in percent, while it runs'),
  error: z
    .object({ code: z.string(), message: z.string() })
    .nullable()
    .describe('only where it failed, which is final: a search is not retried'),
  result: detectResult.nullable(),
})
export type DetectionView = z.infer<typeof detectionSchema>

const COLUMNS = 'id, campaign_id, file_name, created_at'
const SHOWN_MAX = 50

export async function addDetection(rows: Rows, { id, campaign_id, file_name, created_at }: DetectionRow) {
  const sql = `INSERT INTO wm_detections (${COLUMNS}) VALUES ($1, $2, $3, $4)`
  await rows.run(sql, id, campaign_id, file_name, created_at)
}

/** The newest first; those whose jobs are gone are forgotten with them. */
export async function listDetections(app: App, rows: Rows, campaignId: string): Promise<DetectionView[]> {
  const found = await rows.all<DetectionRow>(
    `SELECT ${COLUMNS} FROM wm_detections WHERE campaign_id = $1 ORDER BY id DESC LIMIT $2`,
    campaignId,
    SHOWN_MAX,
  )
  const views: DetectionView[] = []
  for (const row of found) {
    const job = await app.jobs.find(row.id)
    if (job !== null) views.push(viewDetection(row, job))
  }
  return views
}

export async function findDetection(
  app: App,
  rows: Rows,
  campaignId: string,
  id: string,
): Promise<DetectionView | null> {
  const sql = `SELECT ${COLUMNS} FROM wm_detections WHERE id = $1 AND campaign_id = $2`
  const row = await rows.first<DetectionRow>(sql, id, campaignId)
  const job = row === null ? null : await app.jobs.find(id)
  return row === null || job === null ? null : viewDetection(row, job)
}

function viewDetection(row: DetectionRow, job: JobView): DetectionView {
  const { status, errorCode, errorMessage } = job
  return {
    id: row.id,
    campaignId: row.campaign_id,
    fileName: row.file_name,
    createdAt: new Date(row.created_at).toISOString(),
    status,
    progress: status === 'processing' ? Math.floor(job.progress * 100) : null,
    error: status === 'failed' && errorCode !== null ? { code: errorCode, message: errorMessage ?? '' } : null,
    result: status === 'complete' ? (job.result as DetectResult) : null,
  }
}
