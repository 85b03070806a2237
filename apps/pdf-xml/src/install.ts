import type { App } from 'redress'
import type { InstallContext, InstalledApp } from 'redress/http'
import { declareConvert } from './convert-job.ts'
import { openFiles } from './files.ts'
import { GatewayCapacity } from './gateway-client.ts'
import { GatewayService } from './gateway-service.ts'
import { GATEWAY } from './policy.ts'
import { declareRetention } from './retention-job.ts'
import { pdfXmlRoutes } from './routes.ts'
import { readSettings } from './settings.ts'

const PROBE_MS_MAX = 5_000

export async function install(app: App, { home, env, log }: InstallContext): Promise<InstalledApp> {
  const settings = readSettings(env, home)
  const files = await openFiles(settings, env, log)
  const { url, timeoutMs } = settings.gateway
  const service = url === null ? new GatewayService({ mappingsDir: settings.mappingsDir, timeoutMs, log }) : null
  const gatewayUrl = () => url ?? (service as GatewayService).url
  const capacity = new GatewayCapacity(gatewayUrl)
  const convert = declareConvert(app, { files, settings, gatewayUrl, capacity })
  app.dependency(GATEWAY, {
    probe: ({ signal }) => capacity.probe(signal),
    // A short cooldown needs a probe that is at least as frequent.
    every: Math.min(PROBE_MS_MAX, settings.breaker.cooldownMs),
  })
  declareRetention(app, files, settings, log)
  return {
    page: '/convert',
    mount: pdfXmlRoutes({ app, files, settings, convert, log }),
    start: async () => service?.start(),
    stop: async () => {
      await service?.stop()
      await Promise.all([files.uploads.close(), files.results.close()])
    },
  }
}
