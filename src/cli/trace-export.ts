import { RedressError } from '../core/errors.ts'
import type { Log } from '../runtime/log.ts'
import type { Export } from '../runtime/otlp/start-export.ts'
import { isTraced } from '../runtime/tracing.ts'
import { version } from './version.ts'

/**
 * Where the environment names a collector, the spans of this process go there. An app that has set up tracing by itself
 * is left alone.
 */
export async function traceExport(log: Log): Promise<Export | null> {
  const { OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_SDK_DISABLED } = process.env
  if (!OTEL_EXPORTER_OTLP_ENDPOINT && !OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) return null
  if (OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true' || isTraced()) return null
  // Loaded only here: it is larger than all of Redress.
  const { startExport } = await import('../runtime/otlp/start-export.ts').catch((error: unknown) => {
    throw new RedressError(
      'OPTION_INVALID',
      'OTEL_EXPORTER_OTLP_ENDPOINT is set, but what sends traces is not installed.',
      {
        cause: error,
        action: 'Install Redress again, or unset it.',
      },
    )
  })
  return startExport(process.env, version(), log)
}
