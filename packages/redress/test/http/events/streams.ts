import { request } from 'node:http'
import { createParser } from 'eventsource-parser'
import { onTestFinished } from 'vitest'
import { until } from '../../../../../test/support/until.ts'
import type { World } from '../world.ts'

interface ReceivedEvent {
  id: string | undefined
  event: string | undefined
  // biome-ignore lint/suspicious/noExplicitAny: what is told is what the tests look into
  data: any
}

export interface ReadStream {
  status: number
  told: ReceivedEvent[]
  retryMs: number | undefined
  ended: Promise<void>
  isEnded(): boolean
  /** Waits for an event of this name. */
  hear(event: string): Promise<ReceivedEvent>
  leave(): void
}

/** A browser on `/api/events`, as far as one is needed. Resolves with the head of the answer. */
export function listen(
  { server, tokens }: Pick<World, 'server' | 'tokens'>,
  as: keyof World['tokens'],
  query = '',
  headers: Record<string, string> = {},
): Promise<ReadStream> {
  return new Promise((resolve, reject) => {
    const asked = request(`${server.url}/api/events${query}`, {
      agent: false,
      headers: { authorization: `Bearer ${tokens[as]}`, ...headers },
    })
    asked.once('error', reject)
    asked.once('response', (response) => {
      asked.on('error', () => undefined)
      const stream: Omit<ReadStream, 'status'> = {
        told: [],
        retryMs: undefined,
        ended: new Promise((done) => response.once('close', done)),
        isEnded: () => response.closed,
        hear: (event) => until(`${event} is told`, () => stream.told.find((one) => one.event === event)),
        leave: () => void asked.destroy(),
      }
      const parser = createParser({
        onEvent: ({ id, event, data }) => void stream.told.push({ id, event, data: JSON.parse(data) }),
        onRetry: (ms) => {
          stream.retryMs = ms
        },
      })
      response.setEncoding('utf8')
      response.on('error', () => undefined)
      response.on('data', (text: string) => parser.feed(text))
      onTestFinished(() => void asked.destroy())
      resolve(Object.assign(stream, { status: response.statusCode ?? 0 }))
    })
    asked.end()
  })
}
