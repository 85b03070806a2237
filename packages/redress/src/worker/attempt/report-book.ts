import { LOG_LINES_MAX, type LogEntry, type Progress, progressEventMs } from '../../core/job/reports.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Report } from '../../store/contract/reports.ts'
import type { Close } from '../../store/contract/store.ts'

/** Lines wait this long for others, so that they are written together. */
const LINES_MS_MAX = 1_000
const PROGRESS_MS_MIN = 1_000

interface Line extends LogEntry {
  readonly number: number
  readonly atMonoMs: number
}

/** The part of a book that was sent and is not acknowledged yet. */
export interface Sent {
  readonly line: number
  readonly dropped: number
  readonly version: number
  readonly isEvent: boolean
  readonly atMonoMs: number
}

type Content = NonNullable<Close['report']>

/**
 * What the handler of one attempt reports, until the store has it. A line is kept until it is acknowledged, and has a number
 * by which the store knows it: so it can be sent again with the close.
 */
export class ReportBook {
  readonly #clock: Clock
  readonly #changed: () => void
  readonly #beganMonoMs: number
  #isClosed = false
  #lines: Line[] = []
  #lastNumber = 0
  #dropped = 0
  #droppedSent = 0
  /** When the first of those was dropped that the store has not counted. */
  #droppedMonoMs = 0
  #progress: Progress | null = null
  /** Counts the calls of `progress`: the newest one, the newest in the row of the job, and the newest that was an event. */
  #version = 0
  #versionInRow = 0
  #versionOfEvent = 0
  #rowMonoMs = Number.NEGATIVE_INFINITY
  #eventMonoMs = Number.NEGATIVE_INFINITY

  constructor(clock: Clock, changed: () => void) {
    this.#clock = clock
    this.#changed = changed
    this.#beganMonoMs = clock.monoMs()
  }

  log(entry: LogEntry): void {
    // The attempt has ended, though its handler may still run.
    if (this.#isClosed) return
    if (this.#lastNumber >= LOG_LINES_MAX) {
      if (this.#dropped++ === this.#droppedSent) this.#droppedMonoMs = this.#clock.monoMs()
    } else this.#lines.push({ ...entry, number: ++this.#lastNumber, atMonoMs: this.#clock.monoMs() })
    this.#changed()
  }

  progress(progress: Progress): void {
    if (this.#isClosed) return
    this.#progress = progress
    this.#version++
    this.#changed()
  }

  /** When something of it must be sent; infinity if there is nothing new. */
  get dueMonoMs(): number {
    const { atMonoMs } = this.#lines[0] ?? {}
    const lines = atMonoMs === undefined ? Number.POSITIVE_INFINITY : atMonoMs + LINES_MS_MAX
    const dropped = this.#dropped > this.#droppedSent ? this.#droppedMonoMs + LINES_MS_MAX : Number.POSITIVE_INFINITY
    return Math.min(lines, dropped, this.#rowDueMonoMs, this.#eventDueMonoMs)
  }

  get #rowDueMonoMs(): number {
    return this.#version > this.#versionInRow ? this.#rowMonoMs + PROGRESS_MS_MIN : Number.POSITIVE_INFINITY
  }

  get #eventDueMonoMs(): number {
    if (this.#version === this.#versionOfEvent) return Number.POSITIVE_INFINITY
    return this.#eventMonoMs + progressEventMs(this.#eventMonoMs - this.#beganMonoMs)
  }

  /** Everything that is not acknowledged, and a receipt for `acknowledge`. null if there is nothing. */
  take(): { report: Content; sent: Sent } | null {
    const nowMonoMs = this.#clock.monoMs()
    const isEvent = this.#eventDueMonoMs <= nowMonoMs
    return this.#content(nowMonoMs, isEvent, isEvent || this.#rowDueMonoMs <= nowMonoMs)
  }

  /** The attempt ends: the rest, for its close. Reports after this one are dropped. */
  close(): Content | null {
    this.#isClosed = true
    const hasProgress = this.#version > this.#versionOfEvent
    return this.#content(this.#clock.monoMs(), hasProgress, hasProgress)?.report ?? null
  }

  acknowledge({ line, dropped, version, isEvent, atMonoMs }: Sent): void {
    this.#lines = this.#lines.filter(({ number }) => number > line)
    this.#droppedSent = Math.max(this.#droppedSent, dropped)
    this.#droppedMonoMs = this.#clock.monoMs()
    if (version > this.#versionInRow) {
      this.#versionInRow = version
      this.#rowMonoMs = atMonoMs
    }
    if (!isEvent || version <= this.#versionOfEvent) return
    this.#versionOfEvent = version
    this.#eventMonoMs = atMonoMs
  }

  #content(atMonoMs: number, isEvent: boolean, hasProgress: boolean): { report: Content; sent: Sent } | null {
    const progress: Report['progress'] = hasProgress && this.#progress !== null ? { ...this.#progress, isEvent } : null
    if (this.#lines.length === 0 && this.#dropped === this.#droppedSent && progress === null) return null
    const lines = this.#lines.map(({ number, message, fields, atMonoMs: loggedMonoMs }) => ({
      ...{ number, message, fields, agoMs: atMonoMs - loggedMonoMs },
    }))
    const version = progress === null ? 0 : this.#version
    return {
      report: { lines, dropped: this.#dropped, progress },
      sent: { line: this.#lines.at(-1)?.number ?? 0, dropped: this.#dropped, version, isEvent, atMonoMs },
    }
  }
}
