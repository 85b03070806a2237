import type { OutgoingHttpHeaders } from 'node:http'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Hub } from '../../app/events/hub.ts'
import type { HubEvent } from '../../app/events/hub-events.ts'
import type { Subscription } from '../../app/events/subscription.ts'
import { RedressError } from '../../core/errors.ts'
import type { OwnerCodes } from '../../core/views/for-owner.ts'
import { type Caller, inScope } from '../../operations/caller.ts'
import { requireTopicAccess } from '../../operations/topics.ts'
import type { Store } from '../../store/contract/store.ts'
import { type FindCaller, neededCaller } from '../callers/callers.ts'
import { clientAddress } from '../callers/client-address.ts'
import type { HttpLimits } from '../limits.ts'
import { collectChanges, type EventSource } from './changes.ts'
import { OpenStreams } from './stream-limits.ts'
import { writeEvents } from './write-events.ts'

/** Whether a caller may hear a topic of an app's own: of `campaign:9`, `name` is '9'. */
export type MayHear = (caller: Caller, name: string) => boolean | Promise<boolean>

export interface EventsOptions {
  hub: Hub
  store: () => Promise<Store>
  findCaller: FindCaller
  limits: HttpLimits
  /** By the first part of a topic. */
  ownTopics: ReadonlyMap<string, MayHear>
  /** How owners see the codes of failures. */
  ownerCodes: OwnerCodes
}

/**
 * `GET /api/events`: streams the events of topics. Every topic is authorized when the stream opens (`authorizeTopic`),
 * and every open stream is authorized again at an interval (`reauthorize`).
 */
export function addEvents(
  server: FastifyInstance,
  { hub, store, findCaller, limits, ownTopics, ownerCodes }: EventsOptions,
): { close(): void } {
  const streams = new OpenStreams(limits)
  const listening = new Map<Subscription, FastifyRequest>()

  // A HEAD request would wait until the stream ends.
  server.get('/api/events', { exposeHeadRoute: false }, async (request, reply) => {
    const caller = await neededCaller(findCaller, request)
    const topics = topicsOf(request, caller, limits.topicsPerStreamMax)
    const everyMs = everyMsOf(request)
    for (const topic of topics) await authorizeTopic(await store(), caller, topic, ownTopics)
    const leave = streams.enter(caller.name, clientAddress(request))
    let subscription: Subscription | null = null
    const end = () => {
      if (subscription !== null) listening.delete(subscription)
      void subscription?.return()
      leave()
    }
    try {
      subscription = hub.subscribe({ topics, after: lastIdOf(request), behindMax: limits.streamBehindMax })
      listening.set(subscription, request)
      // The request closes as soon as it was read; the response closes when the client leaves.
      reply.raw.once('close', end)
      // The client must miss no event that it causes after it received the response headers.
      await subscription.ready
      // The client left while the subscription was prepared: no `close` event follows.
      if (reply.raw.destroyed) end()
      const heard = heardBy(caller, subscription, ownerCodes)
      const events = everyMs === null ? heard : collectChanges(heard, everyMs)
      reply.hijack()
      reply.raw.writeHead(200, { ...(reply.getHeaders() as OutgoingHttpHeaders), ...STREAM_HEADERS })
      void writeEvents(reply.raw, events)
    } catch (error) {
      end()
      throw error
    }
  })

  /** Ends the streams of callers whose token or session is no longer valid. */
  const reauthorize = async () => {
    for (const [subscription, request] of listening) {
      const caller = await findCaller(request).catch((error: unknown) => error)
      // A store that does not answer proves nothing: the stream stays open until the next check.
      if (caller === null || isRefusal(caller)) subscription.end('stopped')
    }
    if (!isClosed) timer = setTimeout(() => void reauthorize(), limits.streamCheckMs)
  }
  let isClosed = false
  let timer = setTimeout(() => void reauthorize(), limits.streamCheckMs)
  timer.unref()
  return {
    close: () => {
      isClosed = true
      clearTimeout(timer)
      for (const subscription of listening.keys()) subscription.end('stopped')
    },
  }
}

