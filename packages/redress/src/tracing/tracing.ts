/**
 * Spans of submissions and attempts. Only the API of OpenTelemetry is used here: the SDK that the program has set up
 * decides what becomes of a span. In a program without one, the API is not even loaded.
 */
import { createRequire } from 'node:module'
import type { Context, SpanContext, Tracer } from '@opentelemetry/api'
import { RedressError } from '../core/errors.ts'

/** Attributes of a span. A type of our own: programs without OpenTelemetry lack its types, too. */
type Facts = Record<string, string | number | boolean | undefined>

type Api = typeof import('@opentelemetry/api')

/** Every copy of version 1 of the API registers an SDK under this symbol, so that all copies find the same one. */
const REGISTERED = Symbol.for('opentelemetry.js.api.1')

let loaded: Api | null = null

/** Null as long as nothing in this process has set up OpenTelemetry. */
function openTelemetry(): Api | null {
  if (loaded === null && REGISTERED in globalThis) loaded = createRequire(import.meta.url)('@opentelemetry/api') as Api
  return loaded
}

/** One attempt while it runs. */
export interface AttemptSpan {
  /** The W3C traceparent to send with the calls of the handler. */
  readonly traceparent: string
  /** Spans that `work` begins are children of the attempt's span. */
  run<T>(work: () => T): T
  /** `errorCode`: null unless it failed. */
  end(outcome: string, errorCode: string | null): void
}

export interface AttemptFacts {
  jobId: string
  type: string
  queue: string
  attempt: number
  /** As it was kept with the job. */
  trace: string | null
}

const NAME = 'redress'
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/

interface Tracing {
  api: Api
  tracer: Tracer
}

/** Null unless an SDK in this process records spans. */
function tracing(): Tracing | null {
  const api = openTelemetry()
  if (api === null) return null
  const provider = api.trace.getTracerProvider()
  // Before an SDK is set up, the API has a proxy whose spans are recorded nowhere.
  const isProxy = provider instanceof api.ProxyTracerProvider
  const tracer = isProxy ? provider.getDelegateTracer(NAME) : provider.getTracer(NAME)
  return tracer === undefined ? null : { api, tracer }
}

/** Whether an SDK in this process records spans. */
export const isTraced = (): boolean => tracing() !== null

/** The active trace as a W3C traceparent, which can be stored with a job. */
export function currentTrace(): string | null {
  const api = openTelemetry()
  const active = api?.trace.getSpanContext(api.context.active())
  return !active || !api?.isSpanContextValid(active) ? null : traceparentOf(active)
}

/** Runs `work` as a part of the trace that a caller named; an invalid traceparent is ignored. */
export function withinTrace<T>(traceparent: string | undefined, work: () => T): T {
  const api = openTelemetry()
  const parent = api === null || traceparent === undefined ? null : readTraceparent(api, traceparent)
  if (api === null || parent === null) return work()
  return api.context.with(api.trace.setSpanContext(api.context.active(), parent), work)
}

/** Runs work that belongs to no request, so that it does not join the trace that happened to be active at its set-up. */
export function untraced<T>(work: () => T): T {
  const api = openTelemetry()
  return api === null ? work() : api.context.with(api.ROOT_CONTEXT, work)
}

/** The jobs that are made in there know the span of their submission. */
export function traceSubmission<T>(
  type: string,
  submit: () => Promise<T>,
  factsOf: (submitted: T) => Facts,
): Promise<T> {
  const found = tracing()
  if (found === null) return submit()
  const { SpanKind, SpanStatusCode } = found.api
  const attributes = { ...OF_OURS, 'messaging.operation.type': 'send', 'redress.job.type': type }
  const options = { kind: SpanKind.PRODUCER, attributes }
  return found.tracer.startActiveSpan(`redress.submit ${type}`, options, async (span) => {
    try {
      const submitted = await submit()
      span.setAttributes(factsOf(submitted))
      return submitted
    } catch (error) {
      // Without its message, which may have a part of the input in it.
      const code = error instanceof RedressError ? error.code : 'UNEXPECTED'
      span.setAttribute('error.type', code)
      span.setStatus({ code: SpanStatusCode.ERROR, message: code })
      throw error
    } finally {
      span.end()
    }
  })
}

/** Null where no SDK records spans. All attempts of a job are children of its submission. */
export function traceAttempt({ jobId, type, queue, attempt, trace: kept }: AttemptFacts): AttemptSpan | null {
  const found = tracing()
  if (found === null) return null
  const { context, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } = found.api
  const parent = kept === null ? null : readTraceparent(found.api, kept)
  // Not whatever is active here: a worker goes on to its next job from inside the end of another one.
  const from = parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent)
  const attributes = {
    ...OF_OURS,
    'messaging.operation.type': 'process',
    'messaging.destination.name': queue,
    'redress.job.id': jobId,
    'redress.job.type': type,
    'redress.queue': queue,
    'redress.attempt': attempt,
  }
  const span = found.tracer.startSpan(`redress.attempt ${type}`, { kind: SpanKind.CONSUMER, attributes }, from)
  const inside: Context = trace.setSpan(from, span)
  return {
    traceparent: traceparentOf(span.spanContext()),
    run: (work) => context.with(inside, work),
    end(outcome, errorCode) {
      span.setAttribute('redress.outcome', outcome)
      if (errorCode !== null) {
        span.setAttributes({ 'redress.error_code': errorCode, 'error.type': errorCode })
        span.setStatus({ code: SpanStatusCode.ERROR, message: errorCode })
      }
      span.end()
    },
  }
}

const OF_OURS: Facts = { 'messaging.system': NAME }

const traceparentOf = ({ traceId, spanId, traceFlags }: SpanContext): string =>
  `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`

function readTraceparent({ isSpanContextValid }: Api, text: string): SpanContext | null {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(text) ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return null
  const read = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true }
  return isSpanContextValid(read) ? read : null
}
