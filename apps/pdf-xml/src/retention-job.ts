import { isUnderWay, RETENTION_POLICY, removeOld } from '@redress/shared/retention'
import type { App, Log } from 'redress'
import type { ArtifactStore } from 'redress/artifacts'
import { type Files, jobOfKey } from './files.ts'
import type { Settings } from './settings.ts'

const RETENTION = 'pdf-xml.retention'
const DAY_MS = 86_400_000

interface Swept {
  sources: number
  results: number
}

/** Sources and results are kept for a time (E23); a job that is under way keeps what it needs, however old it is. */
export function declareRetention(app: App, files: Files, settings: Settings, log: Log): void {
  const sweep = async (store: ArtifactStore, what: string, keepDays: number, signal: AbortSignal): Promise<number> => {
    const reason = `its ${what} was removed after ${keepDays} days`
    const { removed } = await removeOld(store, {
      olderThanMs: keepDays * DAY_MS,
      signal,
      keep: async ({ key }) => {
        const id = jobOfKey(key)
        if (await isUnderWay(app, id)) return true
        // The event is written before the file is removed: a crash in between must not lose the event. Writing it
        // twice has no effect.
        await app.markExpired(id, reason)
        return false
      },
    })
    await store.sweep({ signal })
    if (removed > 0) log.info({ event: 'retention', what, removed }, `removed files older than ${keepDays} days`)
    return removed
  }

  const retention = app.job(RETENTION, {
    queue: 'pdf-xml',
    policy: RETENTION_POLICY,
    run: async (_input: Record<string, never>, attempt): Promise<Swept> => ({
      sources: await sweep(files.uploads, 'source', settings.uploads.keepDays, attempt.signal),
      results: await sweep(files.results, 'result', settings.results.keepDays, attempt.signal),
    }),
  })
  app.schedule(RETENTION, { cron: '17 * * * *', job: retention, input: {} })
}
