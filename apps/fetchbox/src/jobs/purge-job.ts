import { type App, type JobType, RedressError } from 'redress'
import type { ArtifactStore } from 'redress/artifacts'
import type { Caller } from 'redress/http'
import { CODES, FetchFailure } from '../failures/failure.ts'
import { PURGE, purgePolicy, QUEUE } from '../policy.ts'
import { jobOfKey, manifestKey, resourcePrefix } from '../requests/manifest.ts'
import type { Settings } from '../settings.ts'
import { uploadFailure } from '../transfer/upload.ts'
import type { Transfer } from '../transfer-port.ts'
import { type Purge, type Purged, type PurgeInput, purgeId, purgeOf, requireBatch, resourceRows } from './views.ts'

/** Removes what a job stored, in the background: a thousand removals take longer than a client should wait. */
export function declarePurge(app: App, storage: ArtifactStore, settings: Settings): JobType<PurgeInput> {
  return app.job(PURGE, {
    queue: QUEUE,
    codes: CODES,
    policy: purgePolicy(settings),
    async run({ job, type, by }: PurgeInput, attempt): Promise<Purged> {
      const batch = await app.batches.find(job)
      // A replay started before this purge: its content must not be removed.
      if (batch?.state === 'open') attempt.fail('VALIDATION_JOB_ACTIVE')
      for (const row of await resourceRows(app, job, 'complete')) {
        // The event is written before the file is removed: a crash in between must not lose the event. Writing it
        // twice has no effect.
        await app.markExpired(row.id, `what it stored was removed by ${by}`)
      }
      try {
        const removed = await removeAll(storage, resourcePrefix(type, job), attempt.signal)
        await storage.remove(manifestKey(type, job), { signal: attempt.signal })
        return removed
      } catch (error) {
        attempt.signal.throwIfAborted()
        const { code, message } = uploadFailure(error, `what job ${job} stored`)
        return attempt.fail(code, { detail: message, cause: error })
      }
    },
  })
}

async function removeAll(storage: ArtifactStore, prefix: string, signal: AbortSignal): Promise<Purged> {
  const removed = { resources: 0, bytes: 0 }
  for (let after: string | null = ''; after !== null; ) {
    const page = await storage.list({ prefix, signal, ...(after !== '' && { after }) })
    for (const { key, bytes } of page.artifacts) {
      await storage.remove(key, { signal })
      removed.resources++
      removed.bytes += bytes
    }
    after = page.next
  }
  return removed
}

/** Asks for it, or finds out what became of it. Asking twice is asking once. */
export async function requestPurge(app: App, id: string, tenant: string | null, caller: Caller): Promise<Purge> {
  const batch = await requireBatch(app, id, tenant)
  if (batch.state === 'open') {
    const message = `Job ${id} is under way: ${batch.counts.unfinished} of its resources are not over.`
    throw new RedressError('JOB_WRONG_STATE', message, { action: 'Wait until it is over, or cancel its batch.' })
  }
  const before = await purgeOf(app, id)
  if (before?.status === 'failed') {
    await app.jobs.retry(purgeId(app, id), { actor: caller.name, reason: 'asked for again' })
  } else if (before === null) {
    const input: PurgeInput = { job: id, type: (batch.data as { type: string }).type, by: caller.name }
    const owner = batch.owner === null ? {} : { owner: batch.owner }
    // With the caller's name, so that the audit trail shows who requested it.
    await app.perform('jobs.submit', { type: PURGE, input, id: purgeId(app, id), actor: caller.name, ...owner })
  }
  return (await purgeOf(app, id)) as Purge
}

export const isPurged = async (app: App, id: string): Promise<boolean> =>
  (await (await app.store()).job({ id: purgeId(app, id) })) !== null

/**
 * Refuses uploads for a purged job. A replay through the store alone does not run `admitRetry`, and would store the
 * content again.
 */
export function refusePurged(app: App, transfer: Transfer): Transfer {
  return {
    download: (task, options) => transfer.download(task, options),
    async upload(spooled, options) {
      const job = jobOfKey(options.key)
      if (job === null || !(await isPurged(app, job))) return transfer.upload(spooled, options)
      throw new FetchFailure('STORAGE_NOT_FOUND', 'the job was purged, so nothing is stored for it')
    },
    close: () => transfer.close(),
  }
}
