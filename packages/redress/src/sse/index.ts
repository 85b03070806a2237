export type { Hub, SubscribeOptions } from '../app/events/hub.ts'
export type { HubEvent, MappableEvent, MappedEvent, Mapper } from '../app/events/hub-events.ts'
export type { EndReason, Subscription } from '../app/events/subscription.ts'

import { RedressError } from '../core/errors.ts'
import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'
import { type Clock, systemClock, type Timer } from '../runtime/clock.ts'

/** One message of an event stream. */
export interface SseMessage {
  /** What the browser sends back as Last-Event-ID when it comes again; left as it was when there is none. */
  id?: string | number | null
  event?: string
  /** Any JSON value. */
  data?: unknown
  /** How long the browser waits before it comes again. */
  retryMs?: number
}

/** The options of `sseStream()`. */
export interface SseStreamOptions {
  /** A comment after so long a silence: proxies close connections that say nothing. */
  heartbeatMs?: number
  retryMs?: number
  clock?: Clock
}

const OPTIONS = optionNames<SseStreamOptions>({ heartbeatMs: true, retryMs: true, clock: true })
const HEARTBEAT_MS = 15_000
const RETRY_MS = 2_000
/** So much may wait in the stream; more is left with the subscription, which is bounded, too. */
const STREAM_BYTES_MAX = 64 * 1024

/** One message of an event stream. JSON has no bare line breaks, so the data is always one line. */
export function formatSse({ id, event, data, retryMs }: SseMessage): string {
  const lines: string[] = []
  if (retryMs !== undefined) {
    if (!Number.isSafeInteger(retryMs) || retryMs < 0) throw invalid('retryMs must be a whole number')
    lines.push(`retry: ${retryMs}`)
  }
  if (id !== undefined && id !== null) lines.push(`id: ${field('id', String(id))}`)
  if (event !== undefined) lines.push(`event: ${field('event', event)}`)
  if (data !== undefined) {
    const json = JSON.stringify(data) as string | undefined
    if (json === undefined) throw invalid(`the data of an event must be a JSON value, not ${typeof data}`)
    lines.push(`data: ${json}`)
  }
  return `${lines.join('\n')}\n\n`
}

/** A comment that browsers ignore. It keeps the connection alive through proxies. */
export function sseComment(text = ''): string {
  return `${text
    .split(/\r\n|\r|\n/)
    .map((line) => `: ${line}`)
    .join('\n')}\n\n`
}

/**
 * The body of an answer of type `text/event-stream`. It reads on only as its reader does; when the reader leaves, so
 * does the subscription. `Readable.fromWeb` makes a Node stream of it.
 */
export function sseStream(
  events: AsyncIterator<{ id: string | null; event: string; data: unknown }>,
  options: SseStreamOptions = {},
): ReadableStream<Uint8Array> {
  refuseUnknownOptions('sseStream()', options, OPTIONS)
  const { heartbeatMs = HEARTBEAT_MS, retryMs = RETRY_MS, clock = systemClock } = options
  const encoder = new TextEncoder()
  let timer: Timer | null = null
  const beat = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    timer?.cancel()
    timer = clock.setTimer(heartbeatMs, () => {
      // A reader that does not read is not helped by more to read.
      if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(sseComment()))
      beat(controller)
    })
  }
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        // Something at once, so that the head of the answer is sent and not kept for the first event.
        controller.enqueue(encoder.encode(formatSse({ retryMs })))
        beat(controller)
      },
      async pull(controller) {
        try {
          const { done, value } = await events.next()
          beat(controller)
          if (!done) {
            controller.enqueue(
              encoder.encode(formatSse({ id: value.id, event: value.event, data: value.data ?? null })),
            )
            return
          }
          timer?.cancel()
          controller.close()
        } catch (error) {
          timer?.cancel()
          throw error
        }
      },
      async cancel() {
        timer?.cancel()
        await events.return?.()
      },
    },
    new ByteLengthQueuingStrategy({ highWaterMark: STREAM_BYTES_MAX }),
  )
}

function field(name: string, text: string): string {
  // A line break would end the field and begin another; a browser ignores an id with a NUL in it.
  if (!/[\r\n\0]/.test(text)) return text
  throw invalid(`the ${name} of an event must be one line`)
}

const invalid = (message: string): RedressError => new RedressError('OPTION_INVALID', `${message}.`)
