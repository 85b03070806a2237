import { context, DiagLogLevel, diag, propagation, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { UndiciInstrumentation } from '@opentelemetry/instrumentation-undici'
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources'
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import { RedressError } from '../core/errors.ts'
import { systemClock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'

export interface Export {
  /** Sends what is left, for as long as that takes a reasonable time. */
  stop(): Promise<void>
}

/** A collector that is gone must not keep a process from ending. */
const LAST_SEND_MS = 5_000

/** Sends the spans of this process to the collector that the environment names. */
export function startExport(env: NodeJS.ProcessEnv, version: string, log: Log): Export {
  const sampler = samplerOf(env)
  diag.setLogger(
    {
      error: (message) => log.warn({ detail: message }, 'traces could not be sent'),
      warn: (message) => log.warn({ detail: message }, 'a warning of the tracing library'),
      info: () => undefined,
      debug: () => undefined,
      verbose: () => undefined,
    },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  )
  const provider = new TracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.name': 'redress', 'service.version': version }))
      .merge(detectResources({ detectors: [envDetector] })),
    sampler,
    // Where to, with which headers and how long it may take is read from the environment by the exporter itself.
    spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter() })],
  })
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  trace.setGlobalTracerProvider(provider)
  const outgoing = new UndiciInstrumentation({
    // A query may hold tokens and addresses.
    requestHook: (span, { origin, path }) => {
      span.setAttributes({ 'url.full': `${origin}${path.split('?')[0]}`, 'url.query': '' })
    },
  })
  outgoing.setTracerProvider(provider)
  outgoing.enable()
  return {
    async stop() {
      outgoing.disable()
      const tooLong = Promise.withResolvers<void>()
      const timer = systemClock.setTimer(LAST_SEND_MS, () => tooLong.resolve())
      await Promise.race([provider.shutdown().catch(() => undefined), tooLong.promise])
      timer.cancel()
    },
  }
}

const SAMPLERS: Readonly<Record<string, (ratio: number) => Sampler>> = {
  always_on: () => new AlwaysOnSampler(),
  always_off: () => new AlwaysOffSampler(),
  traceidratio: (ratio) => new TraceIdRatioBasedSampler(ratio),
  parentbased_always_on: () => new ParentBasedSampler({ root: new AlwaysOnSampler() }),
  parentbased_always_off: () => new ParentBasedSampler({ root: new AlwaysOffSampler() }),
  parentbased_traceidratio: (ratio) => new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) }),
}

function samplerOf({ OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG }: NodeJS.ProcessEnv): Sampler {
  const make = SAMPLERS[OTEL_TRACES_SAMPLER || 'parentbased_always_on']
  const ratio = Number(OTEL_TRACES_SAMPLER_ARG || 1)
  if (make === undefined) {
    throw new RedressError('OPTION_INVALID', `OTEL_TRACES_SAMPLER has no ${OTEL_TRACES_SAMPLER}.`, {
      action: `Take one of ${Object.keys(SAMPLERS).join(', ')}.`,
    })
  }
  if (!(ratio >= 0 && ratio <= 1)) {
    throw new RedressError(
      'OPTION_INVALID',
      `OTEL_TRACES_SAMPLER_ARG must be from 0 to 1, not ${OTEL_TRACES_SAMPLER_ARG}.`,
    )
  }
  return make(ratio)
}
