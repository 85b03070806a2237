import { RETENTION_POLICY, removeOld } from '@redress/shared/retention'
import type { App, Log } from 'redress'
import type { ArtifactStore } from 'redress/artifacts'
import { QUEUE, RETENTION } from '../policy.ts'
import { jobOfKey, MANIFESTS, RESOURCES } from '../requests/manifest.ts'
import type { Settings } from '../settings.ts'
import { resourceRows } from './views.ts'

/** A manifest is stored a moment before its batch. After a day, a missing batch will not come. */
const ORPHAN_MS = 86_400_000

interface Swept {
  artifacts: number
  bytes: number
}

/** Removes stored content some time after its job has ended, and content without a job after a day. */
export function declareRetention(app: App, storage: ArtifactStore, { keepMs, keepDays }: Settings, log: Log): void {
  const retention = app.job(RETENTION, {
    queue: QUEUE,
    policy: RETENTION_POLICY,
    run: async (_input: Record<string, never>, { signal }): Promise<Swept> => {
      const kept = new Map<string, Promise<boolean>>()
      const nowMs = await (await app.store()).nowMs()
      const isKept = (key: string): boolean | Promise<boolean> => {
        const id = jobOfKey(key)
        // Not of our making, so not ours to remove.
        if (id === null) return true
        const found = kept.get(id) ?? isJobKept(app, id, nowMs - keepMs, `removed after ${keepDays} days`)
        kept.set(id, found)
        return found
      }
      const swept = { artifacts: 0, bytes: 0 }
      for (const prefix of [MANIFESTS, RESOURCES]) {
        const olderThanMs = Math.min(ORPHAN_MS, keepMs)
        const { removed, bytes } = await removeOld(storage, {
          prefix,
          olderThanMs,
          signal,
          keep: ({ key }) => isKept(key),
        })
        swept.artifacts += removed
        swept.bytes += bytes
      }
      await storage.sweep({ signal })
      if (swept.artifacts > 0) log.info({ event: 'retention', ...swept }, `removed files older than ${keepDays} days`)
      return swept
    },
  })
  app.schedule(RETENTION, { cron: '7 * * * *', job: retention, input: {} })
}

async function isJobKept(app: App, id: string, settledBeforeMs: number, reason: string): Promise<boolean> {
  const batch = await (await app.store()).batch({ id })
  if (batch === null) return false
  if (batch.settledAtMs === null || batch.settledAtMs > settledBeforeMs) return true
  for (const row of await resourceRows(app, id, 'complete'))
    await app.markExpired(row.id, `what it stored was ${reason}`)
  return false
}
