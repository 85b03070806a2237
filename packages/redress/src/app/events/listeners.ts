import { RedressError } from '../../core/errors.ts'
import { EVENT_KINDS, type EventKind, SUBJECT_EVENTS, type SubjectEvents } from '../../core/job/events.ts'
import type { ReportKind } from '../../core/job/reports.ts'
import type { Status } from '../../core/job/states.ts'
import { isoTime } from '../../core/text/duration.ts'
import { nearest } from '../../core/text/names.ts'
import { optionNames, refuseUnknownOptions } from '../../core/text/options.ts'
import type { FeedEvent, JobFeedEvent } from '../../store/contract/feed.ts'
import type { AppHost } from '../host.ts'
import type { Hub } from './hub.ts'
import { sourceOf } from './hub-events.ts'
import type { Subscription } from './subscription.ts'

/** An event of a job, as a listener gets it. */
interface ListenedJobEvent {
  /** Its number in the store: only grows. */
  id: string
  at: string
  jobId: string
  type: string
  queue: string
  owner: string | null
  batchId: string | null
  /** The failed job that this one was made from. */
  retriedFrom: string | null
  attempt: number
  /** The state of the job after the event. */
  status: Status
}

/** The failure that an event is about. */
interface ListenedFailure {
  code: string
  message: string
}

/** An event of a batch, a breaker, a queue, a schedule, a replay or a failure group. */
interface ListenedSubjectEvent {
  /** Its number in the store: only grows. */
  id: string
  at: string
  /** `batch:ID`, `breaker:NAME`, ... */
  subject: string
  data: Record<string, unknown>
}

/** What some events of jobs have beside the fields of all. */
interface ListenedDetails {
  failed: { failure: ListenedFailure | null }
  retry: { failure: ListenedFailure | null; retryAfter: string | null }
  log: { line: number; message: string; fields: Record<string, unknown> | null }
  progress: { progress: number; done: number | null; total: number | null; note: string | null }
}

type JobKind = EventKind | ReportKind
type DetailsOf<Kind> = Kind extends keyof ListenedDetails ? ListenedDetails[Kind] : object
type JobEvents = { [Kind in JobKind as `job.${Kind}`]: ListenedJobEvent & DetailsOf<Kind> }
type SubjectNames = { [Thing in keyof SubjectEvents]: `${Thing}.${SubjectEvents[Thing][number]}` }[keyof SubjectEvents]

/** Every event that `app.on` knows, with what its listener gets. */
export type AppEvents = JobEvents & { [Name in SubjectNames]: ListenedSubjectEvent }

/** The options of `app.on()`. */
export interface ListenOptions {
  /** Only events of these topics: `['type:pdf.convert', 'owner:ann']`. Every event of the store when left out. */
  topics?: readonly string[]
}

const OPTIONS = optionNames<ListenOptions>({ topics: true })

/** Removes a listener. */
export interface RemoveListener {
  (): void
  /** Resolves when the listener gets every event that happens from now on. */
  readonly ready: Promise<void>
}

const NAMES: readonly string[] = [
  ...[...EVENT_KINDS, 'log', 'progress'].map((kind) => `job.${kind}`),
  ...Object.entries(SUBJECT_EVENTS).flatMap(([thing, kinds]) => kinds.map((kind) => `${thing}.${kind}`)),
]

/**
 * Calls a listener for each event of one kind, in order and one at a time: the next event waits until the listener has
 * answered. A listener that is too slow for the hub continues from its last event, so it misses none while the app runs.
 */
export function addListener(
  hub: Hub,
  host: AppHost,
  name: string,
  listener: (event: never) => unknown,
  options: ListenOptions = {},
): RemoveListener {
  refuseUnknownOptions('app.on()', options, OPTIONS)
  if (!NAMES.includes(name)) throw unknownName(name)
  if (typeof listener !== 'function') {
    throw new RedressError('OPTION_INVALID', `The listener of app.on(${JSON.stringify(name)}) must be a function.`)
  }
  const topics = options.topics ?? ['*']
  let isRemoved = false
  let subscription: Subscription = hub.subscribe({ topics })
  const listen = async (): Promise<void> => {
    let after: string | null = null
    for (;;) {
      let isStopped = true
      for await (const event of subscription) {
        if (isRemoved) return
        if (event.id === null) {
          const { reason } = event.data as { reason: string }
          if (event.event === 'end') isStopped = reason === 'stopped'
          else host.log.warn({ event: name, ...(event.data as object) }, 'a listener of app.on missed events')
          continue
        }
        after = event.id
        if (event.event !== name) continue
        const source = sourceOf(event)
        if (source === null) continue
        try {
          await listener(shown(source) as never)
        } catch (error) {
          host.log.error({ err: error, event: name, id: event.id }, 'a listener of app.on failed')
        }
      }
      if (isStopped || isRemoved) return
      subscription = hub.subscribe({ topics, after })
    }
  }
  void listen()
  const remove = () => {
    isRemoved = true
    void subscription.return()
  }
  return Object.assign(remove, { ready: subscription.ready })
}

function shown(event: FeedEvent): object {
  const seen = { id: String(event.seq), at: isoTime(event.atMs) }
  if (event.subject !== null) return { ...seen, subject: event.subject, data: event.data }
  const { jobId, type, queue, owner, batchId, retriedFrom, attempt, status } = event
  return { ...seen, jobId, type, queue, owner, batchId, retriedFrom, attempt, status, ...detailsOf(event) }
}

function detailsOf({ kind, failure, data }: JobFeedEvent): object {
  const listened = failure === null ? null : { code: failure.code, message: failure.message }
  const { dueAtMs, line, message, fields = null, progress, done = null, total = null, note = null } = data
  switch (kind) {
    case 'failed':
      return { failure: listened }
    case 'retry':
      return { failure: listened, retryAfter: dueAtMs === undefined ? null : isoTime(dueAtMs) }
    case 'log':
      return { line, message, fields }
    case 'progress':
      return { progress, done, total, note }
    default:
      return {}
  }
}

function unknownName(name: unknown): RedressError {
  const meant = nearest(String(name), NAMES)
  return new RedressError('OPTION_INVALID', `app.on() has no event ${JSON.stringify(name)}.`, {
    action:
      meant === null
        ? 'Use an event such as job.failed or batch.settled; for events of your own mappers, use app.hub.subscribe().'
        : `Did you mean ${JSON.stringify(meant)}?`,
  })
}
