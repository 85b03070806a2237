import type { App, BatchOutcome, Log } from 'redress'
import { CODES } from '../failures/failure.ts'
import type { Handlers } from '../job-handlers.ts'
import { FINALIZE, finalizePolicy, QUEUE } from '../policy.ts'
import type { BatchData } from '../requests/ingest.ts'
import type { Settings } from '../settings.ts'
import { requireBatch, resourceRows, viewResource, viewSnapshot } from './views.ts'

export interface FinalizeOptions {
  handlers: Handlers
  settings: Settings
  log: Log
}

/** Runs each time all resources of a job have ended, so also after a replay. */
export function declareFinalize(app: App, { handlers, settings, log }: FinalizeOptions): void {
  app.job(FINALIZE, {
    queue: QUEUE,
    codes: CODES,
    policy: finalizePolicy(settings),
    async run({ batch }: { batch: BatchOutcome }, attempt): Promise<unknown> {
      const { type, metadata } = batch.data as BatchData
      const handler = handlers.get(type)
      if (handler === undefined) return attempt.fail('VALIDATION_UNKNOWN_JOB_TYPE', { note: `It was ${type}.` })
      // The handler had `finalize` when the job was accepted, and has none now.
      if (handler.finalize === undefined) return null
      const snapshot = await viewSnapshot(app, await requireBatch(app, batch.id, null))
      const resources = async () => {
        const rows = await resourceRows(app, batch.id)
        return Promise.all(rows.map((row) => viewResource(app, row)))
      }
      try {
        return (await handler.finalize(snapshot, { metadata, resources, signal: attempt.signal, log })) ?? null
      } catch (error) {
        attempt.signal.throwIfAborted()
        const said = `the handler of ${type} failed in finalize`
        return attempt.fail('HANDLER_ERROR', { detail: said, note: said, context: { said }, cause: error })
      }
    },
  })
}
