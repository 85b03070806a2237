import type { App, Log } from 'redress'
import type { Rows } from '../shared/rows.ts'
import { type Files, SUSPECTS, sweepWork } from './files.ts'
import { QUEUE } from './policy.ts'

const RETENTION = 'watermark.retention'
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const SUSPECTS_KEPT_MS = 7 * DAY_MS
/** Longer than any attempt may take. */
const WORK_KEPT_MS = 2 * DAY_MS

interface RetentionOptions {
  rows: Rows
  files: Files
  /** Finishes what a process that is gone has begun. */
  finishPublishing(): Promise<void>
  log: Log
}

/** What nobody can ask for any more goes: copies of campaigns that are over, suspects, and what killed workers left. */
export function declareRetention(app: App, { rows, files, finishPublishing, log }: RetentionOptions): void {
  const retention = app.job(RETENTION, {
    queue: QUEUE,
    policy: {
      // The next tick does the same.
      retry: { max: 1 },
      orphan: 'requeue',
      timeout: { attempt: '1h' },
      retention: { complete: '7d', failed: '30d' },
    },
    run: async (_input: Record<string, never>, { signal }) => {
      await finishPublishing()
      const nowMs = await (await app.store()).nowMs()
      const copies = await removeCopies(rows, files, nowMs, signal)
      const suspects = await removeSuspects(files, signal)
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
  let removed = 0
  for (let after: string | undefined; ; ) {
    const step = await copies.removeOlderThan({
      olderThanMs: 0,
      after,
      signal,
      keep: async ({ key }) => {
        const found = await rows.first<{ expires_at: number | null }>(
          'SELECT c.expires_at FROM wm_tokens t JOIN wm_campaigns c ON c.id = t.campaign_id WHERE t.id = $1',
          key,
        )
        return found !== null && (found.expires_at === null || found.expires_at > nowMs)
      },
    })
    removed += step.removed
    if (step.next === null) break
    after = step.next
  }
  await copies.sweep({ signal })
  return removed
}

async function removeSuspects({ assets }: Files, signal: AbortSignal): Promise<number> {
  let removed = 0
  for (let after: string | undefined; ; ) {
    const step = await assets.removeOlderThan({ prefix: SUSPECTS, olderThanMs: SUSPECTS_KEPT_MS, after, signal })
    removed += step.removed
    if (step.next === null) break
    after = step.next
  }
  await assets.sweep({ signal })
  return removed
}
