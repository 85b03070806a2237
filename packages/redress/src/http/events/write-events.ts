import type { ServerResponse } from 'node:http'
import type { HubEvent } from '../../app/events/hub-events.ts'
import { formatSse, sseComment } from '../../sse/index.ts'

const HEARTBEAT_MS = 15_000
const RETRY_MS = 2_000
const COMMENT = sseComment()

/** An event has the same text for every stream, so it is formatted once. */
const WORDS = new WeakMap<HubEvent, string>()

function wordsOf(told: HubEvent): string {
  const known = WORDS.get(told)
  if (known !== undefined) return known
  const words = formatSse({ id: told.id, event: told.event, data: told.data ?? null })
  WORDS.set(told, words)
  return words
}

/**
 * Writes events to one client until either side ends. Events that the client does not read stay in the subscription,
 * which is bounded. Without a stream in between: there are thousands of these, and most of the time nothing happens.
 */
export async function writeEvents(response: ServerResponse, events: AsyncIterator<HubEvent>): Promise<void> {
  // Written at once, so that the headers are sent before the first event.
  response.write(formatSse({ retryMs: RETRY_MS }))
  const heartbeat = setTimeout(() => {
    // A reader that does not read is not helped by more to read; the connection is closed when nothing moves on it.
    if (!response.writableNeedDrain && !response.destroyed) response.write(COMMENT)
    heartbeat.refresh()
  }, HEARTBEAT_MS)
  try {
    for (;;) {
      const { done, value } = await events.next()
      if (done || response.destroyed) break
      heartbeat.refresh()
      if (!response.write(wordsOf(value))) await drained(response)
    }
    response.end()
  } catch {
    // What cannot be put into words ends the stream: the reader comes back after the last event it has.
    response.destroy()
  } finally {
    clearTimeout(heartbeat)
  }
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done)
      response.off('close', done)
      resolve()
    }
    response.on('drain', done)
    response.on('close', done)
    if (response.destroyed) done()
  })
}
