import { isUnderWay, RETENTION_POLICY, removeOld } from '@redress/shared/retention'
import type { App, Log } from 'redress'
import { stopEnded } from './campaigns/lifecycle.ts'
import { type Files, SUSPECTS, sweepWork } from './files.ts'
import { QUEUE } from './policy.ts'
import type { Rows } from './rows/rows.ts'

const RETENTION = 'watermark.retention'
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const SUSPECTS_KEPT_MS = 7 * DAY_MS
/** Longer than any attempt may take. */
const WORK_KEPT_MS = 2 * DAY_MS
/** A copy that waits for its next try is claimed again long before this, and checked then. */
const ENDED_LOOKED_AT_MS = 30 * DAY_MS

interface RetentionOptions {
  rows: Rows
  files: Files
  /** Finishes what a process that is gone has begun. */
  finishPublishing(): Promise<void>
  log: Log
}

/**
 * Removes files that can no longer be requested: copies of ended campaigns, suspects, and leftovers of killed
 * workers.
 */
export function declareRetention(app: App, { rows, files, finishPublishing, log }: RetentionOptions): void {
  const retention = app.job(RETENTION, {
    queue: QUEUE,
    policy: RETENTION_POLICY,
    run: async (_input: Record<string, never>, { signal }) => {
      await finishPublishing()
      const nowMs = await (await app.store()).nowMs()
      await stopEnded(app, rows, log, { sinceMs: nowMs - ENDED_LOOKED_AT_MS, nowMs })
      const copies = await removeCopies(rows, files, nowMs, signal)
      const suspects = await removeSuspects(app, files, signal)
      const folders = await sweepWork(files.work, WORK_KEPT_MS, Date.now())
      if (copies + suspects + folders > 0) {
        log.info({ event: 'retention', copies, suspects, folders }, 'removed what nobody can ask for any more')
      }
      return { copies, suspects, folders }
    },
  })
  app.schedule(RETENTION, { cron: '37 * * * *', job: retention, input: {} })
}

async function removeCopies(rows: Rows, { copies }: Files, nowMs: number, signal: AbortSignal): Promise<number> {
  const { removed } = await removeOld(copies, {
    olderThanMs: 0,
    signal,
    keep: async ({ key }) => {
      const found = await rows.first<{ expires_at: number | null }>(
        'SELECT c.expires_at FROM wm_tokens t JOIN wm_campaigns c ON c.id = t.campaign_id WHERE t.id = $1',
        key,
      )
      return found !== null && (found.expires_at === null || found.expires_at > nowMs)
    },
  })
  await copies.sweep({ signal })
  return removed
}

/** A search that waits longer than that, behind a paused queue, still needs its suspect file. */
async function removeSuspects(app: App, { assets }: Files, signal: AbortSignal): Promise<number> {
  const { removed } = await removeOld(assets, {
    prefix: SUSPECTS,
    olderThanMs: SUSPECTS_KEPT_MS,
    signal,
    keep: ({ key }) => isUnderWay(app, key.slice(SUSPECTS.length)),
  })
  await assets.sweep({ signal })
  return removed
}