const STREAM_HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store',
  'x-accel-buffering': 'no',
}

const isRefusal = (error: unknown): boolean => error instanceof RedressError && error.httpStatus < 500

async function authorizeTopic(
  store: Store,
  caller: Caller,
  topic: string,
  ownTopics: ReadonlyMap<string, MayHear>,
): Promise<void> {
  const [thing = ''] = topic.split(':')
  const may = ownTopics.get(thing)
  if (may === undefined || caller.role !== 'owner') return requireTopicAccess(store, caller, topic)
  if (await may(caller, topic.slice(thing.length + 1))) return
  throw new RedressError('ROLE_TOO_LOW', `The topic ${topic} is not for ${caller.name}.`)
}

function heardBy(caller: Caller, subscription: Subscription, codes: OwnerCodes): EventSource {
  if (caller.role === 'owner') return ownOnly(subscription, caller.account, codes)
  if (inScope(caller.scopes, 'jobs.logs')) return subscription
  return selected(subscription, ({ event }) => event !== 'job.log')
}

/** A batch of an owner can contain jobs of other owners: their events are left out. */
function ownOnly(subscription: Subscription, account: string | null, codes: OwnerCodes): EventSource {
  const isOwn = ({ event, data }: HubEvent): boolean =>
    !event.startsWith('job.') || (data as { owner?: unknown } | null)?.owner === account
  return selected(subscription, isOwn, (event) => eventForOwner(event, codes))
}

/** Some of the events, perhaps changed. */
function selected(
  subscription: Subscription,
  isHeard: (event: HubEvent) => boolean,
  shown: (event: HubEvent) => HubEvent = (event) => event,
): EventSource {
  return {
    async next() {
      for (;;) {
        const result = await subscription.next()
        if (result.done) return result
        if (isHeard(result.value)) return { done: false, value: shown(result.value) }
      }
    },
    takeWaiting: () => subscription.takeWaiting().filter(isHeard).map(shown),
    return: () => subscription.return(),
  }
}

function eventForOwner(event: HubEvent, codes: OwnerCodes): HubEvent {
  const { type, kind, errorCode } = (event.data ?? {}) as { type?: unknown; kind?: unknown; errorCode?: unknown }
  if (!event.event.startsWith('job.') || typeof type !== 'string' || typeof errorCode !== 'string') return event
  const shown = codes(type, errorCode)
  if (shown === null) return event
  const errorMessage = kind === 'failed' ? shown.message : shown.waiting
  return { ...event, data: { ...(event.data as object), errorCode: shown.code, errorMessage } }
}

function topicsOf(request: FastifyRequest, caller: Caller, most: number): string[] {
  const { topic } = request.query as { topic?: string | string[] }
  const asked = topic === undefined ? [] : Array.isArray(topic) ? topic : [topic]
  if (asked.length > most) throw new RedressError('REQUEST_INVALID', `A stream has at most ${most} topics.`)
  if (asked.length > 0) return asked
  return [caller.role === 'owner' ? `owner:${caller.account}` : '*']
}

const EVERY_MS_MIN = 250
const EVERY_MS_MAX = 60_000

/** `every=1000`: events are collected and sent together, once in this many milliseconds. */
function everyMsOf(request: FastifyRequest): number | null {
  const { every } = request.query as { every?: string | string[] }
  if (every === undefined) return null
  const ms = Number(every)
  if (Number.isInteger(ms) && ms >= EVERY_MS_MIN && ms <= EVERY_MS_MAX) return ms
  throw new RedressError('REQUEST_INVALID', `every: must be ${EVERY_MS_MIN} to ${EVERY_MS_MAX} milliseconds.`)
}

/** A browser sends the header when it reconnects; a reloaded page can put the same id into the URL. */
function lastIdOf(request: FastifyRequest): string | null {
  const { after } = request.query as { after?: string | string[] }
  const given = request.headers['last-event-id'] ?? after
  return typeof given === 'string' && given !== '' ? given : null
}
