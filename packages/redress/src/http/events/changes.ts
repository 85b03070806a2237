import type { HubEvent } from '../../app/events/hub-events.ts'

/** What happened in a stretch of time, however much it was: for a page that then asks for what it shows. */
export interface Changes {
  /** How often each kind of event happened. */
  events: Record<string, number>
  /** What it happened to: `job:ID`, `batch:ID`, `breaker:NAME`, ... */
  subjects: string[]
  types: string[]
  /** More happened than is listed, or is known. */
  isMore: boolean
}

const SUBJECTS_MAX = 200
const TYPES_MAX = 100
/** Also when nothing happened: a browser does not tell its pages of comments, and they must know that we are there. */
const SILENCE_MS_MAX = 15_000

/** Events that come one by one, and those that wait already at once. */
export interface EventSource extends AsyncIterator<HubEvent> {
  takeWaiting(): readonly HubEvent[]
}

/**
 * Gathers events and tells them together, at most once in so long. A busy store has thousands of events a second, and
 * no page can show them all; to fall behind for their sake would help nobody.
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
        // What was gathered is told first, and then why there is no more.
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

  /** The end is told once. */
  function ended(): IteratorResult<HubEvent> {
    const told = ending ?? OVER
    ending = OVER
    return told
  }

  return { next, return: async () => (await source.return?.()) ?? OVER }
}

const OVER: IteratorResult<HubEvent> = { done: true, value: undefined }

/** One for a whole stretch of time, however many events come in it. */
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
    // Something was removed that we have not told: nobody knows what.
    if (id === null) this.#isMore = true
    for (const topic of topics) {
      if (topic.startsWith('type:')) this.#put(this.#types, topic.slice('type:'.length), TYPES_MAX)
      // An owner's and a queue's many jobs are no news about them; a queue that was paused is.
      else if (!topic.startsWith('owner:') && !(topic.startsWith('queue:') && event.startsWith('job.'))) {
        this.#put(this.#subjects, topic, SUBJECTS_MAX)
      }
    }
    // The job that a person retried has no event of its own, and whoever looks at it waits for what becomes of that.
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
