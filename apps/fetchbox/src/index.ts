import { mkdirSync } from 'node:fs'
import { openStore } from '@redress/shared/artifact-stores'
import { secretIn } from '@redress/shared/secret'
import type { Log } from 'redress'
import type { ArtifactStore } from 'redress/artifacts'
import type { AppModule } from 'redress/http'
import { outboundGuard } from 'redress/outbound'
import { type Pause, realPause } from './failures/ingest-retries.ts'
import { loadHandlers } from './job-handlers.ts'
import { declareFinalize } from './jobs/finalize-job.ts'
import { declarePurge, isPurged, refusePurged } from './jobs/purge-job.ts'
import { declareResource } from './jobs/resource-job.ts'
import { declareRetention } from './jobs/retention-job.ts'
import { batchData } from './requests/ingest.ts'
import { fetchboxRoutes } from './routes.ts'
import { openSealer } from './sealer.ts'
import { readSettings, type Settings } from './settings.ts'
import { readProxies } from './transfer/proxies.ts'
import { openTransfer } from './transfer/transfer.ts'
import type { Transfer } from './transfer-port.ts'

export type { JobHandler } from './job-handlers.ts'

export interface FetchboxOptions {
  /** How bytes come in and go out; HTTP and the storage of the settings when left out. */
  transfer?: Transfer
  /** Waits between the tries of an ingest; for real when left out. */
  pause?: Pause
}

const KEY_USE = {
  what: 'the key that seals request headers',
  knob: 'FETCHBOX_SECRET',
  loss: 'With another key, the headers of jobs that were accepted before cannot be used any more.',
}

/** Fetches lists of URLs into a storage. Each resource is a job with two stages; failed resources are dead letters. */
export function fetchboxApp(given: FetchboxOptions = {}): AppModule {
  return {
    name: 'fetchbox',
    async install(app, { home, env, log }) {
      const settings = readSettings(env, home)
      const handlers = await loadHandlers(settings.handlersDir)
      mkdirSync(settings.work, { recursive: true, mode: 0o700 })
      const storage = await openStore(settings.storageUrl, { appName: 'fetchbox', space: settings.space, env, log })
      const sealer = openSealer(settings.secret ?? secretIn(home, 'fetchbox.key', KEY_USE), 'fetchbox headers')
      const transfer = given.transfer ?? (await realTransfer(settings, storage, log))
      const guard = outboundGuard(settings.outbound)
      const metadataOf = memoized(async (id: string) => (await batchData(app, id))?.metadata ?? {})
      const purged = (id: string) => isPurged(app, id)
      const resource = declareResource(app, {
        handlers,
        transfer: refusePurged(app, transfer),
        settings,
        sealer,
        metadataOf,
        isPurged: purged,
      })
      declareFinalize(app, { handlers, settings, log })
      declarePurge(app, storage, settings)
      declareRetention(app, storage, settings, log)
      const retries = { pause: given.pause ?? realPause, log }
      return {
        mount: fetchboxRoutes({
          app,
          storage,
          handlers,
          resource,
          checkUrl: guard.check,
          sealer,
          handlerMs: settings.handlerMs,
          seeProxies: () => transfer.proxies?.() ?? [],
          retries,
          log,
        }),
        async stop() {
          await transfer.close()
          await storage.close()
        },
      }
    },
  }
}

async function realTransfer(settings: Settings, store: ArtifactStore, log: Log): Promise<Transfer> {
  const { work: folder, timeouts, resourceBytesMax: bytesMax, outbound, proxiesFile } = settings
  return openTransfer({
    store,
    spool: { folder },
    limits: { ...timeouts, bytesMax },
    outbound,
    ...(proxiesFile !== null && { proxies: await readProxies(proxiesFile) }),
    onProxyChange({ name: proxy, state, failuresInRow, lastFailure }) {
      if (state === 'healthy') log.info({ event: 'proxy_back', proxy }, 'a proxy is in use again')
      else log.warn({ event: 'proxy_out', proxy, failuresInRow, lastFailure }, 'a proxy was taken out of use')
    },
  })
}

export default fetchboxApp()

const KEPT_MAX = 200

/** Caches the newest answers of a function whose answers do not change. Failures are not cached. */
export function memoized<T>(ask: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const answers = new Map<string, Promise<T>>()
  return (key) => {
    const known = answers.get(key)
    if (known !== undefined) return known
    const asked = ask(key).catch((error: unknown) => {
      answers.delete(key)
      throw error
    })
    answers.set(key, asked)
    const [oldest] = answers.keys()
    if (answers.size > KEPT_MAX && oldest !== undefined) answers.delete(oldest)
    return asked
  }
}
