import type { App } from 'redress'
import type { ArtifactStore } from 'redress/artifacts'

/** The policy of retention jobs: nothing is lost if one of them fails. */
export const RETENTION_POLICY = {
  // The next tick does the same.
  retry: { max: 1 },
  orphan: 'requeue',
  timeout: { attempt: '1h' },
  retention: { complete: '7d', failed: '30d' },
} as const

type Selection = Omit<Parameters<ArtifactStore['removeOlderThan']>[0], 'after'>

/** Removes all that is selected, step by step. */
export async function removeOld(
  store: ArtifactStore,
  selection: Selection,
): Promise<{ removed: number; bytes: number }> {
  const total = { removed: 0, bytes: 0 }
  for (let after: string | undefined; ; ) {
    const step = await store.removeOlderThan({ ...selection, after })
    total.removed += step.removed
    total.bytes += step.bytesRemoved
    if (step.next === null) return total
    after = step.next
  }
}

/**
 * Whether a job still needs its files, however old they are. A file without a job is not needed: its sender
 * disconnected before the job was made, or the record is already gone.
 */
export async function isUnderWay(app: App, jobId: string): Promise<boolean> {
  const job = await app.jobs.find(jobId)
  return job !== null && (job.status === 'queued' || job.status === 'processing')
}
