/**
 * Spans of submissions and attempts. Only the API is used here: what becomes of a span is the business of the SDK that
 * the program has set up. Where it has set up none, nothing is made, and hardly anything is paid.
 */
import {
  type Attributes,
  type Context,
  context,
  isSpanContextValid,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { RedressError } from '../core/errors.ts'

/** One attempt while it runs. */
export interface AttemptSpan {
  /** For whoever the handler calls: W3C traceparent. */
  readonly traceparent: string
  /** What is begun in there is a part of the attempt. */
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

function tracer(): Tracer | null {
  const provider = trace.getTracerProvider()
  // The proxy that stands there before any SDK does would give spans that nobody records.
  if (provider instanceof ProxyTracerProvider) return provider.getDelegateTracer(NAME) ?? null
  return provider.getTracer(NAME)
}

/** Whether somebody in this process records spans. */
export const isTraced = (): boolean => tracer() !== null

/** The trace that is active here, in the words in which it can be kept with a job. */
export function currentTrace(): string | null {
  const active = trace.getSpanContext(context.active())
  return active === undefined || !isSpanContextValid(active) ? null : traceparentOf(active)
}

/** Whatever is done in there belongs to the trace that a caller named; to none, if what it named is none. */
export function withinTrace<T>(traceparent: string | undefined, work: () => T): T {
  const parent = traceparent === undefined ? null : readTraceparent(traceparent)
  return parent === null ? work() : context.with(trace.setSpanContext(context.active(), parent), work)
}

/** For what is done on nobody's behalf: it must not seem a part of whatever happened to be active when it was set up. */
export const untraced = <T>(work: () => T): T => context.with(ROOT_CONTEXT, work)

/** The jobs that are made in there know the span of their submission. */
export function traceSubmission<T>(
  type: string,
  submit: () => Promise<T>,
  factsOf: (submitted: T) => Attributes,
): Promise<T> {
  const found = tracer()
  if (found === null) return submit()
  const attributes = { ...OF_OURS, 'messaging.operation.type': 'send', 'redress.job.type': type }
  return found.startActiveSpan(`redress.submit ${type}`, { kind: SpanKind.PRODUCER, attributes }, async (span) => {
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

/** null where nobody traces. Of a job that was tried again, all attempts are children of its submission. */
export function traceAttempt({ jobId, type, queue, attempt, trace: kept }: AttemptFacts): AttemptSpan | null {
  const found = tracer()
  if (found === null) return null
  const parent = kept === null ? null : readTraceparent(kept)
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
  const span = found.startSpan(`redress.attempt ${type}`, { kind: SpanKind.CONSUMER, attributes }, from)
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

const OF_OURS: Attributes = { 'messaging.system': NAME }

const traceparentOf = ({ traceId, spanId, traceFlags }: SpanContext): string =>
  `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`

function readTraceparent(text: string): SpanContext | null {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(text) ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return null
  const read = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true }
  return isSpanContextValid(read) ? read : null
}
