import type { HubEvent } from '../../app/events/hub-events.ts'

/** The changes of an interval, bounded in size. A page then reads the data that it shows. */
export interface Changes {
  /** How often each kind of event happened. */
  events: Record<string, number>
  /** Changed subjects: `job:ID`, `batch:ID`, `breaker:NAME`, ... */
  subjects: string[]
  types: string[]
  /** There are more changes than listed, or unknown ones. */
  isMore: boolean
}

const SUBJECTS_MAX = 200
const TYPES_MAX = 100
/** Sent even without changes: browsers hide SSE comments from pages, which must know that the stream is alive. */
const SILENCE_MS_MAX = 15_000

/** Events one by one, and all buffered ones at once. */
export interface EventSource extends AsyncIterator<HubEvent> {
  takeWaiting(): readonly HubEvent[]
}

/**
 * Collects events and sends them together, at most once per interval. A busy store has thousands of events a second,
 * which no page can show, and a slow page must not fall behind.
 */
export function collectChanges(source: EventSource, everyMs: number): AsyncIterator<HubEvent> {
  let coming: Promise<IteratorResult<HubEvent>> | null = null
  let ending: IteratorResult<HubEvent> | null = null
  let toldAtMs = Number.NEGATIVE_INFINITY

  async function next(): Promise<IteratorResult<HubEvent>> {
    if (ending !== null) return ended()
    const changes = new ChangeSet()
    let alarm = new Alarm(SILENCE_MS_MAX)
    for (;;) {
      coming ??= source.next()
      const result = await Promise.race([coming, alarm.rings])
      if (result === null) break
      coming = null
      if (result.done || result.value.event === 'end') {
        ending = result
        // Collected changes are sent first, then the end event.
        if (!changes.isEmpty) break
        alarm.stop()
        return ended()
      }
      if (changes.isEmpty) {
        alarm.stop()
        alarm = new Alarm(toldAtMs + everyMs - performance.now())
      }
      changes.add(result.value)
      for (const event of source.takeWaiting()) changes.add(event)
    }
    alarm.stop()
    toldAtMs = performance.now()
    return { done: false, value: changes.told() }
  }

  /** The end event is sent once. */
  function ended(): IteratorResult<HubEvent> {
    const told = ending ?? OVER
    ending = OVER
    return told
  }

  return { next, return: async () => (await source.return?.()) ?? OVER }
}

const OVER: IteratorResult<HubEvent> = { done: true, value: undefined }

/** One timer per interval, however many events arrive. */
class Alarm {
  readonly rings: Promise<null>
  readonly #timer: ReturnType<typeof setTimeout>

  constructor(afterMs: number) {
    const { promise, resolve } = Promise.withResolvers<null>()
    this.rings = promise
    this.#timer = setTimeout(() => resolve(null), Math.max(0, afterMs))
  }

  stop(): void {
    clearTimeout(this.#timer)
  }
}

class ChangeSet {
  readonly #events = new Map<string, number>()
  readonly #subjects = new Set<string>()
  readonly #types = new Set<string>()
  #isMore = false
  #lastId: string | null = null

  get isEmpty(): boolean {
    return this.#events.size === 0
  }

  add({ id, event, topics, data }: HubEvent): void {
    this.#lastId = id ?? this.#lastId
    this.#events.set(event, (this.#events.get(event) ?? 0) + 1)
    // A gap: unknown events were removed.
    if (id === null) this.#isMore = true
    for (const topic of topics) {
      // A line of a log changes nothing of its type.
      if (event === 'job.log' && !topic.startsWith('log:')) continue
      if (topic.startsWith('type:')) this.#put(this.#types, topic.slice('type:'.length), TYPES_MAX)
      // Job events are no changes of the owner or the queue; a pause is a change of the queue.
      else if (!topic.startsWith('owner:') && !(topic.startsWith('queue:') && event.startsWith('job.'))) {
        this.#put(this.#subjects, topic, SUBJECTS_MAX)
      }
    }
    // The original job of a retry has no event, but its page shows the state of the retry.
    const { retriedFrom } = (data ?? {}) as { retriedFrom?: string }
    if (event.startsWith('job.') && retriedFrom !== undefined) {
      this.#put(this.#subjects, `job:${retriedFrom}`, SUBJECTS_MAX)
    }
  }

  told(): HubEvent {
    const changes: Changes = {
      events: Object.fromEntries(this.#events),
      subjects: [...this.#subjects],
      types: [...this.#types],
      isMore: this.#isMore,
    }
    return { id: this.#lastId, topics: [], event: 'changes', data: changes }
  }

  #put(to: Set<string>, value: string, most: number): void {
    if (to.size < most) to.add(value)
    else if (!to.has(value)) this.#isMore = true
  }
}
