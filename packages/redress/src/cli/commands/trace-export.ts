import type { Log } from '../../runtime/log.ts'
import { manifest } from '../../runtime/manifest.ts'
import { loadPeers } from '../../runtime/optional-peers.ts'
import type { Export } from '../../tracing/start-export.ts'
import { isTraced } from '../../tracing/tracing.ts'

/** Sends the spans of this process to the collector that the environment names, unless the app has set up tracing itself. */
export async function traceExport(log: Log): Promise<Export | null> {
  const { OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_SDK_DISABLED } = process.env
  if (!OTEL_EXPORTER_OTLP_ENDPOINT && !OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) return null
  if (OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true' || isTraced()) return null
  const { startExport } = await loadPeers('OTEL_EXPORTER_OTLP_ENDPOINT', () => import('../../tracing/start-export.ts'))
  return startExport(process.env, manifest().version, log)
}
