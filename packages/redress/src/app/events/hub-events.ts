import { SUBJECT_EVENTS } from '../../core/job/events.ts'
import { isoTime } from '../../core/text/duration.ts'
import type { FeedEvent, FeedFilter, JobFeedEvent } from '../../store/contract/feed.ts'

/** An event as subscribers get it. */
export interface HubEvent {
  /** To go on from here: `subscribe({ after: id })`. null on what is said about the subscription itself. */
  id: string | null
  /** All that it was published on. */
  topics: readonly string[]
  /** `job.failed`, `batch.settled`, ... or a name of the app's own. */
  event: string
  data: unknown
}

/** An app's own event, made from one of the store's. */
export interface MappedEvent {
  topics: readonly string[]
  event: string
  data: unknown
}

/** The argument of a mapper: the store's event, and the input of the job it is about, read when it is asked for. */
export type MappableEvent = FeedEvent & {
  /** null when it is not about a job, or the job is gone. */
  input(): Promise<unknown>
}

/** Makes events of an app's own from an event of the store. */
export type Mapper = (
  event: MappableEvent,
) => readonly MappedEvent[] | null | undefined | Promise<readonly MappedEvent[] | null | undefined>

/** The store's events, with what only operators may know. They are kept apart, so that no server can send them by accident. */
const SOURCES = new WeakMap<HubEvent, FeedEvent>()

/** The store's event that a subscriber's event shows; null for events of an app's own. */
export const sourceOf = (event: HubEvent): FeedEvent | null => SOURCES.get(event) ?? null

/** The event itself, as every app publishes it. */
export function ownEvent(event: FeedEvent): HubEvent {
  const own = publicEvent(event)
  SOURCES.set(own, event)
  return own
}

function publicEvent(event: FeedEvent): HubEvent {
  const id = String(event.seq)
  if (event.subject !== null) {
    const [thing = ''] = event.subject.split(':')
    const data = { at: isoTime(event.atMs), subject: event.subject, kind: event.kind, ...event.data }
    return { id, topics: [event.subject], event: `${thing}.${event.kind}`, data }
  }
  return { id, topics: topicsOf(event), event: `job.${event.kind}`, data: publicData(event) }
}

/**
 * Owners may hear the topics of their jobs, batches and their own name. A line of a log is for operators, so it is on none of
 * these.
 */
function topicsOf({ kind, jobId, type, queue, owner, batchId, data }: JobFeedEvent): string[] {
  if (kind === 'log') return [`log:${jobId}`, `type:${type}`, `queue:${queue}`]
  const topics = [`job:${jobId}`, `type:${type}`, `queue:${queue}`]
  if (owner !== null) topics.push(`owner:${owner}`)
  if (batchId !== null) topics.push(`batch:${batchId}`)
  if (data.schedule !== undefined) topics.push(`schedule:${data.schedule}`)
  return topics
}

/** What an owner may see: no worker, no operator's words, and failures as their policy shows them. */
function publicData(event: JobFeedEvent): object {
  const { atMs, kind, jobId, type, queue, owner, batchId, retriedFrom, attempt, status, failure, data } = event
  const shown = failure?.isPublic ? failure : null
  return {
    at: isoTime(atMs),
    kind,
    jobId,
    type,
    queue,
    owner,
    batchId,
    attempt,
    status,
    errorCode: shown?.code ?? null,
    errorMessage: shown?.message ?? null,
    ...(retriedFrom !== null && { retriedFrom }),
    ...(data.dueAtMs !== undefined && { retryAfter: isoTime(data.dueAtMs) }),
    ...reportOf(event),
  }
}

function reportOf({ kind, data }: JobFeedEvent): object {
  const { line, message, fields = null, progress, done = null, total = null, note = null } = data
  if (kind === 'log') return { line, message, fields }
  return kind === 'progress' ? { progress, done, total, note } : {}
}

/**
 * How far a subscriber has come. An app's own events come before the one they were made from and are counted: '17.1',
 * '17.2', '17'. So a bare number means that nothing of that event is left.
 */
export interface Position {
  seq: number
  part: number
}

export const WHOLE = Number.POSITIVE_INFINITY

const ID = /^(\d{1,15})(?:\.(\d{1,6}))?$/

/** null when it is not an id that an event could have. */
export function positionOf(id: string | number): Position | null {
  const found = ID.exec(String(id))
  if (found === null) return null
  return { seq: Number(found[1]), part: found[2] === undefined ? WHOLE : Number(found[2]) }
}

export const isAfter = (one: Position, other: Position): boolean =>
  one.seq > other.seq || (one.seq === other.seq && one.part > other.part)

/**
 * Topics of the store's own events. An app's mapper may use the topics of its event, and topics of the app's own
 * kinds.
 */
const STORE_KINDS: ReadonlySet<string> = new Set(['job', 'log', 'type', 'owner', ...Object.keys(SUBJECT_EVENTS)])

const kindOf = (topic: string): string => topic.slice(0, topic.indexOf(':'))

export const isStoreTopic = (topic: string): boolean => STORE_KINDS.has(kindOf(topic))

/** The store events that can match these topics; undefined if unknown, or if any event can match. */
export function filterOf(topics: Iterable<string>): FeedFilter | undefined {
  const named = new Map<string, string[]>([...STORE_KINDS].map((kind) => [kind, []]))
  const subjects: string[] = []
  for (const topic of topics) {
    const names = named.get(kindOf(topic))
    if (names === undefined) return undefined
    names.push(topic.slice(topic.indexOf(':') + 1))
    subjects.push(topic)
  }
  const of = (kind: string): string[] => named.get(kind) ?? []
  return {
    jobs: [...of('job'), ...of('log')],
    types: of('type'),
    queues: of('queue'),
    owners: of('owner'),
    batches: of('batch'),
    subjects,
    hasSchedules: of('schedule').length > 0,
  }
}
